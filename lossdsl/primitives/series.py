"""Series for expansions near a zero, where the plain formula would cancel; accurate to float64 in their ranges.

The coefficients are floats, so that the same expansion serves every backend. Ranges are those of the callers:
|x| < 1 for `exp_series`, 0 <= t <= 1/9 for `artanh_series`.
"""

from __future__ import annotations

import math
from typing import Any

TERMS = 17
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)  # B2, B4, …
SHIFT = 10  # arguments are moved up to here, where the asymptotic series has converged


def horner(x: Any, coefficients: list[float]) -> Any:
    """The polynomial with these coefficients, lowest power first."""
    value: Any = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        value = value * x + c
    return value


def exp_series(x: Any, start: int) -> Any:
    """(e^x less its first `start` Taylor terms)/x^start, for |x| < 1."""
    return horner(x, [1 / math.factorial(k) for k in range(start, start + TERMS)])


def artanh_series(t: Any, start: int = 0) -> Any:
    """Sum of t^k/(2k + 1) from k = start on, over t^start: artanh(s) = s·(this of s²)."""
    return horner(t, [1 / (2 * k + 1) for k in range(start, start + TERMS)])


def polygamma(f: Any, order: int, x: Any) -> Any:
    """The derivative of this order of digamma, for x > 0: recurrence up to x + 10, then the asymptotic series.

    Digamma(y) is log y - 1/(2y) - Σ B2k/(2k·y^2k); the recurrence takes off 1/(x + k) (Abramowitz and Stegun 6.3.18,
    6.3.6). Outside x > 0 it is NaN.
    """
    sign = (-1) ** (order + 1)
    y = x + SHIFT
    inverse = 1 / y
    square = inverse * inverse
    scale = math.factorial(order - 1) if order else 0
    tail = [b * math.factorial(2 * k + order - 1) / math.factorial(2 * k) for k, b in enumerate(BERNOULLI, 1)]
    value = math.factorial(order) / 2 + inverse * horner(square, tail)
    lead = f.log(y) if order == 0 else sign * scale * _whole_power(inverse, order)
    value = lead + sign * _whole_power(inverse, order + 1) * value
    shifted = _whole_power(1 / x, order + 1)
    for k in range(1, SHIFT):
        shifted = shifted + _whole_power(1 / (x + k), order + 1)
    return f.select(f.gt(x, 0), value + sign * math.factorial(order) * shifted, math.nan)


def _whole_power(x: Any, n: int) -> Any:
    value = x
    for _ in range(n - 1):
        value = value * x
    return value
