"""Looking at nodes: the few questions that rules ask."""

from __future__ import annotations

from fractions import Fraction
from math import inf
from typing import TYPE_CHECKING

from lossdsl.check.types import index_kind
from lossdsl.ir.typing import PI

if TYPE_CHECKING:
    from lossdsl.ir.builder import Builder
    from lossdsl.ir.graph import Graph


def inside(b: Builder, n: int, op: str) -> int | None:
    """The argument of a one-argument `op`, if n is one."""
    node = b[n]
    return node.args[0] if node.op == op and len(node.args) == 1 else None


def is_const(b: Builder, n: int, value: int) -> bool:
    found = b.value(n)
    return isinstance(found, Fraction) and found == value


def rational(b: Builder, n: int) -> Fraction | None:
    """A constant that is a rational number, which the circle's is not, though a double stands for it."""
    found = b.value(n)
    return found if isinstance(found, Fraction) and found != PI else None


def is_whole(b: Builder, n: int) -> bool:
    value = rational(b, n)
    return value is not None and value.denominator == 1


def is_place(b: Builder, y: int, axis: str) -> bool:
    """Whether y surely is the place of an entry of the axis: an index of it, or 0. Another number may lie outside."""
    return b.type(y).kind == index_kind(axis) or is_const(b, y, 0)


def complement(b: Builder, n: int) -> int | None:
    """u, if n is 1 - e^u in its accurate form, -expm1(u)."""
    negated = inside(b, n, "neg")
    return None if negated is None else inside(b, negated, "expm1")


def nonnegative(b: Builder, n: int) -> bool:
    return b.type(n).interval.low >= 0


def may_be_none(b: Builder, z: int) -> bool:
    """Whether logits may all be -inf by what they are computed from: logarithms of counts, say, of which all are 0. Of
    logits that come in, a row of -inf has no softmax."""
    node = b[z]
    if node.op == "log":
        return b.type(node.args[0]).interval.low <= 0
    if node.op in ("mul", "div", "neg"):
        return any(may_be_none(b, a) for a in node.args)
    return node.op == "select" and all(may_be_none(b, a) or b.value(a) == -inf for a in node.args[1:])


_FACTORS = 16  # of a product that rules look into


def factors(b: Builder, n: int) -> list[int]:
    """The factors of a product, itself if it is none; of a long one the first are told apart, the rest is left."""
    found, i = [n], 0
    while i < len(found):
        node = b[found[i]]
        if node.op == "mul" and len(found) < _FACTORS:
            found[i : i + 1] = node.args
        else:
            i += 1
    return found


def with_rest(b: Builder, e: int, *sides: tuple[list[int], list[int]]) -> int | None:
    """c·e, if c is what is left of every side (its factors, those that e stands for); None if they differ."""
    left = []
    for found, gone in sides:
        rest = list(found)
        for factor in gone:
            if factor not in rest:
                return None
            rest.remove(factor)
        left.append(sorted(rest))
    if any(rest != left[0] for rest in left):
        return None
    for factor in left[0]:
        e = b.node("mul", [factor, e])
    return e


def as_log(b: Builder, n: int) -> int | None:
    """The logarithm of n without forming n, if n is made of exponentials; None otherwise.

    Products and quotients with non-negative factors, powers and choices of such are too.
    """
    if n not in b.logs:  # remembered: an expression may use another many times
        b.logs[n] = _as_log(b, n)
    return b.logs[n]


def _as_log(b: Builder, n: int) -> int | None:
    node = b[n]
    if node.op == "exp":
        return node.args[0]
    if node.op == "mul":
        for e, other in (node.args, node.args[::-1]):
            log = as_log(b, e) if nonnegative(b, other) else None
            if log is not None:
                return b.node("add", [b.node("log", [other]), log])
    if node.op == "div" and nonnegative(b, node.args[1]):
        log = as_log(b, node.args[0])
        if log is not None:
            return b.node("sub", [log, b.node("log", [node.args[1]])])
    if node.op == "select":
        yes, no = as_log(b, node.args[1]), as_log(b, node.args[2])
        if yes is not None and no is not None:
            return b.node("select", [node.args[0], yes, no])
    return None


def centre(graph: Builder | Graph, n: int, axes: tuple[str, ...]) -> tuple[int, int] | None:
    """(z, what is taken from it) for z less its largest along axes, or less 0 where that is infinite
    (`derive/tempered.py`)."""
    node = graph.nodes[n]
    if node.op != "sub":
        return None
    z, taken = node.args
    top = graph.nodes[taken]
    top = graph.nodes[top.args[0]] if top.op == "detach" else top
    largest = graph.nodes[top.args[1]] if top.op == "select" else top
    found = top.op == "select" and largest.op == "reduce" and largest.args == (z,) and largest.attrs == ("max", axes)
    return (z, taken) if found else None


def convex_weight(graph: Builder | Graph, a: int, b: int) -> int | None:
    """t, if a is log(1 - t) and b is log(t), be it of literals, so that e^a + e^b = 1."""
    x, y = graph.nodes[a], graph.nodes[b]
    if x.op == "log1p" and y.op == "log":
        less = graph.nodes[x.args[0]]
        return y.args[0] if less.op == "neg" and less.args == y.args else None
    if x.op == y.op == "log":
        weights = [n.attrs[0] for n in (graph.nodes[x.args[0]], graph.nodes[y.args[0]]) if n.op == "const"]
        known = [w for w in weights if isinstance(w, Fraction)]
        return y.args[0] if len(known) == 2 and sum(known) == 1 else None
    return None
