"""Arithmetic with conditions by selection: e - (C == y) is e - 1 in one place and e elsewhere.

A product with a mask would make 0 · NaN, and a difference with a one-hot would hide `e^u - 1`, whose accurate form is
expm1(u).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossdsl.ir.graph import Attr
from lossdsl.ir.rewrite import Rule

if TYPE_CHECKING:
    from lossdsl.ir.builder import Builder


def _is_condition(b: Builder, n: int) -> bool:
    return b.type(n).kind == "bool" and b.value(n) is None


def _by_selection(op: str) -> Rule:
    def apply(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
        for i, x in enumerate(args):
            if not _is_condition(b, x):
                continue
            one, zero = list(args), list(args)
            one[i], zero[i] = b.const(1), b.const(0)
            return b.node("select", [x, b.node(op, one), b.node(op, zero)])
        return None

    return Rule(f"{op} by selection", (op,), "products with a mask become selections; one-hot terms fold", apply)


RULES = tuple(_by_selection(op) for op in ("add", "sub", "mul", "neg", "pow"))
