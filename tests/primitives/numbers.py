"""Numbers to compare records with, apart from the interpreter's: mpmath at 110 digits, and the bare floor in numpy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import mpmath
import numpy as np

from lossdsl.primitives.record import Primitive

Table = Mapping[str, Callable[..., Any]]


class Numbers:
    """A namespace over a table of functions; `f.exp(x)` and `f.call("exp", x)` are the same."""

    __slots__ = ("_fallback", "_primitives", "_table")

    def __init__(self, table: Table, primitives: Mapping[str, Primitive], fallback: str) -> None:
        self._table = table
        self._primitives = primitives
        self._fallback = fallback

    def call(self, name: str, *arguments: Any) -> Any:
        """The primitive `name` of these values; KeyError if there is none."""
        own = self._table.get(name)
        if own is not None:
            return own(*arguments)
        record = self._primitives[name]
        formula = getattr(record, self._fallback) or record.expand or record.exact
        if formula is None:
            raise KeyError(f"{name}: neither spelled by this namespace nor expanded by its record")
        lift = self._table.get("real", lambda x: x)
        return formula(self, *(lift(x) for x in arguments))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *arguments: self.call(name, *arguments)


def floor_namespace(primitives: Mapping[str, Primitive], dtype: type) -> Numbers:
    """Numpy in this dtype, with nothing but the floor: whatever else a formula calls goes through its expansion."""
    table = {name: _quiet(function, dtype) for name, function in _FLOOR.items()}
    return Numbers(table, primitives, "expand")


def _quiet(function: Callable[..., Any], dtype: type) -> Callable[..., Any]:
    def run(*arguments: Any) -> Any:
        with np.errstate(all="ignore"):
            value = np.asarray(function(*(x if np.asarray(x).dtype == bool else dtype(x) for x in arguments)))
        return value if value.dtype == bool else dtype(value)

    return run


def _lgamma(x: float) -> float:
    try:
        return math.lgamma(x)
    except ValueError:  # a pole
        return math.inf


_FLOOR: Table = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.true_divide,
    "neg": np.negative,
    "pow": np.power,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "abs": np.abs,
    "sin": np.sin,
    "cos": np.cos,
    "atan": np.arctan,
    "erf": lambda x: math.erf(x),
    "lgamma": lambda x: _lgamma(float(x)),
    "floor": np.floor,
    "round": np.rint,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "select": lambda c, a, b: a if c else b,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "not": np.logical_not,
}


def mpmath_namespace(primitives: Mapping[str, Primitive], digits: int = 110, guarded: bool = True) -> Numbers:
    """Numbers of mpmath at this many digits, in a context of its own; `namespace.call("real", x)` makes one."""
    context = mpmath.MPContext()
    context.dps = digits
    return Numbers(_mpmath_table(context, guarded), primitives, "exact")


def _mpmath_table(context: Any, guarded: bool) -> Table:
    real, inf, nan = context.mpf, context.inf, context.nan

    def product(x: Any, y: Any) -> Any:
        return real(0) if x == 0 or y == 0 else real(x) * real(y)

    def quotient(x: Any, y: Any) -> Any:
        x, y = real(x), real(y)
        if y == 0:
            return nan if x == 0 or context.isnan(x) else inf * context.sign(x)
        return real(0) if context.isinf(y) and not context.isinf(x) and not context.isnan(x) else x / y

    def log(x: Any) -> Any:
        x = real(x)
        return context.log(x) if x >= 0 else nan

    def log1p(x: Any) -> Any:
        x = real(x)
        return inf if x == inf else context.log1p(x) if x > -1 else log(1 + x)

    def power(x: Any, y: Any) -> Any:
        x, y = real(x), real(y)
        if y == 0 or x == 1:
            return real(1)
        if x == 0:
            return real(0) if y > 0 else inf
        if context.isinf(y):
            return real(0) if (abs(x) < 1) == (y > 0) else inf
        if x < 0 and not context.isint(y):
            return nan
        return x**y

    def within(function: Callable[[Any], Any], holds: Callable[[Any], bool]) -> Callable[[Any], Any]:
        def run(x: Any) -> Any:
            x = real(x)
            return function(x) if holds(x) else nan

        return run

    def angle(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return within(function, lambda x: bool(abs(x) <= 1))

    def circular(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return within(function, lambda x: bool(abs(x) < inf))

    def polygamma(order: int) -> Callable[[Any], Any]:
        return within(lambda x: context.psi(order, x), lambda x: bool(0 < x < inf))

    def lgamma(x: Any) -> Any:
        x = real(x)
        if abs(x) == inf or (x <= 0 and context.isint(x)):
            return inf
        return context.re(context.loggamma(x)) if x > 0 else log(abs(context.gamma(x)))

    def sigmoid(x: Any) -> Any:
        e = context.exp(-abs(real(x)))
        return (1 if x >= 0 else e) / (1 + e)

    def larger(x: Any, y: Any) -> Any:
        x, y = real(x), real(y)
        return nan if context.isnan(x) or context.isnan(y) else max(x, y)

    def smaller(x: Any, y: Any) -> Any:
        return -larger(-x, -y)

    def logaddexp(x: Any, y: Any) -> Any:
        x, y = real(x), real(y)
        gap = real(0) if x == y else abs(x - y)
        return larger(x, y) + context.log1p(context.exp(-gap))

    def log1mexp(x: Any) -> Any:
        return log(-context.expm1(real(x)))

    def floor(x: Any) -> Any:
        return context.floor(x) if context.isfinite(x) else real(x)

    def nearest(x: Any) -> Any:
        return context.nint(x) if context.isfinite(x) else real(x)

    return {
        "real": real,
        "add": lambda x, y: real(x) + real(y),
        "sub": lambda x, y: real(x) - real(y),
        "mul": product if guarded else lambda x, y: real(x) * real(y),
        "mulz": product,
        "div": quotient,
        "neg": lambda x: -real(x),
        "pow": power,
        "exp": lambda x: context.exp(real(x)),
        "log": log,
        "sqrt": within(context.sqrt, lambda x: bool(x >= 0)),
        "abs": lambda x: abs(real(x)),
        "sign": lambda x: context.sign(real(x)),
        "sin": circular(context.sin),
        "cos": circular(context.cos),
        "tan": circular(context.tan),
        "acos": angle(context.acos),
        "asin": angle(context.asin),
        "atan": lambda x: context.atan(real(x)),
        "tanh": lambda x: context.tanh(real(x)),
        "sigmoid": sigmoid,
        "softplus": lambda x: logaddexp(x, 0),
        "relu": lambda x: larger(x, 0),
        "erf": lambda x: context.erf(real(x)),
        "lgamma": lgamma,
        "digamma": polygamma(0),
        "trigamma": polygamma(1),
        "tetragamma": polygamma(2),
        "floor": floor,
        "round": nearest,
        "mod": lambda x, y: nan if y == 0 else real(x) - real(y) * floor(quotient(x, y)),
        "minimum": smaller,
        "maximum": larger,
        "clip": lambda x, lo, hi: smaller(larger(x, lo), hi),
        "select": lambda c, a, b: a if c else b,
        "eq": lambda x, y: bool(x == y),
        "ne": lambda x, y: bool(x != y),
        "lt": lambda x, y: bool(x < y),
        "le": lambda x, y: bool(x <= y),
        "gt": lambda x, y: bool(x > y),
        "ge": lambda x, y: bool(x >= y),
        "and": lambda x, y: bool(x) and bool(y),
        "or": lambda x, y: bool(x) or bool(y),
        "not": lambda x: not x,
        "isfinite": lambda x: bool(context.isfinite(x)),
        "expm1": lambda x: context.expm1(real(x)),
        "log1p": log1p,
        "log1mexp": log1mexp,
        "logaddexp": logaddexp,
        "expm1mx": lambda x: _tail(context, lambda: context.exp(real(x)) - 1 - real(x), x),
        "log1pmx": lambda x: _tail(context, lambda: log(1 + real(x)) - real(x), x),
    }


def _tail(context: Any, difference: Callable[[], Any], x: Any) -> Any:
    """A difference that loses about twice the digits of x, evaluated with that many more."""
    lost = 0 if not x or abs(x) >= 1 else 2 * int(-context.log10(abs(x))) + 4
    with context.extradps(lost):
        return +difference()
