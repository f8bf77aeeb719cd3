"""Signs taken outside, where that makes a value one that is there already."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lossdsl.plan.expand import Table

_COMMUTATIVE = frozenset({"add", "mul", "mulz", "maximum", "minimum", "eq", "ne", "and", "or"})


def outside(table: Table, op: str, args: Sequence[int]) -> int | None:
    """The same value with its sign outside, where that makes it one that is there already: b - a is -(a - b).

    Exact, signs of zeros apart. What two halves of a symmetric loss compute is then computed once.
    """
    turned = table.builder.known(op, (args[1], args[0])) if len(args) == 2 else None
    if turned is not None and op in _COMMUTATIVE:
        return turned
    if turned is not None and op in ("sub", "sub_error"):
        return table.raw("neg", turned)
    inner = [_negated(table, a) for a in args]
    match op, inner:
        case (("neg" | "abs"), [int() as x]):
            return x if op == "neg" else table.raw("abs", x)
        case (("add" | "sub"), [int() as x, int() as y]):
            return table.raw("neg", table.raw(op, x, y))
        case "clip", [int() as x, None, None] if _opposite(table, args[1], args[2]):
            return table.raw("neg", table.raw("clip", x, args[1], args[2]))
        case "select", [_, None, int() as x] if _is_zero(table, args[1]):
            return table.raw("neg", table.raw("select", args[0], args[1], x))
        case "select", [_, int() as x, None] if _is_zero(table, args[2]):
            return table.raw("neg", table.raw("select", args[0], x, args[2]))
        case "lt", [int() as x, None] if _is_zero(table, args[1]):
            return table.raw("lt", args[1], x)
        case "lt", [None, int() as x] if _is_zero(table, args[0]):
            return table.raw("lt", x, args[0])
    return None


def _opposite(table: Table, a: int, b: int) -> bool:
    """Whether two constants differ in nothing but their sign."""
    x, y = (table.builder.nodes[n] for n in (a, b))
    values = [n.attrs[0] for n in (x, y) if n.op == "const"]
    rationals = [v for v in values if isinstance(v, Fraction)]
    return len(rationals) == 2 and rationals[0] == -rationals[1]


def _negated(table: Table, n: int) -> int | None:
    node = table.builder.nodes[n]
    return node.args[0] if node.op == "neg" else None


def _is_zero(table: Table, n: int) -> bool:
    node = table.builder.nodes[n]
    return node.op == "const" and not isinstance(node.attrs[0], bool) and node.attrs[0] == 0
