"""The zero of a monotone function, elementwise, by bisection: what the interpreters mean by `root`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lossdsl.ir.arithmetic import Arithmetic, Array
from lossdsl.ir.digits import DIGITS

FLOAT_STEPS = 2100  # enough to walk from ±1e308 to a subnormal; float64 stops long before
DIGIT_STEPS = int(DIGITS * 3.33) + 40


def bisect(arithmetic: Arithmetic, f: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """t in [low, high] with f(t) = 0 for each element; f may rise or fall. At an end where f has no other sign, that
    end."""
    at_low = arithmetic.real(f(low))
    up = at_low < 0
    found = at_low == 0
    exact_low = low
    for _ in range(DIGIT_STEPS if arithmetic.exact else FLOAT_STEPS):
        middle = low + (high - low) / 2
        if not arithmetic.exact and np.all((middle <= low) | (middle >= high)):
            break
        value = arithmetic.real(f(middle))
        beyond = np.where(up, value >= 0, value <= 0)
        high = np.where(beyond, middle, high)
        low = np.where(beyond, low, middle)
    return arithmetic.real(np.where(found, exact_low, high))
