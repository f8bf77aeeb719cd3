"""The TextMate grammar and the Pygments lexer: both see every snippet of the corpus in the same way, and rightly."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String

from lossdsl.source.data import grammar_text
from lossdsl.syntax.pygments_lexer import LossLexer

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.loss"))
GRAMMAR: dict[str, Any] = json.loads(grammar_text("editors/loss.tmLanguage.json"))

# A letter a character: what it is, coarse enough for both.
CLASSES = [
    (Comment, "comment", "c"), (String, "string", "s"), (Keyword.Type, "storage", "t"), (Keyword, "keyword.d", "k"),
    (Keyword, "keyword.control", "k"), (Operator.Word, "keyword.operator.word", "o"), (Number, "constant.numeric", "9"),
    (Name.Constant, "variable.other.constant", "A"), (Name.Function, "entity.name.function", "f"),
    (Name.Class, "entity.name.class", "L"), (Name, "variable.other", "v"), (Operator, "keyword.operator", "+"),
    (Punctuation, "punctuation", "."),
]  # fmt: skip

SNIPPETS = {
    "loss focal": "kkkk LLLLL",
    "input logits[N, C]: prob C fixed = 1 in [0, inf)": "kkkkk vvvvvv.A. A.. tttt A kkkkk + 9 kk .9. 999.",
    "input m[N]: bool  # a 'mask'": "kkkkk v.A.. tttt  c c cccccc",
    "param tau = 0.5e-3 learnable": "kkkkk vvv + 999999 kkkkkkkkk",
    "param act = tanh in {tanh, relu}": "kkkkk vvv + vvvv kk .vvvv. vvvv.",
    "axis C' where m": "kkkk AA kkkkk v",
    "input = 3": "vvvvv + 9",
    "z = softmax[C](x')[y] ^ -2": "v + fffffff.A..vv..v. + +9",
    "z = x[T -> T - 1]": "v + v.A ++ A + 9.",
    "q = not a and b or c != d": "v + ooo v ooo v oo v ++ v",
    "y = if K'' >= K then γ1 else pi": "v + kk AAA ++ A kkkk vv kkkk 99",
    "y = x |> f(a where m weighted w, t = 1)": "v + v ++ f.v kkkkk v kkkkkkkk v. v + 9.",
    "def g[A](z, y: index A) = z": "kkk f.A..v. v. ttttt A. + v",
    "claim loss >= 0 when gamma -> 0": "kkkkk vvvv ++ 9 kkkk vvvvv ++ 9",
    "example x = [1] gives 2": "kkkkkkk v + .9. kkkkk 9",
    'cite "Lin, 2017"  # c': "kkkk sssss sssss  c c",
    '"""A doc\nof # two lines"""\nreturn x': "ssss sss\nss s sss ssssssss\nkkkkkk v",
    "inferred = einf": "vvvvvvvv + vvvv",
}


def lexed(text: str) -> str:
    out = []
    for token, piece in LossLexer(stripnl=False, ensurenl=False).get_tokens(text):
        letter = next((c for kind, _, c in CLASSES if token in kind), " ")
        out.append(re.sub(r"\S", letter, piece))
    return "".join(out)


def scoped(text: str) -> str:
    """The same by the TextMate grammar, read as an editor reads it: line by line, the first match at each place."""
    out: list[str] = []
    ending: str | None = None
    for line in text.splitlines(keepends=True):
        at = 0
        while at < len(line):
            if ending is not None:
                end = re.compile(ending).search(line, at)
                stop = end.end() if end else len(line)
                ending = None if end else ending
                out.append(re.sub(r"\S", "s", line[at:stop]))
                at = stop
                continue
            found = [(m, rule) for rule in GRAMMAR["patterns"] for m in matches(rule, line, at)]
            if not found:
                out.append(line[at:])
                break
            match, rule = min(found, key=lambda pair: pair[0].start())
            out.append(line[at : match.start()])
            out.append(paint(match, rule))
            ending = rule.get("end")
            at = match.end()
    return re.sub(r"[^\S\n ]", " ", "".join(out))


def matches(rule: dict[str, Any], line: str, at: int) -> Iterator[re.Match[str]]:
    match = re.compile(rule.get("match") or rule["begin"]).search(line, at)
    if match and match.end() > match.start():
        yield match


def paint(match: re.Match[str], rule: dict[str, Any]) -> str:
    text = list(match.group())
    names = {0: rule["name"]} if "name" in rule else {int(k): v["name"] for k, v in rule["captures"].items()}
    for group, name in names.items():
        letter = next(c for _, scope, c in CLASSES if name.startswith(scope))
        for i in range(*match.span(group)):
            if not match.string[i].isspace():
                text[i - match.start()] = letter
    return "".join(text)


@pytest.mark.parametrize("text", SNIPPETS)
def test_snippet(text: str) -> None:
    assert lexed(text) == SNIPPETS[text]
    assert scoped(text) == SNIPPETS[text]


@pytest.mark.parametrize("path", CORPUS, ids=lambda p: p.stem)
def test_corpus_looks_alike_in_both(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert lexed(text) == scoped(text)
    assert len(lexed(text)) == len(text)


def test_lexer_is_found_by_name() -> None:
    (point,) = entry_points(group="pygments.lexers", name="loss")
    assert point.load() is LossLexer
