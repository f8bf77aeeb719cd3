"""The zero of a monotone function, elementwise, between two ends: what the interpreters mean by `root`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lossdsl.ir.arithmetic import Arithmetic, Array
from lossdsl.ir.digits import DIGITS

FLOAT_STEPS = 2100  # enough to walk from ±1e308 to a subnormal; float64 stops long before
DIGIT_STEPS = int(DIGITS * 3.33) + 40
_WIDTH = 10.0 ** (8 - DIGITS)  # of the last interval, relative


def bisect(arithmetic: Arithmetic, f: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """t in [low, high] with f(t) = 0 for each element; f may rise or fall. At an end where f has no other sign, that
    end."""
    at_low = arithmetic.real(f(low))
    up = at_low < 0
    found = at_low == 0
    exact_low = low
    if arithmetic.exact:
        return arithmetic.real(np.where(found, exact_low, _narrowed(arithmetic, f, low, high, at_low)))
    for _ in range(FLOAT_STEPS):
        middle = low + (high - low) / 2
        if np.all((middle <= low) | (middle >= high)):
            break
        value = arithmetic.real(f(middle))
        beyond = np.where(up, value >= 0, value <= 0)
        high = np.where(beyond, middle, high)
        low = np.where(beyond, low, middle)
    return arithmetic.real(np.where(found, exact_low, high))


def _narrowed(arithmetic: Arithmetic, f: Callable[[Array], Array], low: Array, high: Array, at_low: Array) -> Array:
    """The same by secants, of which an end that stays counts half (the Illinois method; Dowell and Jarratt, 1971), and
    every third step by halves: some sixty steps where halving takes four hundred."""
    up, at_high = at_low < 0, arithmetic.real(f(high))
    crosses = np.where(up, at_high >= 0, at_high <= 0)
    low, high, at_low, at_high = map(arithmetic.real, np.broadcast_arrays(low, high, at_low, at_high))
    low = arithmetic.real(np.where(crosses, low, high))
    least = _WIDTH * (high - low)
    side = np.zeros(low.shape)  # which end moved last
    for step in range(DIGIT_STEPS):
        width, last = high - low, _WIDTH * np.maximum(np.maximum(abs(low), abs(high)), least)
        if np.all(width <= last):
            break
        middle = low + width / 2
        if step % 3 != 2:
            secant = low + width * arithmetic.own["div"](at_low, at_low - at_high)
            secant = np.minimum(np.maximum(secant, low + last / 2), high - last / 2)  # so that both ends come near
            middle = np.where((low < secant) & (secant < high), secant, middle)
        value = arithmetic.real(f(middle))
        beyond = np.where(up, value >= 0, value <= 0)
        kept_low, kept_high = (np.where(side == s, x / 2, x) for s, x in ((1, at_low), (-1, at_high)))
        at_low, at_high = np.where(beyond, kept_low, value), np.where(beyond, value, kept_high)
        low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
        side = np.where(beyond, 1, -1)
    return high
