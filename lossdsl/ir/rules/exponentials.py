"""Exponentials of logarithms, and powers, roots, ratios and angles of exponentials, by way of what stands in these."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from lossdsl.ir.graph import Attr
from lossdsl.ir.rewrite import Rule
from lossdsl.ir.rules.match import as_log, complement, inside, is_const, is_whole, nonnegative
from lossdsl.ir.rules.others import of_the_others, over_length

if TYPE_CHECKING:
    from lossdsl.ir.builder import Builder


def _exp(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    (u,) = args
    node = b[u]
    if is_const(b, u, 0):
        return b.const(1)
    if b.value(u) == -inf:
        return b.const(0)
    match node.op:
        case "log" if nonnegative(b, node.args[0]):
            return node.args[0]
        case "log1p" if b.type(node.args[0]).interval.low >= -1:
            return b.node("add", [b.const(1), node.args[0]])
        case "log1mexp" if b.type(node.args[0]).interval.high <= 0:
            return b.node("neg", [b.node("expm1", node.args)])
        case "neg":
            x = inside(b, node.args[0], "softplus")
            if x is not None:
                return b.node("sigmoid", [b.node("neg", [x])])
    return None


def _expm1(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    (u,) = args
    if is_const(b, u, 0):
        return b.const(0)
    negated = inside(b, u, "neg")
    x = None if negated is None else inside(b, negated, "softplus")
    if x is not None:
        return b.node("neg", [b.node("sigmoid", [x])])
    plus = inside(b, u, "log1p")
    return plus if plus is not None and b.type(plus).interval.low >= -1 else None  # else it may have no logarithm


def _power(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    x, a = args
    if is_whole(b, a):
        return None  # p * p of a p that is there anyway beats another exponential
    log = as_log(b, x)
    if log is None and b[x].op == "sigmoid":
        log = b.node("log", [x])
    return None if log is None else b.node("exp", [b.node("mul", [a, log])])


def _divide(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    p, q = inside(b, args[0], "exp"), inside(b, args[1], "exp")
    if p is not None and q is not None:
        return b.node("exp", [b.node("sub", [p, q])])
    if q is not None and is_const(b, args[0], 1):
        return b.node("exp", [b.node("neg", [q])])
    if q is not None and inside(b, args[0], "expm1") == q:
        return b.node("neg", [b.node("expm1", [b.node("neg", [q])])])
    length = over_length(b, *args)
    return of_the_others(b, *args) if length is None else length


def _sqrt(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    node = b[args[0]]
    if node.op == "select" and is_const(b, node.args[2], 0) and as_log(b, node.args[1]) is not None:
        return b.node("select", [node.args[0], b.node("sqrt", [node.args[1]]), node.args[2]])
    log = as_log(b, args[0])
    return None if log is None else b.node("exp", [b.node("div", [log, b.const(2)])])


def _acos(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    node = b[args[0]]
    if node.op == "sub" and is_const(b, node.args[1], 1) and b[node.args[0]].op == "mul":  # cos 2a = 2 cos^2 a - 1
        two, p = b[node.args[0]].args
        log = inside(b, p, "exp")
        if log is not None and is_const(b, two, 2):
            return b.node("mul", [two, b.node("acos", [b.node("exp", [b.node("div", [log, two])])])])
    u = inside(b, args[0], "exp")
    if u is None:
        return None
    half = b.node("div", [b.node("neg", [b.node("expm1", [u])]), b.const(2)])
    return b.node("mul", [b.const(2), b.node("asin", [b.node("sqrt", [half])])])


def _asin(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    """asin(sqrt(1 - e^u)) = acos(e^(u/2)), which is a small angle's, too, and near a right one's."""
    root = inside(b, args[0], "sqrt")
    u = None if root is None else complement(b, root)
    return None if u is None else b.node("acos", [b.node("exp", [b.node("div", [u, b.const(2)])])])


RULES = (
    Rule("exp", ("exp",), "exp of a logarithm is its argument", _exp),
    Rule("expm1", ("expm1",), "expm1(-softplus(x)) = -sigmoid(x)", _expm1),
    Rule("power of exp", ("pow",), "(e^u)^a = e^(a·u): no underflow before the power", _power),
    Rule(
        "ratio of exp",
        ("div",),
        "e^a / e^b = e^(a - b); (1 - p) / p = e^-u - 1; p / (1 - p_y) is a softmax of others; p / |p| is one of 2 z",
        _divide,
    ),
    Rule(
        "angle of exp",
        ("acos",),
        "acos(e^u) = 2 asin(sqrt((1 - e^u) / 2)), what p is from 1; acos(2 e^u - 1) = 2 acos(e^(u/2))",
        _acos,
    ),
    Rule("angle of a complement", ("asin",), "asin(sqrt(1 - e^u)) = acos(e^(u/2))", _asin),
    Rule("root of exp", ("sqrt",), "sqrt(e^u) = e^(u/2)", _sqrt),
)
