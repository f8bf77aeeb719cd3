"""The numbers that the interpreters compute with: float64, or mpmath at 110 digits (50 are left after cancellation).

An `Arithmetic` is data: how a constant and an array become reals, and the primitives that it spells itself. The others
come from
their records' formulas: in float64 the accurate `expand`, at 110 digits the `exact` one. Integers and bools stay numpy
arrays of
those; `_real` promotes where an operation has a real among its arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from lossdsl.ir.graph import Scalar
from lossdsl.registry import Registry
from lossdsl.source.diagnostic import InternalError

Array = np.ndarray[Any, Any]
DIGITS = 110


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


# --- what both arithmetics spell alike --------------------------------------------------------------------------------


def _shared(real: Callable[[Array], Array]) -> dict[str, Callable[..., Array]]:
    """Operations that numpy does on integers, floats and objects alike."""

    def numbers(*xs: Array) -> list[Array]:
        if any(is_real(x) for x in xs):
            return [real(x) for x in xs]
        return [x.astype(np.int64) if x.dtype.kind == "b" else x for x in xs]

    def numeric(function: Callable[..., Any]) -> Callable[..., Array]:
        return lambda *xs: np.asarray(function(*numbers(*xs)))

    def bools(function: Callable[..., Any]) -> Callable[..., Array]:
        return lambda *xs: np.asarray(function(*(x.astype(bool) for x in xs)))

    def compare(function: Callable[..., Any]) -> Callable[..., Array]:
        return lambda a, b: np.asarray(function(*numbers(a, b))).astype(bool)

    def select(c: Array, a: Array, b: Array) -> Array:
        if a.dtype.kind == b.dtype.kind == "b":
            return np.where(c.astype(bool), a, b)
        a, b = numbers(a, b)
        return np.where(c.astype(bool), a, b)

    def mulz(a: Array, b: Array) -> Array:
        a, b = numbers(a, b)
        zero = (a == 0) | (b == 0)
        return np.where(zero, 0, np.where(zero, 1, a) * np.where(zero, 1, b))

    return {
        "add": numeric(np.add),
        "sub": numeric(np.subtract),
        "neg": numeric(np.negative),
        "abs": numeric(np.abs),
        "maximum": numeric(np.maximum),
        "minimum": numeric(np.minimum),
        "mulz": mulz,
        "select": select,
        "eq": compare(np.equal),
        "ne": compare(np.not_equal),
        "lt": compare(np.less),
        "le": compare(np.less_equal),
        "gt": compare(np.greater),
        "ge": compare(np.greater_equal),
        "and": bools(np.logical_and),
        "or": bools(np.logical_or),
        "not": bools(np.logical_not),
    }


# --- float64 ----------------------------------------------------------------------------------------------------------


def _float64(x: Array) -> Array:
    return np.asarray(x, dtype=np.float64)


def _lgamma(x: float) -> float:
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):
        return math.inf


@cache
def float64() -> Arithmetic:
    """IEEE double precision."""
    own = _shared(_float64)

    def unary(function: Callable[[Array], Any]) -> Callable[..., Array]:
        return lambda x: np.asarray(function(_float64(x)), dtype=np.float64)

    for name in ("exp", "log", "expm1", "log1p", "sqrt", "sin", "cos", "tan", "tanh", "floor"):
        own[name] = unary(getattr(np, name))
    for name in ("acos", "asin", "atan"):
        own[name] = unary(getattr(np, "arc" + name[1:]))
    own["round"] = unary(np.rint)
    own["lgamma"] = unary(np.frompyfunc(_lgamma, 1, 1))
    own["erf"] = unary(np.frompyfunc(math.erf, 1, 1))
    own["div"] = lambda a, b: np.asarray(np.divide(_float64(a), _float64(b)))
    own["pow"] = lambda a, b: np.asarray(np.power(_float64(a), _float64(b)))
    own["mul"] = _product(_float64)
    return Arithmetic("float64", _float64, float, own, exact=False)


def _product(real: Callable[[Array], Array]) -> Callable[..., Array]:
    def product(a: Array, b: Array) -> Array:
        if is_real(a) or is_real(b):
            return np.asarray(real(a) * real(b))
        return np.asarray(a.astype(np.int64) * b.astype(np.int64))

    return product


# --- mpmath -----------------------------------------------------------------------------------------------------------


@cache
def multiprecision() -> Arithmetic:
    """mpmath at `DIGITS` digits, in object arrays, with IEEE's infinities and NaN in place of exceptions."""
    from mpmath import MPContext

    mp = MPContext()
    mp.dps = DIGITS
    number = type(mp.mpf(0))

    def constant(x: Scalar) -> Any:
        if x == math.pi:  # no other number of a file is this double
            return +mp.pi
        if isinstance(x, Fraction):
            return mp.mpf(x.numerator) / x.denominator
        return mp.mpf(x)

    def one(x: Any) -> Any:
        return x if isinstance(x, number) else constant(x) if isinstance(x, Fraction) else mp.mpf(_python(x))

    lift = np.frompyfunc(one, 1, 1)

    def real(x: Array) -> Array:
        return np.asarray(lift(x), dtype=object)

    def guarded(function: Callable[..., Any]) -> Callable[..., Array]:
        def scalar(*xs: Any) -> Any:
            try:
                y = function(*xs)
            except (ValueError, ZeroDivisionError):
                return mp.nan
            return y if isinstance(y, number) else mp.nan if isinstance(y, mp.mpc) else mp.mpf(y)

        ufuncs = {n: np.frompyfunc(scalar, n, 1) for n in (1, 2)}
        return lambda *xs: np.asarray(ufuncs[len(xs)](*map(real, xs)), dtype=object)

    def divide(x: Any, y: Any) -> Any:
        if y == 0:
            return mp.nan if x == 0 or mp.isnan(x) else mp.inf if x > 0 else mp.ninf
        return x / y

    def lgamma(x: Any) -> Any:
        if mp.isint(x) and x <= 0:
            return mp.inf
        return mp.loggamma(x) if x > 0 else mp.log(abs(mp.gamma(x)))

    def sine(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda x: mp.nan if mp.isinf(x) else function(x)

    own = _shared(real)
    own["mul"] = _product(real)
    own["div"] = guarded(divide)
    own["pow"] = guarded(lambda x, y: _mp_power(mp, x, y))
    own["round"] = guarded(mp.nint)
    own["lgamma"] = guarded(lgamma)
    own["log"] = guarded(lambda x: mp.nan if x < 0 else mp.log(x))
    for name in ("exp", "sqrt", "expm1", "tanh", "atan", "asin", "acos", "erf", "floor", "digamma"):
        own[name] = guarded(getattr(mp, name))
    own["log1p"] = guarded(lambda x: mp.ninf if x == -1 else mp.nan if x < -1 else mp.log1p(x))
    own["trigamma"] = guarded(lambda x: mp.psi(1, x))
    own["tetragamma"] = guarded(lambda x: mp.psi(2, x))
    for name in ("sin", "cos", "tan"):
        own[name] = guarded(sine(getattr(mp, name)))
    return Arithmetic("mpmath", real, constant, own, exact=True)


def _python(x: Any) -> Any:
    return x.item() if isinstance(x, np.generic) else x


def _mp_power(mp: Any, x: Any, y: Any) -> Any:
    if y == 0 or x == 1:
        return mp.mpf(1)
    if mp.isnan(x) or mp.isnan(y):
        return mp.nan
    if mp.isinf(y):
        return mp.nan if x < 0 else mp.inf if (x > 1) == (y > 0) else mp.mpf(0)
    if x == 0:
        return mp.mpf(0) if y > 0 else mp.inf
    if mp.isinf(x):
        size = mp.inf if y > 0 else mp.mpf(0)
        return -size if x < 0 and mp.isint(y) and int(y) % 2 else size
    return x ** int(y) if mp.isint(y) else mp.nan if x < 0 else mp.power(x, y)


def arithmetic_of(number: str) -> Arithmetic:
    """The arithmetic called "float64" or "mpmath"."""
    if number == "float64":
        return float64()
    if number == "mpmath":
        return multiprecision()
    raise InternalError(f"no arithmetic is called {number!r}")
