"""Claims that compare the loss with something: identities, limits, bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from math import inf
from typing import Any

from lossdsl.check import constants
from lossdsl.derive.claims import at_points, by_algebra, by_rules
from lossdsl.derive.claims.defined import compared_where_defined
from lossdsl.derive.claims.everywhere import never_negative_everywhere
from lossdsl.derive.claims.setting import Replacement, Subject, place
from lossdsl.derive.claims.verdict import Found
from lossdsl.ir.builder import Builder
from lossdsl.primitives.interval import REALS
from lossdsl.syntax import ast

STEPS = (Fraction(1, 10**20), Fraction(1, 10**40))  # from a limit; the reciprocals stand for infinity
AGREE = 1e-15  # of both sides at the second step, if the difference hasn't shrunk
NEAR = (4.0,)  # how far out a limit is tried: where a probability is below its last step, it is not near yet
BELOW = {"+": "above", "-": "below"}
SHRINKS = Fraction(3, 4)  # by at least this, even where it goes like 1/log


def settings(about: Subject, when: Sequence[ast.Condition], near: Fraction | None = None) -> dict[str, Replacement]:
    """Leaves replaced by the values of the conditions; a limit's by a number that is `near` away from it.

    Conditions on modes are not among them: they choose the graph.
    """
    found: dict[str, Replacement] = {}
    kinds = {leaf.name: leaf.type.kind for leaf in about.graph.leaves}
    for condition in when:
        if condition.name not in kinds:
            continue
        number = value_of(condition.value)
        if kinds[condition.name] == "bool":
            number = bool(number)
        if condition.limit:
            if near is None:
                continue
            number = (1 if number > 0 else -1) * abs(1 / near) if abs(number) == inf else Fraction(number) + near
        found[condition.name] = partial(Builder.const, value=number)
    return found


def value_of(expr: ast.Expr) -> Fraction | float:
    """The number of a condition."""
    match expr:
        case ast.Number(text):
            return Fraction(text)
        case ast.Unary("-", inner):
            return -value_of(inner)
        case ast.Binary("/", left, right):
            return value_of(left) / value_of(right)
        case ast.Name("inf"):
            return inf
    return constants.value_of(expr)


def compared(about: Subject, op: str, right: ast.Expr, when: Sequence[ast.Condition]) -> Found:
    """loss == right, loss >= right, loss <= right."""
    if any(c.limit for c in when):
        return _limit(about, op, right, when)
    b = about.builder()
    replaced = settings(about, when)
    loss = place(b, about.graph, replaced)["rows"]
    other = place(b, about.expression(right), replaced)["rows"]
    if op == "==":
        return same(about, b, loss, other)
    low, high = (other, loss) if op == ">=" else (loss, other)
    found = never_negative(about, b, b.node("sub", [high, low]), other)
    return compared_where_defined(about, b, loss, other, False, found)


def same(about: Subject, b: Builder, x: int, y: int) -> Found:
    """Whether two nodes are one thing."""
    if by_rules.equal(b, x, y):
        found = Found("proved", "both sides are rewritten to one expression")
        return compared_where_defined(about, b, x, y, True, found)
    difference = b.node("sub", [x, y])
    found = at_points.tried(about, b, difference, at_points.differs, y)
    return asked(about, compared_where_defined(about, b, x, y, True, found), b, difference, "zero")


def asked(about: Subject, found: Found, b: Builder, node: int, kind: str, **more: Any) -> Found:
    """What held at points, with the question that would prove it."""
    if found.status != "held":
        return found
    question: Mapping[str, Any] | None = by_algebra.request(about, b, node, kind, **more)
    return replace(found, question=question)


def never_negative(about: Subject, b: Builder, node: int, scale: int | None) -> Found:
    """By the signs of its parts, by intervals over the whole domain, else at points."""
    if _signed(b, node):
        return Found("proved", _signed(b, node))
    shown = never_negative_everywhere(about, b, node)
    if shown is not None and not shown.points:
        return at_points.beyond(about, b, node, at_points.negative, scale, shown.detail)
    first = shown.first if shown is not None else []
    found = at_points.tried(about, b, node, at_points.negative, scale, first)
    return asked(about, found, b, node, "sign")


def by_form(about: Subject, b: Builder, node: int) -> str:
    """By what a node is never negative, where rules or intervals show it; nothing else is tried."""
    if _signed(b, node):
        return _signed(b, node)
    shown = never_negative_everywhere(about, b, node)
    return shown.detail if shown is not None and not shown.points else ""


def _signed(b: Builder, node: int) -> str:
    if b.type(node).interval.low >= 0:
        return "by the range of the expression"
    return "by the signs of its parts" if by_rules.nonnegative(b, node) else ""


def _limit(about: Subject, op: str, right: ast.Expr, when: Sequence[ast.Condition]) -> Found:
    if op != "==" or len([c for c in when if c.limit]) > 1:
        return Found("undecided", "a limit is of an equation, in one param")
    (to,) = (c for c in when if c.limit)
    leaf = next((leaf for leaf in about.graph.leaves if leaf.name == to.name), None)
    number = value_of(to.value)
    within = leaf.type.interval if leaf is not None else REALS
    sides = [s for s, end in (("+", within.high), ("-", within.low)) if float(number) != end]
    sides = sides[:1] if abs(number) == inf else sides  # there is nothing beyond
    found = Found("undecided", "the param has no values near it")
    for side in sides:
        found = _near_by(about, right, when, side)
        if found.status != "held":
            return found if len(sides) == 1 else replace(found, detail=f"{found.detail}, from {BELOW[side]}")
    exact = about.builder()
    replaced = settings(about, when)
    both = [place(exact, graph, replaced)["rows"] for graph in (about.graph, about.expression(right))]
    return asked(
        about,
        found,
        exact,
        exact.node("sub", both),
        "limit",
        param=to.name,
        to=str(number),
        sides=sides,
    )


def _near_by(about: Subject, right: ast.Expr, when: Sequence[ast.Condition], side: str) -> Found:
    """Whether the sides come together when the param comes near its limit from one side."""
    b = about.builder()
    gaps, sides = [], []
    for step in STEPS:
        replaced = settings(about, when, near=step if side == "+" else -step)
        sides = [place(b, graph, replaced)["rows"] for graph in (about.graph, about.expression(right))]
        gaps.append(b.node("abs", [b.node("sub", sides)]))
    excess = b.node("sub", [gaps[1], b.node("mul", [b.const(SHRINKS), gaps[0]])])
    fails = lambda d, size: bool(d > AGREE * (1 + size))  # noqa: E731
    return at_points.tried(about, b, excess, fails, sides[1], far=NEAR)
