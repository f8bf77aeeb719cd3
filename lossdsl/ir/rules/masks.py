"""Conditions and choices in one normal form, so that the other rules meet few shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossdsl.ir.graph import Attr
from lossdsl.ir.rewrite import Rule
from lossdsl.ir.rules.match import inside, is_const

if TYPE_CHECKING:
    from lossdsl.ir.builder import Builder


def _turn(op: str) -> Rule:
    def apply(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
        return b.node(op, args[::-1])

    return Rule(f"turn to {op}", ({"lt": "gt", "le": "ge"}[op],), "one spelling a comparison", apply)


def _unequal(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    return b.node("not", [b.node("eq", args)])


def _equal(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    x, y = args
    if x == y and not b.type(x).differentiable:
        return b.const(True)
    first = (b[x].op != "index", x) <= (b[y].op != "index", y)  # an index leads, else the older node
    return None if first else b.node("eq", [y, x])


def _not(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    value = b.value(args[0])
    if isinstance(value, bool):
        return b.const(not value)
    return inside(b, args[0], "not")


def _junction(op: str, neutral: bool) -> Rule:
    def apply(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
        for x, y in (args, args[::-1]):
            value = b.value(x)
            if isinstance(value, bool):
                return y if value == neutral else x
            if inside(b, x, "not") == y:
                return b.const(not neutral)
        if args[0] == args[1]:
            return args[0]
        return None if args[0] < args[1] else b.node(op, args[::-1])

    return Rule(op, (op,), "constants decide; x and x = x; the older operand leads", apply)


def _select(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    c, yes, no = args
    value = b.value(c)
    if isinstance(value, bool):
        return yes if value else no
    if yes == no:
        return yes
    flipped = inside(b, c, "not")
    if flipped is not None:
        return b.node("select", [flipped, no, yes])
    if b.value(yes) is True and b.value(no) is False:
        return c
    if b[yes].op == "select":
        inner, x, y = b[yes].args
        if inner == c:
            return b.node("select", [c, x, no])
        if y == no and is_const(b, no, 0):
            return b.node("select", [b.node("and", [c, inner]), x, no])
    if b[no].op == "select" and b[no].args[0] == c:
        return b.node("select", [c, yes, b[no].args[2]])
    return None


def _mask(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    """A mask that is always true is none."""
    return b.node(b_op(attrs), args[:1], attrs) if len(args) == 2 and b.value(args[1]) is True else None


def b_op(attrs: tuple[Attr, ...]) -> str:
    return "reduce" if isinstance(attrs[0], str) else "logp"


RULES = (
    _turn("lt"),
    _turn("le"),
    Rule("unequal", ("ne",), "x != y is not (x == y), NaN included", _unequal),
    Rule("equal", ("eq",), "an index equals itself; operands in one order", _equal),
    Rule("not", ("not",), "not not x = x", _not),
    _junction("and", True),
    _junction("or", False),
    Rule("select", ("select",), "a decided choice is its branch; nested equal choices are one", _select),
    Rule("mask", ("reduce", "logp"), "a mask that is always true is none", _mask),
)
