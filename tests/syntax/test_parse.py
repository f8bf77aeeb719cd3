"""The tree of each construct, spelled out, and the corpus of files the language must be able to say."""

from __future__ import annotations

from pathlib import Path

import pytest

from lossdsl.source.text import Source
from lossdsl.syntax.ast import (
    Argument,
    AxisMap,
    AxisRef,
    Binary,
    Bounds,
    Call,
    Expr,
    If,
    Kind,
    LossDef,
    Name,
    Number,
    Pick,
    Pipe,
    Primed,
    Root,
    Substitute,
    Substitution,
    Unary,
    Vector,
)
from lossdsl.syntax.parse import parse, parse_expression

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.loss"))

a, b, c, x, y, z = (Name(n) for n in "abcxyz")


def read(text: str) -> LossDef:
    return parse(Source("test.loss", text))


@pytest.mark.parametrize("path", CORPUS, ids=lambda p: p.stem)
def test_corpus_parses(path: Path) -> None:
    loss = parse(Source(path.name, path.read_text(encoding="utf-8")))
    assert loss.name == path.stem


def call(function: str, *args: Expr, axes: tuple[str, ...] = (), where: Expr | None = None) -> Call:
    given = tuple(Argument(arg, where if i == 0 else None) for i, arg in enumerate(args))
    return Call(function, tuple(AxisMap(AxisRef(axis)) for axis in axes), given)


EXPRESSIONS: dict[str, Expr] = {
    "a + b * c": Binary("+", a, Binary("*", b, c)),
    "a - b - c": Binary("-", Binary("-", a, b), c),
    "a ^ b ^ c": Binary("^", a, Binary("^", b, c)),
    "-a ^ b": Unary("-", Binary("^", a, b)),
    "a ^ -b": Binary("^", a, Unary("-", b)),
    "-a * b": Binary("*", Unary("-", a), b),
    "(-a)^b": Binary("^", Unary("-", a), b),
    "a or b and not c == x": Binary("or", a, Binary("and", b, Unary("not", Binary("==", c, x)))),
    "if a then b else c |> f()": If(a, b, Pipe(c, call("f"))),
    "if a then b else if c then x else y": If(a, b, If(c, x, y)),
    "a + b |> f(c)": Pipe(Binary("+", a, b), call("f", c)),
    "x'": Primed("x", 1),
    "x''[y]": Pick(Primed("x", 2), y),
    "x[N -> N', N' -> N]": Substitute(
        x, (Substitution(AxisRef("N"), AxisRef("N'")), Substitution(AxisRef("N'"), AxisRef("N")))
    ),
    "x[T -> T - 1]": Substitute(x, (Substitution(AxisRef("T"), Binary("-", AxisRef("T"), Number("1"))),)),
    "x[y][z]": Pick(Pick(x, y), z),
    "(a + b)[y]": Pick(Binary("+", a, b), y),
    "sum[N, C](x where y)": call("sum", x, axes=("N", "C"), where=y),
    "softmax[C](x)[y]": Pick(call("softmax", x, axes=("C",)), y),
    "descending[C -> K](x)": Call("descending", (AxisMap(AxisRef("C"), AxisRef("K")),), (Argument(x),)),
    "f[A -> B, C -> K](x)": Call(
        "f", (AxisMap(AxisRef("A"), AxisRef("B")), AxisMap(AxisRef("C"), AxisRef("K"))), (Argument(x),)
    ),
    "f[C = K](x)": Call("f", (AxisMap(AxisRef("C"), AxisRef("K"), True),), (Argument(x),)),
    "f(x where a weighted b, tau = c)": Call("f", (), (Argument(x, a, b), Argument(c, name="tau"))),
    "mean(a + b where c and x)": Call("mean", (), (Argument(Binary("+", a, b), Binary("and", c, x)),)),
    "poly(x, [1, 0.5])": call("poly", x, Vector((Number("1"), Number("0.5")))),
    "root(t in [a, b]: t - c)": Root("t", a, b, Binary("-", Name("t"), c)),
    "when + gives": Binary("+", Name("when"), Name("gives")),
    "γ * inf": Binary("*", Name("γ"), Name("inf")),
}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_expression(text: str) -> None:
    assert parse_expression(text) == EXPRESSIONS[text]


