"""Files that went wrong by a slip or two: checked, or told what is wrong; never anything else."""

from __future__ import annotations

import random
import re
from collections import Counter

from lossdsl.check.check import check
from lossdsl.check.dump import dump
from lossdsl.source.diagnostic import DiagnosticError
from lossdsl.source.text import Source
from lossdsl.syntax.parse import parse
from tests.check.helpers import CASES, STANDARD, registry

TOKEN = re.compile(r"[A-Za-z_]\w*'*|\d+(?:\.\d+)?(?:e-?\d+)?|->|\|>|==|!=|<=|>=|\"\"\"|.|\n", re.DOTALL)
MOST = 400


def _is_name(token: str) -> bool:
    return token[0].isalpha()


def _mutated(text: str, pick: random.Random, pool: list[str]) -> str:
    tokens = TOKEN.findall(text)
    for _ in range(pick.choice((1, 1, 1, 2))):
        names = [i for i, t in enumerate(tokens) if _is_name(t)]
        i, kind = pick.choice(names), pick.random()
        if kind < 0.6:  # another name of the same case
            same = [t for t in tokens if _is_name(t) and t[0].isupper() == tokens[i][0].isupper()]
            tokens[i] = pick.choice(same if kind < 0.45 else pool)
        elif kind < 0.7:
            tokens[i] += "'"
        elif kind < 0.8:
            tokens.pop(pick.randrange(len(tokens)))
        elif kind < 0.9:
            tokens.insert(pick.randrange(len(tokens)), pick.choice(pool))
        else:
            j = pick.choice(names)
            tokens[i], tokens[j] = tokens[j], tokens[i]
    return "".join(tokens)


def test_slips() -> None:
    texts = [p.read_text(encoding="utf-8") for p in sorted([*STANDARD.glob("*.loss"), *CASES.glob("*.loss")])]
    pool = [t for text in texts for t in TOKEN.findall(text) if t.strip()]
    pick = random.Random(20261130)
    found: Counter[str] = Counter()
    for _ in range(MOST):
        text = _mutated(pick.choice(texts), pick, pool)
        source = Source("slip.loss", text)
        try:
            dump(check(parse(source), source, registry()))
            found["right"] += 1
        except DiagnosticError as error:
            found["wrong"] += 1
            for d in error.diagnostics:
                assert d.message
                assert all(0 <= x.span.start <= x.span.end <= len(text) for x in d.labels)
    assert found["right"] > MOST / 20
    assert found["wrong"] > MOST / 4
