"""The numbers that the interpreters compute with: float64, or mpmath at 110 digits (50 are left after cancellation).

An `Arithmetic` is data: how a constant and an array become reals, and the primitives that it spells itself. The others
come from their records' formulas: in float64 the accurate `expand`, at 110 digits the `exact` one. Integers and bools
stay numpy arrays of those; `_real` promotes where an operation has a real among its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from lossdsl.ir.graph import Scalar
from lossdsl.registry import Registry
from lossdsl.source.diagnostic import InternalError

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`real` turns any array into this arithmetic's reals; `constant` a number; `own` are the primitives it spells."""

    name: str
    real: Callable[[Array], Array]
    constant: Callable[[Scalar], Any]
    own: Mapping[str, Callable[..., Array]]
    exact: bool  # whether formulas are taken as defined rather than as rounded best


def is_real(x: Array) -> bool:
    """Whether an array holds reals, rather than integers or bools."""
    return x.dtype.kind in "fO"


def call(arithmetic: Arithmetic, registry: Registry, op: str, args: list[Array]) -> Array:
    """The primitive `op` of arrays that broadcast; 0·±inf is 0 in `mulz`, NaN in `mul`."""
    own = arithmetic.own.get(op)
    if own is not None:
        return own(*args)
    record = registry.primitives.get(op)
    formula = None
    if record is not None:
        formula = record.exact or record.expand if arithmetic.exact else record.expand or record.exact
    if formula is None:
        raise InternalError(f"{arithmetic.name} has no primitive {op!r}")
    f = Formulas(arithmetic, registry)
    return f.array(formula(f, *(Operand(f, a) for a in args)))


class Formulas:
    """The namespace that a record's formula is called with."""

    def __init__(self, arithmetic: Arithmetic, registry: Registry) -> None:
        self._arithmetic = arithmetic
        self._registry = registry

    def array(self, x: Any) -> Array:
        if isinstance(x, Operand):
            return x.array
        return scalar_array(self._arithmetic, x)

    def __getattr__(self, op: str) -> Callable[..., Operand]:
        name = op.rstrip("_")

        def apply(*args: Any) -> Operand:
            return Operand(self, call(self._arithmetic, self._registry, name, [self.array(a) for a in args]))

        return apply


class Operand:
    """An array with the operators that formulas use."""

    __slots__ = ("array", "f")

    def __init__(self, f: Formulas, array: Array) -> None:
        self.f = f
        self.array = array

    def __add__(self, other: Any) -> Operand:
        return self.f.add(self, other)

    def __radd__(self, other: Any) -> Operand:
        return self.f.add(other, self)

    def __sub__(self, other: Any) -> Operand:
        return self.f.sub(self, other)

    def __rsub__(self, other: Any) -> Operand:
        return self.f.sub(other, self)

    def __mul__(self, other: Any) -> Operand:
        return self.f.mul(self, other)

    def __rmul__(self, other: Any) -> Operand:
        return self.f.mul(other, self)

    def __truediv__(self, other: Any) -> Operand:
        return self.f.div(self, other)

    def __rtruediv__(self, other: Any) -> Operand:
        return self.f.div(other, self)

    def __pow__(self, other: Any) -> Operand:
        return self.f.pow(self, other)

    def __rpow__(self, other: Any) -> Operand:
        return self.f.pow(other, self)

    def __neg__(self) -> Operand:
        return self.f.neg(self)


def scalar_array(arithmetic: Arithmetic, x: Scalar | int) -> Array:
    """A constant as a 0-d array: bool, int64 where it is whole, else real."""
    if isinstance(x, bool):
        return np.asarray(x)
    whole = isinstance(x, int | Fraction) and x == int(x)
    if whole and -(2**62) < x < 2**62:
        return np.asarray(int(x), dtype=np.int64)
    result = np.empty((), dtype=object if arithmetic.exact else np.float64)
    result[()] = arithmetic.constant(x)
    return result


def arithmetic_of(number: str) -> Arithmetic:
    """The arithmetic called "float64", "float32" or "mpmath"."""
    from lossdsl.ir.digits import multiprecision
    from lossdsl.ir.floats import ieee

    if number in ("float64", "float32"):
        return ieee(number)
    if number == "mpmath":
        return multiprecision()
    raise InternalError(f"no arithmetic is called {number!r}")
