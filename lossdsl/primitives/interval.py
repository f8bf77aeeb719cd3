"""Intervals of real numbers: what is known of a value before it is computed.

Endpoints are floats. They bound the value in real arithmetic; an open end at ±inf says that the infinity itself is not
taken. Operations may widen, never narrow: everything that reads an interval (lints, the choice of a guarded product)
stays right when it is too wide.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class Interval:
    """All reals x with low <= x <= high, an open end excluded."""

    low: float = -inf
    high: float = inf
    low_open: bool = False
    high_open: bool = False

    def __contains__(self, x: float) -> bool:
        above = self.low < x or (self.low == x and not self.low_open)
        below = x < self.high or (self.high == x and not self.high_open)
        return above and below

    def __str__(self) -> str:
        return f"{'(' if self.low_open else '['}{self.low:g}, {self.high:g}{')' if self.high_open else ']'}"

    @property
    def finite(self) -> bool:
        """Whether no value in it is infinite."""
        return inf not in self and -inf not in self

    def hull(self, other: Interval) -> Interval:
        """The smallest interval that holds both."""
        low = min((self.low, self.low_open), (other.low, other.low_open))
        high = max((self.high, not self.high_open), (other.high, not other.high_open))
        return Interval(low[0], high[0], low[1], not high[1])


REALS = Interval()  # reals and ±inf: what an input of kind real may hold
FINITE = Interval(low_open=True, high_open=True)
NONNEGATIVE = Interval(0.0)
NONPOSITIVE = Interval(high=0.0)
UNIT = Interval(0.0, 1.0)
