"""Whether an index stays inside its axis, as far as its form and its interval tell."""

from __future__ import annotations

from fractions import Fraction

from lossdsl.check.types import base_axis
from lossdsl.ir.builder import Builder
from lossdsl.ir.presence import PRESENT, Factors, factors_of


def within(b: Builder, index: int, axis: str) -> Factors:
    """What must hold for 0 <= index < size(axis); nothing where it always does."""
    shift = _shift(b, index, axis)
    if shift == 0:
        return PRESENT
    found = PRESENT
    if b.type(index).interval.low < 0 and (shift is None or shift < 0):
        found |= factors_of(b, b.node("ge", [index, b.const(0)]))
    if shift is None or shift > 0:
        found |= factors_of(b, b.node("lt", [index, b.size(axis)]))
    return found


def _shift(b: Builder, index: int, axis: str) -> Fraction | None:
    """s, if the index is that of a copy of the axis plus the whole number s."""
    node = b[index]
    if node.op == "index":
        return Fraction(0) if base_axis(str(node.attrs[0])) == base_axis(axis) else None
    if node.op in ("add", "sub"):
        x, y = node.args
        if node.op == "add" and b.value(x) is not None:
            x, y = y, x
        inner, step = _shift(b, x, axis), b.value(y)
        if inner is not None and isinstance(step, Fraction):
            return inner + step if node.op == "add" else inner - step
    return None
