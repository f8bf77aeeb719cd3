"""Sums weighted by a softmax, of what is linear in the logits, through one statistic of the row.

With g = z - max z and e = exp(g), a softmax is p = e / Σ e. For α and β that are the same along the row

    Σ p·(α + β·g) = α + β · Σ e·g / Σ e

An entropy is log Σ e - Σ e·g / Σ e, two terms of one sign, and its gradient has the same sum once more. Σ e·g needs
nothing but the row and its maximum, so it can be carried along with Σ e: where the maximum grows by d, it becomes
e^-d (Σ e·g - d·Σ e), again two terms of one sign.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING

from lossdsl.ir.graph import Node
from lossdsl.primitives.interval import Interval

if TYPE_CHECKING:
    from lossdsl.plan.expand import Table

VISITS = 512  # of nodes in one sum: what is shared in the graph is looked at once for each use
# What is the same along the row: a node, or an operation of such; None for 0. Nodes are made only once all of a sum is
# known to have this form.
Factor = int | tuple[str, "Factor", "Factor"] | None


@dataclass(frozen=True, slots=True)
class _Row:
    """One softmax without a mask: its logits, the two statistics, and the axes that they go over."""

    z: int
    m: int
    rest: int
    axes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Line:
    """(α + β·g), times e or p where `weight` names it."""

    weight: str
    constant: Factor
    slope: Factor


def tilted(t: Table, args: Sequence[int], axes: tuple[str, ...]) -> int | None:
    """Σ over axes of args[0] by Σ e·g, if it is weighted by a softmax over them and linear in its logits."""
    row = _row(t, args[0], axes) if len(args) == 1 and not t.precise else None
    line = None if row is None else _line(t, row, args[0], iter(range(VISITS)))
    if row is None or line is None or not line.weight or line.slope is None:
        return None
    gap = t.raw("sub", row.z, row.m)
    e = t.raw("exp", gap)
    below = Interval(-inf, 0.0)
    term = t.raw("select", t.raw("eq", e, t.const(0)), t.const(0), t.raw("mul", e, gap), interval=below, name="tilt")
    sums = t.raw("reduce", term, attrs=("sum", axes), interval=below, name="tilted"), t.raw("add", t.const(1), row.rest)
    first, mass = sums if line.weight == "e" else (t.raw("div", x, _total(t, row)) for x in sums)
    found = first if line.slope == t.const(1) else t.product(_made(t, line.slope), first)
    return found if line.constant is None else t.raw("add", t.product(_made(t, line.constant), mass), found)


def _row(t: Table, n: int, axes: tuple[str, ...]) -> _Row | None:
    """The first softmax over axes below n whose exponentials are a factor of it."""
    stack, seen = [n], set[int]()
    while stack:
        at = stack.pop()
        node = t.builder.nodes[at]
        if at in seen or not set(axes) <= node.type.axes:
            continue
        seen.add(at)
        if node.op == "exp" and (found := _exponential(t, node, axes)) is not None:
            return found
        if node.op in ("mul", "mulz", "div", "select", "add", "sub", "neg"):
            stack.extend(node.args)
    return None


def _exponential(t: Table, node: Node, axes: tuple[str, ...]) -> _Row | None:
    gap = t.builder.nodes[node.args[0]]
    if gap.op != "sub":
        return None
    z, m = gap.args
    top = t.builder.nodes[m]
    if top.op != "statistic" or top.args != (z,) or top.attrs != ("logsumexp", 0, axes):
        return None
    rest = t.builder.known("statistic", (z,), ("logsumexp", 1, axes))
    return None if rest is None else _Row(z, m, rest, axes)


def _total(t: Table, row: _Row) -> int:
    return t.raw("add", t.const(1), t.raw("maximum", row.rest, t.const(0)))


def _line(t: Table, row: _Row, n: int, visits: Iterator[int]) -> _Line | None:
    """A node as a line in g, or None where it has another form, or `visits` run out."""
    if next(visits, None) is None:
        return None
    node = t.builder.nodes[n]
    if not set(row.axes) & node.type.axes:
        return _Line("", n, None)
    if node.op == "exp":
        return _Line("e", t.const(1), None) if _exponential(t, node, row.axes) == row else None
    if node.op == "sub" and node.args == (row.z, row.m):
        return _Line("", None, t.const(1))
    factors = _factors(t, node)
    if factors is not None:
        a, b = (_line(t, row, x, visits) for x in factors)
        return None if a is None or b is None else _product(t, a, b)
    if node.op not in ("neg", "add", "sub", "div"):
        return None
    lines = [_line(t, row, x, visits) for x in node.args]
    if node.op == "neg":
        return lines[0] and _product(t, _Line("", t.const(-1), None), lines[0])
    a, b = lines
    if a is None or b is None:
        return None
    if node.op == "div":
        if a.weight == "e" and node.args[1] == _total(t, row):
            return replace(a, weight="p")
        return None if b.weight or b.slope is not None else _each(a, lambda x: ("div", x, b.constant))
    if a.weight != b.weight:
        return None
    return _Line(a.weight, _sum(node.op, a.constant, b.constant), _sum(node.op, a.slope, b.slope))


def _factors(t: Table, node: Node) -> tuple[int, int] | None:
    """The two factors of a product, or of one that is 0 where a factor is."""
    if node.op in ("mul", "mulz"):
        return node.args[0], node.args[1]
    if node.op != "select" or node.args[1] != t.const(0):
        return None
    condition, product = (t.builder.nodes[node.args[i]] for i in (0, 2))
    tested = condition.op == "eq" and condition.args[1] == t.const(0) and condition.args[0] in product.args
    return (product.args[0], product.args[1]) if product.op == "mul" and tested else None


def _product(t: Table, a: _Line, b: _Line) -> _Line | None:
    """Their product, if it is a line with one weight."""
    if (a.weight and b.weight) or (a.slope is not None and b.slope is not None):
        return None
    flat, other = (a, b) if a.slope is None else (b, a)
    one = t.const(1)
    by = flat.constant
    line = _each(other, lambda x: x if by == one else by if x == one else ("mul", by, x))
    return replace(line, weight=a.weight or b.weight)


def _each(line: _Line, change: Callable[[Factor], Factor]) -> _Line:
    constant, slope = (None if x is None else change(x) for x in (line.constant, line.slope))
    return replace(line, constant=constant, slope=slope)


def _sum(op: str, a: Factor, b: Factor) -> Factor:
    if b is None:
        return a
    return (op, a, b)


def _made(t: Table, x: Factor) -> int:
    """The node of a factor."""
    if isinstance(x, tuple):
        op, a, b = x
        return t.product(_made(t, a), _made(t, b)) if op == "mul" else t.raw(op, _made(t, a), _made(t, b))
    return t.const(0) if x is None else x
