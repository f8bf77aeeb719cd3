"""Files that went wrong by a slip or two: checked, or told what is wrong; never anything else."""

from __future__ import annotations

import os
import random
import re
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from lossdsl import api
from lossdsl.check.dump import dump
from lossdsl.pipeline import build, front
from lossdsl.source.diagnostic import Diagnostic, DiagnosticError
from lossdsl.source.render import render_github, render_json, render_terminal
from lossdsl.source.text import Source
from tests.check.helpers import CASES

TOKEN = re.compile(r"[A-Za-z_]\w*'*|\d+(?:\.\d+)?(?:e-?\d+)?|->|\|>|==|!=|<=|>=|\"\"\"|.|\n", re.DOTALL)
FULL = os.environ.get("LOSSDSL_FULL_TESTS") == "1"
MOST, PARTS = (10_000, 4) if FULL else (300, 1)
SECONDS = 5


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


def texts() -> list[str]:
    """Every file of the packs, and those of tests."""
    files = [Path(file.path) for _, file in sorted(api.registry().losses.items())]
    return [path.read_text(encoding="utf-8") for path in (*files, *sorted(CASES.glob("*.loss")))]


def _told(source: Source, diagnostics: Sequence[Diagnostic]) -> None:
    for d in diagnostics:
        assert d.message
        assert all(0 <= x.span.start <= x.span.end <= len(source.text) for x in d.labels)
    for render in (render_terminal, render_json, render_github):
        assert render(source, diagnostics)


@pytest.mark.parametrize("part", range(PARTS))
def test_slips(part: int) -> None:
    """A slip gives a module, or Diagnostics. A quick run takes every tenth file that stays right on to the module."""
    known = texts()
    pool = [t for text in known for t in TOKEN.findall(text) if t.strip()]
    pick = random.Random(20261130 + part)
    found: Counter[str] = Counter()
    for _ in range(MOST // PARTS):
        text = _mutated(pick.choice(known), pick, pool)
        source = Source("slip.loss", text)
        try:
            assert dump(front(source, api.registry()).checked)
            found["right"] += 1
            if FULL or found["right"] % 10 == 0:
                started = time.process_time()
                assert build(source, api.registry(), "torch").artifact.text
                assert time.process_time() - started < SECONDS, text
        except DiagnosticError as error:
            found["wrong"] += 1
            _told(source, error.diagnostics)
    assert found["right"] > MOST / PARTS / 20
    assert found["wrong"] > MOST / PARTS / 4