def test_whole_file() -> None:
    loss = read(
        '''# a comment
map soft_thing
alias st, soft_things
"""A "quoted" word and a # that is no comment.
Two lines."""
cite "One, 2020"
cite "Two"
tags classification, robust

input logits[N, C], more[N, C']: prob C fixed = 1 in (0, 1]   # at the end
input noise[N] ~ gumbel
input pair[N, M]: index list C
param t: int = 2, u: int = -3 in [0, inf) learnable
param h = first in {first, second}
batch N, V
axis K = 3
axis C where logits > 0
def f[A](z, w[A], y: index A) = z
def g() = 1
q = a
  + b

 output q, r
return mean[N](q
    where a)
claim loss == f(x, gamma = 0) when gamma = 0, tau -> 1
claim proper
example logits = [[2, 0, -1]], target = [0] gives 0.169846
'''
    )
    assert (loss.kind, loss.name, loss.aliases) == ("map", "soft_thing", ("st", "soft_things"))
    assert loss.doc is not None
    assert loss.doc.value == 'A "quoted" word and a # that is no comment.\nTwo lines.'
    assert [cite.value for cite in loss.cites] == ["One, 2020", "Two"]
    assert loss.tags == ("classification", "robust")
    first, noise, pair, scalars, mode, batch, size, where = loss.decls
    assert [item.name for item in first.items] == ["logits", "more"]
    assert first.items[1].axes == (AxisRef("N"), AxisRef("C'"))
    assert (first.kind, first.fixed, first.default) == (Kind("prob", AxisRef("C")), True, Number("1"))
    assert first.bounds == Bounds(Number("0"), Number("1"), True, False)
    assert noise.draw == "gumbel"
    assert pair.kind == Kind("index", AxisRef("C"), list=True)
    assert [(i.name, d) for i, d in scalars.items] == [("t", Number("2")), ("u", Unary("-", Number("3")))]
    assert (scalars.integer, scalars.learnable) == (True, True)
    assert mode.modes == (Name("first"), Name("second"))
    assert batch.axes == (AxisRef("N"), AxisRef("V"))
    assert (size.size, where.where) == (Number("3"), Binary(">", Name("logits"), Number("0")))
    assert [s.name for s in loss.body] == ["f", "g", "q"]
    assert loss.body[0].parameters[2].kind == Kind("index", AxisRef("A"))
    assert loss.outputs[0].names == (Name("q"), Name("r"))
    assert loss.result.value == call("mean", Name("q"), axes=("N",), where=a)
    assert [(w.name, w.limit) for w in loss.claims[0].when] == [("gamma", False), ("tau", True)]
    assert loss.examples[0].gives == Number("0.169846")
    assert [comment.text for comment in loss.comments] == ["# a comment", "# at the end"]


def test_spans_cover_the_text() -> None:
    text = "loss l\ninput x[N]\ny = (x + 1)[N -> 2]\nreturn y * exp(x')\n"
    loss = read(text)
    value = loss.body[0].value
    assert text[value.span.start : value.span.end] == "(x + 1)[N -> 2]"
    assert text[value.base.span.start : value.base.span.end] == "(x + 1)"
    product = loss.result.value
    assert text[product.op_span.start : product.op_span.end] == "*"
    assert text[product.right.span.start : product.right.span.end] == "exp(x')"
    assert text[product.right.function_span.start : product.right.function_span.end] == "exp"


def test_lists_of_named_values_go_on_after_a_comma() -> None:
    text = (
        "loss a\ninput x[N],\n  y[N]\nparam b = 1,\n  c = 2\nreturn x\nexample x = [1],\n  y = [1],\n  c = 2 gives 1\n"
    )
    loss = parse(Source("a.loss", text))
    assert [name.name for name, _ in loss.examples[0].bindings] == ["x", "y", "c"]
