"""Graph nodes with operators, so that the formulas of records read like mathematics."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lossdsl.ir.builder import Builder

Number = int | float | Fraction | bool


class Ref:
    """A node of a Builder: `x * y` builds the node for the product."""

    __slots__ = ("builder", "node")

    def __init__(self, builder: Builder, node: int) -> None:
        self.builder = builder
        self.node = node

    def _call(self, op: str, *args: Ref | Number) -> Ref:
        return self.builder.f.call(op, *args)

    def __add__(self, other: Ref | Number) -> Ref:
        return self._call("add", self, other)

    def __radd__(self, other: Number) -> Ref:
        return self._call("add", other, self)

    def __sub__(self, other: Ref | Number) -> Ref:
        return self._call("sub", self, other)

    def __rsub__(self, other: Number) -> Ref:
        return self._call("sub", other, self)

    def __mul__(self, other: Ref | Number) -> Ref:
        return self._call("mul", self, other)

    def __rmul__(self, other: Number) -> Ref:
        return self._call("mul", other, self)

    def __truediv__(self, other: Ref | Number) -> Ref:
        return self._call("div", self, other)

    def __rtruediv__(self, other: Number) -> Ref:
        return self._call("div", other, self)

    def __pow__(self, other: Ref | Number) -> Ref:
        return self._call("pow", self, other)

    def __rpow__(self, other: Number) -> Ref:
        return self._call("pow", other, self)

    def __neg__(self) -> Ref:
        return self._call("neg", self)


class Namespace:
    """`f.exp(x)` for every primitive of the builder's registry."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder

    def call(self, op: str, *args: Ref | Number) -> Ref:
        nodes = [a.node if isinstance(a, Ref) else self._builder.const(a) for a in args]
        return Ref(self._builder, self._builder.node(op, nodes))

    def __getattr__(self, op: str) -> Callable[..., Ref]:
        if op.startswith("_"):
            raise AttributeError(op)
        op = op.rstrip("_")  # and_, or_, not_ are words of Python

        def build(*args: Ref | Number) -> Ref:
            return self.call(op, *args)

        return build
