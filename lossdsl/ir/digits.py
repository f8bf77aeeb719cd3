"""Reals as mpmath numbers of 110 digits, in object arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from lossdsl.ir.arithmetic import Arithmetic, Array
from lossdsl.ir.floats import product, shared
from lossdsl.ir.graph import Scalar

DIGITS = 110  # so that 50 are left after any cancellation that a float could show
FAR = 1024  # bits of an exponent: beyond, a tower of powers would fill the memory, and is NaN, which says nothing


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

    def psi(n: int, x: Any) -> Any:  # mpmath goes from x to 0 in steps of 1
        return mp.nan if x < -FAR else mp.psi(n, x)

    def near(function: Callable[[Any], Any], beyond: Callable[[Any], Any] = lambda x: mp.nan) -> Callable[[Any], Any]:
        """The function where its argument has at most FAR binary digits before the point: its time is bounded."""
        return lambda x: beyond(x) if _far(mp, x) else function(x)

    def sine(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return near(lambda x: mp.nan if mp.isinf(x) else function(x))

    own = shared(real)
    own["mul"] = product(real)
    own["div"] = guarded(divide)
    own["maximum"] = guarded(lambda x, y: x if x >= y or mp.isnan(x) else y)  # numpy loses a NaN of objects
    own["relu"] = guarded(lambda x: x if x > 0 or mp.isnan(x) else mp.mpf(0))
    own["minimum"] = guarded(lambda x, y: x if x <= y or mp.isnan(x) else y)
    own["pow"] = guarded(lambda x, y: _mp_power(mp, x, y))
    own["round"] = guarded(near(mp.nint, lambda x: x))
    own["floor"] = guarded(near(mp.floor, lambda x: x))
    own["lgamma"] = guarded(near(lgamma))
    own["log"] = guarded(lambda x: mp.nan if x < 0 else mp.log(x))
    for name in ("sqrt", "atan", "asin", "acos"):
        own[name] = guarded(getattr(mp, name))
    for name in ("exp", "expm1", "tanh", "erf", "digamma"):
        own[name] = guarded(near(getattr(mp, name)))
    own["log1p"] = guarded(lambda x: mp.ninf if x == -1 else mp.nan if x < -1 else mp.log1p(x))
    own["trigamma"] = guarded(near(lambda x: psi(1, x)))
    own["tetragamma"] = guarded(near(lambda x: psi(2, x)))
    for name in ("sin", "cos", "tan"):
        own[name] = guarded(sine(getattr(mp, name)))
    return Arithmetic("mpmath", real, constant, own, exact=True)


def _python(x: Any) -> Any:
    return x.item() if isinstance(x, np.generic) else x


def _far(mp: Any, x: Any) -> bool:
    """Whether a finite number has more than `FAR` binary digits before the point."""
    return bool(mp.isfinite(x) and x != 0 and mp.mag(x) > FAR)


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
    if _far(mp, y) or _far(mp, y * mp.log(abs(x))):
        return mp.nan
    return x ** int(y) if mp.isint(y) else mp.nan if x < 0 else mp.power(x, y)
