"""Interval arithmetic on many boxes at once: arrays of lower and of upper ends, rounded outwards.

An end is exact where the float operation is (checked by its error term), else moved by a unit in the last place; values
of exp, log and their kin are moved by `ULPS`, which is more than the error of any C library or of numpy's own loops. So
an enclosure contains the real value for every point of the box, and stays thin at 0 and 1, where bounds are attained.
Infinite ends are limits: 0·inf is 0. Outside its domain a function goes on as it is at the nearest end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import inf
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
ULPS = 8


@dataclass(frozen=True, slots=True)
class Boxes:
    """One interval for each box: arrays of one length, or scalars that broadcast; low <= high."""

    low: Array
    high: Array

    @property
    def width(self) -> Array:
        return self.high - self.low


def constant(value: Any) -> Boxes:
    """The thinnest interval around a rational or an infinity."""
    near = float(value)
    low = high = near
    if isinstance(value, Fraction) and abs(near) != inf and Fraction(near) != value:
        low, high = (np.nextafter(near, -inf), near) if Fraction(near) > value else (near, np.nextafter(near, inf))
    return Boxes(np.asarray(low), np.asarray(high))


EVERYTHING = Boxes(np.asarray(-inf), np.asarray(inf))
ZERO = constant(0)
ONE = constant(1)


LARGEST = np.finfo(float).max


def _down(x: Array, exact: Array) -> Array:
    """Below every real that x may stand for: an inexact infinity is a finite number that is too large."""
    return np.where(exact | (x == -inf), x, np.where(x == inf, LARGEST, np.nextafter(x, -inf)))


def _up(x: Array, exact: Array) -> Array:
    return -_down(-x, exact)


def _known(low: Array, high: Array) -> Boxes:
    """NaN ends say nothing."""
    return Boxes(np.where(np.isnan(low), -inf, low), np.where(np.isnan(high), inf, high))


def _sum(x: Array, y: Array) -> tuple[Array, Array]:
    """x + y and whether it is exact (Knuth's error term); inf + finite is."""
    s = x + y
    part = s - x
    error = (x - (s - part)) + (y - part)
    return s, (error == 0) | np.isinf(x) | np.isinf(y)


def add(a: Boxes, b: Boxes) -> Boxes:
    return _known(_down(*_sum(a.low, b.low)), _up(*_sum(a.high, b.high)))


def neg(a: Boxes) -> Boxes:
    return Boxes(0.0 - a.high, 0.0 - a.low)


def sub(a: Boxes, b: Boxes) -> Boxes:
    return add(a, neg(b))


def _times(x: Array, y: Array) -> tuple[Array, Array]:
    """x·y with 0·inf = 0, and whether it is exact: a factor is 0, a power of two or infinite, or both are short."""
    z = np.where((x == 0) | (y == 0), 0.0, x * y)

    def power(v: Array) -> Array:
        return np.asarray(np.abs(np.frexp(v)[0]) == 0.5)

    far = ((np.abs(z) < 1e-290) & (x != 0) & (y != 0)) | (np.isinf(z) & np.isfinite(x) & np.isfinite(y))
    return z, ((x == 0) | (y == 0) | power(x) | power(y) | np.isinf(x) | np.isinf(y)) & ~far


def mul(a: Boxes, b: Boxes) -> Boxes:
    """x·y. An end that is 0 at a face of the domain may tend to it: [0, 0] times an unbounded factor is unbounded."""
    ends = [_times(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    low = np.minimum.reduce(np.broadcast_arrays(*(_down(*e) for e in ends)))
    high = np.maximum.reduce(np.broadcast_arrays(*(_up(*e) for e in ends)))
    for x, y in ((a, b), (b, a)):
        nothing = (x.low == 0) & (x.high == 0)
        low = np.where(nothing & (y.low == -inf), -inf, low)
        high = np.where(nothing & (y.high == inf), inf, high)
    return _known(low, high)


def reciprocal(a: Boxes, apart: bool = False) -> Boxes:
    """1/x: a box around 0 gives everything, and so does one below it that has 0, where 1/0 is +inf.

    `apart`: x is never 0 itself, which is a limit then: 1/x goes to the infinity of the side that the box lies on.
    """
    low_zero, high_zero = a.low == 0, a.high == 0

    def inverse(x: Array) -> tuple[Array, Array]:
        y = 1 / np.where(x == 0, 1.0, x)
        return y, ((np.abs(np.frexp(x)[0]) == 0.5) & np.isfinite(y)) | np.isinf(x)

    low = np.where(high_zero, -inf, _down(*inverse(a.high)))
    high = np.where(low_zero, inf, _up(*inverse(a.low)))
    around = ((a.low < 0) & (a.high > 0)) | (low_zero & high_zero)
    if not apart:
        around |= high_zero & (a.low < 0)
    return Boxes(np.where(around, -inf, low), np.where(around, inf, high))


def div(a: Boxes, b: Boxes, apart: bool = False) -> Boxes:
    """x/y; over [0, 0] it may be anything. `apart`: y is never 0."""
    found = mul(a, reciprocal(b, apart))
    undefined = (b.low == 0) & (b.high == 0)
    return Boxes(np.where(undefined, -inf, found.low), np.where(undefined, inf, found.high))


def maximum(a: Boxes, b: Boxes) -> Boxes:
    return Boxes(np.maximum(a.low, b.low), np.maximum(a.high, b.high))


def minimum(a: Boxes, b: Boxes) -> Boxes:
    return Boxes(np.minimum(a.low, b.low), np.minimum(a.high, b.high))


def absolute(a: Boxes) -> Boxes:
    around = (a.low < 0) & (a.high > 0)
    x, y = np.abs(a.low), np.abs(a.high)
    return Boxes(np.where(around, 0.0, np.minimum(x, y)), np.maximum(x, y))


def hull(a: Boxes, b: Boxes) -> Boxes:
    return Boxes(np.minimum(a.low, b.low), np.maximum(a.high, b.high))


def within(a: Boxes, low: float, high: float) -> Boxes:
    """a where it is known to lie in [low, high]."""
    return Boxes(np.clip(a.low, low, high), np.clip(a.high, low, high))


def increasing(
    function: Callable[[Array], Array], low: float = -inf, high: float = inf, exact: tuple[float, ...] = ()
) -> Callable[[Boxes], Boxes]:
    """The interval function of an increasing function with values in [low, high], exact at some arguments."""

    def side(x: Array, sign: int) -> Array:
        y = function(x)
        known = np.isin(x, exact)
        step = ULPS * np.spacing(np.abs(np.where(np.isfinite(y), y, 1.0))) + 1e-300
        moved = np.where(np.isfinite(y), y + sign * step, y)
        # where a finite argument's value is too large for a float, it is finite all the same
        inward = (y == -sign * inf) & np.isfinite(x)
        return np.clip(np.where(known, y, np.where(inward, -sign * LARGEST, moved)), low, high)

    return lambda a: _known(side(a.low, -1), side(a.high, 1))


def _quiet(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    def of(x: Array) -> Array:
        with np.errstate(all="ignore"):
            return function(x)

    return of


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def _phi(x: Array) -> Array:
    """(e^x - 1)/x."""
    safe = np.where((x == 0) | np.isinf(x), 1.0, x)
    return np.where(x == 0, 1.0, np.where(x == -inf, 0.0, np.where(x == inf, inf, np.expm1(safe) / safe)))


exp = increasing(_quiet(np.exp), 0.0, exact=(0.0, -inf, inf))
expm1 = increasing(_quiet(np.expm1), -1.0, exact=(0.0, -inf, inf))
log = increasing(_quiet(lambda x: np.log(np.maximum(x, 0.0))), exact=(0.0, 1.0, inf))
log1p = increasing(_quiet(lambda x: np.log1p(np.maximum(x, -1.0))), exact=(0.0, -1.0, inf))
sqrt = increasing(_quiet(lambda x: np.sqrt(np.maximum(x, 0.0))), 0.0, exact=(0.0, 1.0, 4.0, inf))
sigmoid = increasing(_quiet(_sigmoid), 0.0, 1.0, exact=(0.0, -inf, inf))
softplus = increasing(_quiet(lambda x: np.logaddexp(0.0, x)), 0.0, exact=(-inf, inf))
tanh = increasing(_quiet(np.tanh), -1.0, 1.0, exact=(0.0, -inf, inf))
atan = increasing(_quiet(np.arctan), exact=(0.0,))
phi = increasing(_quiet(_phi), 0.0, exact=(0.0, -inf, inf))


def xlogx(a: Boxes) -> Boxes:
    """x·log x on x >= 0: falls to -1/e at 1/e, and rises from there."""
    turn = 0.36787944117144233

    def ends(x: Array) -> Boxes:
        found = mul(Boxes(x, x), log(Boxes(x, x)))
        return Boxes(np.where(x == 0, 0.0, found.low), np.where(x == 0, 0.0, found.high))

    x, y = ends(np.maximum(a.low, 0.0)), ends(np.maximum(a.high, 0.0))
    around = (a.low <= turn * (1 + 1e-15)) & (a.high >= turn * (1 - 1e-15))
    low = np.where(around, -turn * (1 + 1e-15), np.minimum(x.low, y.low))
    return Boxes(low, np.maximum(x.high, y.high))


def power(a: Boxes, b: Boxes, whole: Fraction | None, apart: bool = False) -> Boxes:
    """x^y: any base for a known whole y, else x >= 0 and exp(y·log x); `apart`: x is never 0."""
    if whole is not None and whole.denominator == 1 and abs(whole) <= 64:
        n = abs(int(whole))
        base = absolute(a) if n % 2 == 0 else a
        raised = _raised(base, n)
        return raised if whole >= 0 else reciprocal(raised, apart)
    clipped = Boxes(np.maximum(a.low, 0.0), np.maximum(a.high, 0.0))
    found = exp(mul(b, log(clipped)))
    # 0^0 is 1, and near it x^y may be anything between 0 and 1; 0·inf above has taken it for 1 alone
    corner = (clipped.low == 0) & (b.low <= 0) & (b.high >= 0)
    found = Boxes(np.where(corner, 0.0, found.low), np.where(corner & (b.low < 0), inf, found.high))
    below = a.low < 0  # a base below 0 has a power for whole y, or none
    return Boxes(np.where(below, -inf, found.low), np.where(below, inf, found.high))


def _raised(a: Boxes, n: int) -> Boxes:
    """x^n by products of the ends: exact where they are."""

    def end(x: Array) -> Boxes:
        point = result = Boxes(x, x)
        for _ in range(n - 1):
            result = mul(result, point)
        return result

    return Boxes(end(a.low).low, end(a.high).high)


def less(a: Boxes, b: Boxes, strict: bool = True) -> Boxes:
    """The truth of x < y (or x <= y) as an interval in [0, 1]."""
    surely = a.high < b.low if strict else a.high <= b.low
    possibly = a.low < b.high if strict else a.low <= b.high
    return Boxes(surely.astype(float), possibly.astype(float))
