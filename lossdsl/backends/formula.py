"""A primitive that a backend lacks, as a KernelProgram of the ones that its record's `expand` is written in."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from lossdsl.plan.kernel import Buffer, KernelProgram, Let, Load, Operand, Stmt, Store, Value
from lossdsl.plan.writing import dtype_of
from lossdsl.primitives.kinds import result_kind
from lossdsl.registry import Registry

_NAMES = ("x", "y", "z", "w")


def formula(name: str, registry: Registry) -> KernelProgram | None:
    """The program `name`: arguments x, y, … without axes to `result`; None if there is no such primitive, or if its
    record has no expansion."""
    record = registry.primitives.get(name)
    if record is None or record.expand is None:
        return None
    tape = Tape(registry)
    buffers = [Buffer(a, (), dtype_of(record.argument_kind), "in") for a in _NAMES[: record.arity]]
    operands = []
    for b in buffers:
        value = Value(f"{b.name}_1", (), b.dtype)
        tape.body.append(Load(value, b.name, ()))
        operands.append(Symbol(tape, value.name, b.dtype))
    result = tape.symbol(record.expand(tape, *operands))
    out = Buffer("result", (), dtype_of(result.kind), "out")
    return KernelProgram(name, (), (*buffers, out), (*tape.body, Store("result", (), result.operand)))


class Symbol:
    """An operand of a formula: applying operations to it writes statements."""

    def __init__(self, tape: Tape, operand: Operand, kind: str) -> None:
        self.tape = tape
        self.operand = operand
        self.kind = kind

    def __add__(self, other: Any) -> Symbol:
        return self.tape.apply("add", self, other)

    def __radd__(self, other: Any) -> Symbol:
        return self.tape.apply("add", other, self)

    def __sub__(self, other: Any) -> Symbol:
        return self.tape.apply("sub", self, other)

    def __rsub__(self, other: Any) -> Symbol:
        return self.tape.apply("sub", other, self)

    def __mul__(self, other: Any) -> Symbol:
        return self.tape.apply("mul", self, other)

    def __rmul__(self, other: Any) -> Symbol:
        return self.tape.apply("mul", other, self)

    def __truediv__(self, other: Any) -> Symbol:
        return self.tape.apply("div", self, other)

    def __rtruediv__(self, other: Any) -> Symbol:
        return self.tape.apply("div", other, self)

    def __pow__(self, other: Any) -> Symbol:
        return self.tape.apply("pow", self, other)

    def __neg__(self) -> Symbol:
        return self.tape.apply("neg", self)


class Tape:
    """The namespace that a formula is called with; `body` are the statements written."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.body: list[Stmt] = []
        self.count = 0

    def symbol(self, x: Any) -> Symbol:
        if isinstance(x, Symbol):
            return x
        if isinstance(x, bool):
            return Symbol(self, x, "bool")
        if isinstance(x, int):
            return Symbol(self, Fraction(x), "int")
        return Symbol(self, x, "real")

    def apply(self, op: str, *args: Any) -> Symbol:
        symbols = [self.symbol(a) for a in args]
        kind = result_kind(self.registry.primitives[op], [s.kind for s in symbols])
        self.count += 1
        value = Value(f"t_{self.count}", (), dtype_of(kind))
        self.body.append(Let(value, op, tuple(s.operand for s in symbols)))
        return Symbol(self, value.name, kind)

    def __getattr__(self, op: str) -> Callable[..., Symbol]:
        name = op.rstrip("_")
        if name not in self.registry.primitives:
            raise AttributeError(op)

        def build(*args: Any) -> Symbol:
            return self.apply(name, *args)

        return build
