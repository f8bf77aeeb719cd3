"""Namespaces in which the formulas of records are numbers: numpy in float64, and mpmath at any precision.

A namespace has a method for every primitive it spells itself and falls back on a record's `exact` (mpmath) or `expand`
(numpy) for the rest, so that a plugin's primitive runs too. `call` reaches those whose names are Python words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

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
        return formula(self, *arguments)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *arguments: self.call(name, *arguments)


def numpy_namespace(primitives: Mapping[str, Primitive], guarded: bool = True) -> Numbers:
    """Float64 arrays (or numbers), elementwise with broadcasting, without warnings.

    `guarded`: whether `mul` takes 0·±inf as 0, as in a Graph; in a kernel it is the bare product.
    """
    return Numbers(_numpy_table(guarded), primitives, "expand")


def _numpy_table(guarded: bool) -> Table:
    import numpy as np

    lgamma, erf = np.frompyfunc(_lgamma, 1, 1), np.frompyfunc(math.erf, 1, 1)

    def quiet(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            with np.errstate(all="ignore"):
                return function(*arguments)

        return run

    def real(x: Any) -> Any:
        return np.asarray(x, dtype=np.float64)

    def number(function: Callable[..., Any]) -> Callable[..., Any]:
        """`function` on arguments of which bools count as whole numbers."""
        return lambda *xs: function(*(np.asarray(x).astype(np.int64) if np.asarray(x).dtype == bool else x for x in xs))

    def mulz(x: Any, y: Any) -> Any:
        product = number(np.multiply)(x, y)
        return np.where(np.equal(x, 0) | np.equal(y, 0), np.zeros_like(product), product)

    def log1mexp(x: Any) -> Any:
        x = real(x)
        return np.where(x > -math.log(2), np.log(-np.expm1(x)), np.log1p(-np.exp(x)))

    def power(x: Any, y: Any) -> Any:
        return np.power(real(x), y)

    table: dict[str, Callable[..., Any]] = {
        "add": number(np.add),
        "sub": number(np.subtract),
        "mul": mulz if guarded else number(np.multiply),
        "mulz": mulz,
        "div": np.true_divide,
        "neg": number(np.negative),
        "pow": power,
        "exp": np.exp,
        "log": np.log,
        "sqrt": np.sqrt,
        "abs": number(np.abs),
        "sign": number(np.sign),
        "sin": np.sin,
        "cos": np.cos,
        "tan": np.tan,
        "acos": np.arccos,
        "asin": np.arcsin,
        "atan": np.arctan,
        "tanh": np.tanh,
        "erf": lambda x: real(erf(real(x))),
        "lgamma": lambda x: real(lgamma(real(x))),
        "floor": lambda x: np.floor(real(x)),
        "round": lambda x: np.round(real(x)),
        "mod": number(np.mod),
        "minimum": np.minimum,
        "maximum": np.maximum,
        "clip": lambda x, lo, hi: np.minimum(np.maximum(x, lo), hi),
        "select": lambda c, a, b: np.where(np.asarray(c, dtype=bool), a, b),
        "eq": np.equal,
        "ne": np.not_equal,
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
        "and": np.logical_and,
        "or": np.logical_or,
        "not": np.logical_not,
        "isfinite": np.isfinite,
        "expm1": np.expm1,
        "log1p": np.log1p,
        "log1mexp": log1mexp,
        "logaddexp": np.logaddexp,
    }
    return {name: quiet(function) for name, function in table.items()}


def _lgamma(x: float) -> float:
    try:
        return math.lgamma(x)
    except ValueError:  # a pole
        return math.inf


def mpmath_namespace(primitives: Mapping[str, Primitive], digits: int = 50, guarded: bool = True) -> Numbers:
    """Numbers of mpmath at this many digits (in a context of its own; `namespace.call("real", x)` makes one)."""
    from mpmath import MPContext

    context = MPContext()
    context.dps = digits
    return Numbers(_mpmath_table(context, guarded), primitives, "exact")


def _elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of numbers that also takes arrays of objects."""

    def run(*arguments: Any) -> Any:
        if not any(hasattr(x, "shape") for x in arguments):
            return function(*arguments)
        import numpy as np

        return np.frompyfunc(function, len(arguments), 1)(*arguments)

    return run


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

    functions: dict[str, Callable[..., Any]] = {
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
    return {name: _elementwise(function) for name, function in functions.items()}


def _tail(context: Any, difference: Callable[[], Any], x: Any) -> Any:
    """A difference that loses about twice the digits of x, evaluated with that many more."""
    lost = 0 if not x or abs(x) >= 1 else 2 * int(-context.log10(abs(x))) + 4
    with context.extradps(lost):
        return +difference()
