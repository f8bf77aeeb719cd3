"""Files made to hurt: each ends quickly, in a tree or in diagnostics, and nothing else."""

from __future__ import annotations

import time

import pytest

from lossdsl.source.diagnostic import DiagnosticError
from lossdsl.source.render import render_github, render_json, render_terminal
from lossdsl.source.text import Source
from lossdsl.syntax.format import format_loss
from lossdsl.syntax.parse import parse

HEAD = "loss a\ninput x[N]\n"
LIMIT = 64 * 1024 - 200  # characters that fit beside the rest of a file


def body(expression: str) -> str:
    return f"{HEAD}return {expression}\n"


def fill(piece: str, room: int = LIMIT) -> str:
    return piece * (room // len(piece))


REFUSED = {
    "a hundred thousand brackets": (body("(" * 100_000), "E0101"),
    "brackets up to the size limit": (body(fill("(")), "E0102"),
    "closed ones": (body(fill("(", LIMIT // 2) + "x" + fill(")", LIMIT // 2)), "E0102"),
    "square ones": (body("x" + fill("[")), "E0102"),
    "a hundred and one": (body("(" * 101 + "x" + ")" * 101), "E0102"),
    "calls": (body(fill("f(")), "E0102"),
    "signs": (body(fill("-") + "x"), "E0101"),
    "ten thousand signs": (body(fill("-", 9900) + "x"), "E0102"),
    "nots": (body(fill("not ", 9900) + "x"), "E0102"),
    "ifs in else": (body(fill("if x then x else ", 9900) + "x"), "E0102"),
    "ifs in conditions": (body(fill("if ", 9900) + "x"), "E0121"),
    "powers": (body(fill("9^", 9900) + "9"), "E0102"),
    "sums": (body(fill("x+", 9900) + "x"), "E0102"),
    "pipes": (body("x" + fill("|> f()", 9900)), "E0102"),
    "picks": (body("x" + fill("[x]", 9900)), "E0102"),
    "comparisons": (body(fill("x<", 9900) + "x"), "E0119"),
    "a long name": (body(fill("x", 9900)), "E0110"),
    "a long number": (body(fill("9", 9900)), "E0118"),
    "a long exponent": (body("1e" + fill("9", 9900)), "E0118"),
    "a long power of ten": (body("1e999999999"), "E0118"),
    "a docstring that ends early": ('loss a\n"""doc""" + __import__("os").system("true")\n"""\nreturn x\n', "E0"),
    "a dunder": (body("__import__"), "E0110"),
    "quotes": (body(fill('"')), "E0"),
    "apostrophes": (body("x" + fill("'")), "E0"),
    "stars": (body(fill("*", 9900)), "E0106"),
    "dots": (body(fill("a.", 9900)), "E0129"),
    "numbers side by side": (body(fill("1 ", 9900)), "E0133"),
    "null": (body("\0"), "E0103"),
    "a surrogate": (body("\ud800"), "E0103"),
    "lines that are wrong": (HEAD + fill("= \n"), "E0"),
    "lines of letters": (HEAD + fill("q\n"), "E0132"),
    "unclosed on every line": (HEAD + fill("y = (\n") + "return x\n", "E0"),
    "operators": (body(fill("x * - ", 9900)), "E0"),
    "commas": (body(f"f({fill(',', 9900)})"), "E0127"),
    "nothing": ("", "E0115"),
    "blank": (fill(" \n\t"), "E0115"),
    "binary": ("".join(map(chr, range(256))) * 100, "E0"),
}  # fmt: skip

ACCEPTED = {
    "a long docstring": f'loss a\n"""{fill("a b")}"""\ninput x[N]\nreturn x\n',
    "a docstring of almost quotes": f'loss a\n"""{fill(chr(34) * 2 + "x")}"""\ninput x[N]\nreturn x\n',
    "a docstring of code": f'loss a\n"""import os; os.remove("{chr(92)}x")  # {{x}} %s"""\ninput x[N]\nreturn x\n',
    "comments": HEAD + fill("# c\n") + "return x\n",
    "a wide sum": body("(" + "+".join(["x"] * 80) + ")*" + "x"),
    "many arguments": body(f"f({fill('x,', 9900)}x)"),
    "a long vector": body(f"[{fill('1,', 9900)}1]"),
    "many statements": HEAD + "".join(f"y{i} = x + {i}\n" for i in range(3500)) + "return x\n",
    "a hundred brackets": body("(" * 100 + "x" + ")" * 100),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_time(name: str) -> None:
    text, code = REFUSED[name]
    source = Source("hostile.loss", text)
    started = time.process_time()
    with pytest.raises(DiagnosticError) as caught:
        parse(source)
    assert time.process_time() - started < 2  # far less on an idle machine; what is quadratic takes minutes
    diagnostics = caught.value.diagnostics
    assert any(d.code.startswith(code) for d in diagnostics)
    assert max(len(d.message) for d in diagnostics) < 200
    for render in (render_terminal, render_json, render_github):
        assert render(source, diagnostics[:10])


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted_in_time(name: str) -> None:
    started = time.process_time()
    parse(Source("big.loss", ACCEPTED[name]))
    assert time.process_time() - started < 4
    if "statements" not in name:
        assert format_loss(Source("big.loss", ACCEPTED[name]))


def test_docstring_is_kept_raw() -> None:
    loss = parse(Source("a.loss", ACCEPTED["a docstring of code"]))
    assert loss.doc is not None
    assert loss.doc.value == 'import os; os.remove("\\x")  # {x} %s'
