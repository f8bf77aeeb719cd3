"""Intervals of real numbers: what is known of a value before it is computed.

Endpoints are floats. They bound the value in real arithmetic; an open end at ±inf says that the infinity itself is not
taken. Operations may widen, never narrow: everything that reads an interval (lints, the choice of a guarded product)
stays right when it is too wide. Rounded ends are therefore moved outwards. `nan` says that the value may be none: a
logarithm below 0, 0/0, inf - inf. A test of it fails, so no test of it is known to hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf, nextafter


@dataclass(frozen=True, slots=True)
class Interval:
    """All reals x with low <= x <= high, an open end excluded; `nan`: and no value at all."""

    low: float = -inf
    high: float = inf
    low_open: bool = False
    high_open: bool = False
    nan: bool = False

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
        return Interval(low[0], high[0], low[1], not high[1], self.nan or other.nan)

    def or_none(self, none: bool = True) -> Interval:
        """The same, which may have no value, too."""
        return replace(self, nan=True) if none and not self.nan else self


REALS = Interval()  # reals and ±inf: what an input of kind real may hold
FINITE = Interval(low_open=True, high_open=True)
NONNEGATIVE = Interval(0.0)
NONPOSITIVE = Interval(high=0.0)
UNIT = Interval(0.0, 1.0)
SYMMETRIC_UNIT = Interval(-1.0, 1.0)
ZERO = Interval(0.0, 0.0)
ONE = Interval(1.0, 1.0)

LARGEST = 1.7976931348623157e308
End = tuple[float, bool]  # an endpoint and whether it is open


def point(x: Fraction | float) -> Interval:
    """The interval of one value; of one that no float is, between the floats beside it."""
    near = float(x)
    low, high = _rounded(near, x if isinstance(x, Fraction) else None)
    return Interval(low, high, low != high, low != high)


def _spanned(ends: Iterable[tuple[float, float, bool]]) -> Interval:
    """The hull of candidate ends (rounded down, rounded up, open)."""
    ends = tuple(ends)
    low, low_open = min((down, is_open) for down, _, is_open in ends)
    high, closed = max((up, not is_open) for _, up, is_open in ends)
    return Interval(low, high, low_open, not closed)


def _rounded(value: float, exact: Fraction | None) -> tuple[float, float]:
    """`value` moved down and up to enclose `exact`, of which it is the rounding (None: it is exact)."""
    if exact is None or math.isinf(value):
        if exact is not None:  # overflow: finite in real arithmetic
            return (LARGEST, inf) if value > 0 else (-inf, -LARGEST)
        return value, value
    return (
        value if exact >= Fraction(value) else nextafter(value, -inf),
        value if exact <= Fraction(value) else nextafter(value, inf),
    )


def _finite(*values: float) -> bool:
    return all(math.isfinite(v) for v in values)


def add(a: Interval, b: Interval) -> Interval:
    """The interval of x + y."""
    low, low_open = _sum_end((a.low, a.low_open), (b.low, b.low_open), -inf)
    high, high_open = _sum_end((a.high, a.high_open), (b.high, b.high_open), inf)
    return Interval(low, high, low_open, high_open, (inf in a and -inf in b) or (-inf in a and inf in b))


def _sum_end(a: End, b: End, side: float) -> End:
    if side in (a[0], b[0]):  # the infinity is taken if either takes it
        return side, (a[0] != side or a[1]) and (b[0] != side or b[1])
    if not _finite(a[0], b[0]):
        return side if a[0] == -b[0] else a[0] + b[0], False  # inf - inf, or the far infinity itself
    total = a[0] + b[0]
    down, up = _rounded(total, Fraction(a[0]) + Fraction(b[0]))
    bound = down if side < 0 else up
    return bound, a[1] or b[1] or bound != total


def neg(a: Interval) -> Interval:
    """The interval of -x."""
    return Interval(0.0 - a.high, 0.0 - a.low, a.high_open, a.low_open)  # not -0


def sub(a: Interval, b: Interval) -> Interval:
    """The interval of x - y."""
    return add(a, neg(b))


def mul(a: Interval, b: Interval) -> Interval:
    """The interval of x·y, where 0·±inf is 0."""
    left, right = ((a.low, a.low_open), (a.high, a.high_open)), ((b.low, b.low_open), (b.high, b.high_open))
    ends = [_product_end(x, y) for x in left for y in right]
    if (0.0 in a) or (0.0 in b):
        ends.append((0.0, 0.0, False))
    return _spanned(ends)


def _product_end(a: End, b: End) -> tuple[float, float, bool]:
    if a[0] == 0 or b[0] == 0:
        return 0.0, 0.0, not ((a[0] == 0 and not a[1]) or (b[0] == 0 and not b[1]))
    value = a[0] * b[0]
    if math.isinf(a[0]) or math.isinf(b[0]):
        taken = (math.isinf(a[0]) and not a[1]) or (math.isinf(b[0]) and not b[1])
        return value, value, not taken
    down, up = _rounded(value, Fraction(a[0]) * Fraction(b[0]))
    return down, up, a[1] or b[1]


def reciprocal(a: Interval) -> Interval:
    """The interval of 1/x; 1/0 may be either infinity."""
    if a.low < 0 < a.high or 0.0 in a:
        if a.low >= 0:  # 1/+0
            return Interval(_inverse(a.high)[0], inf, a.high_open)
        if a.high <= 0:
            return REALS  # a zero of either sign
        return REALS
    _, low_up = _inverse(a.low)
    high_down, _ = _inverse(a.high)
    if a.low == 0:
        return Interval(high_down, inf, a.high_open, True)
    if a.high == 0:
        return Interval(-inf, low_up, True, a.low_open)
    return Interval(high_down, low_up, a.high_open, a.low_open)


def _inverse(x: float) -> tuple[float, float]:
    if x == 0:
        return -inf, inf
    if math.isinf(x):
        return 0.0, 0.0
    if math.isinf(1 / x):
        return _rounded(1 / x, Fraction(1))
    return _rounded(1 / x, 1 / Fraction(x))


def div(a: Interval, b: Interval) -> Interval:
    """The interval of x/y: 0/0 and inf/inf are none."""
    return _quotient(a, b).or_none((0.0 in a and 0.0 in b) or not (a.finite or b.finite))


def _quotient(a: Interval, b: Interval) -> Interval:
    if 0.0 in b and 0.0 not in a and a.low >= 0 and b.low >= 0:
        quotient = mul(a, Interval(_inverse(b.high)[0], inf, b.high_open))
        return Interval(quotient.low, inf, quotient.low_open)
    return mul(a, reciprocal(b))


def absolute(a: Interval) -> Interval:
    """The interval of |x|."""
    if a.low >= 0:
        return a
    if a.high <= 0:
        return neg(a)
    high, closed = max((-a.low, not a.low_open), (a.high, not a.high_open))
    return Interval(0.0, high, False, not closed)


def minimum(a: Interval, b: Interval) -> Interval:
    """The interval of min(x, y)."""
    return neg(maximum(neg(a), neg(b)))


def maximum(a: Interval, b: Interval) -> Interval:
    """The interval of max(x, y)."""
    low, low_open = max((a.low, a.low_open), (b.low, b.low_open))
    high, closed = max((a.high, not a.high_open), (b.high, not b.high_open))
    return Interval(low, high, low_open, not closed)


def clip(x: Interval, low: Interval, high: Interval) -> Interval:
    """The interval of min(max(x, low), high)."""
    return minimum(maximum(x, low), high)


def relu(x: Interval) -> Interval:
    """The interval of max(x, 0)."""
    return maximum(x, ZERO)


def select(condition: Interval, a: Interval, b: Interval) -> Interval:
    """The interval of a where the condition holds, else b."""
    if condition.low > 0:
        return a
    if condition.high <= 0 and not condition.low < 0:
        return b
    return a.hull(b)


def increasing(
    function: Callable[[float], float],
    within: Interval = REALS,
    exact: tuple[float, ...] = (0.0,),
    strictly: bool = True,
) -> Callable[[Interval], Interval]:
    """The interval function of an increasing `function` whose values lie in `within`.

    Ends are moved outwards by two units in the last place, except where the argument is in `exact`, at which the float
    function gives the true value, and where the value is infinite or a bound of `within`. A function that is constant
    somewhere (not `strictly` increasing) may take the value of an open end.
    """

    def end(x: float, is_open: bool, side: float) -> End:
        y = function(x)
        if math.isinf(y) and math.isfinite(x) and x not in exact:  # too large for a float, but finite
            return (y, True) if y == side else (math.copysign(LARGEST, y), False)
        if not (x in exact or math.isinf(y) or (math.isinf(x) and y in (within.low, within.high))):
            y = nextafter(nextafter(y, side), side)
        return y, is_open and strictly

    def of(a: Interval) -> Interval:
        (low, low_open), (high, high_open) = end(a.low, a.low_open, -inf), end(a.high, a.high_open, inf)
        return intersection(Interval(low, high, low_open, high_open), within)

    return of


def intersection(a: Interval, b: Interval) -> Interval:
    """What both hold; `b` itself if that is nothing."""
    low, low_open = max((a.low, a.low_open), (b.low, b.low_open))
    high, closed = min((a.high, not a.high_open), (b.high, not b.high_open))
    if low > high or (low == high and (low_open or not closed)):
        return b
    return Interval(low, high, low_open, not closed)


def decreasing(
    function: Callable[[float], float], within: Interval = REALS, exact: tuple[float, ...] = (0.0,)
) -> Callable[[Interval], Interval]:
    """As `increasing`, for a strictly decreasing function."""
    mirrored = increasing(lambda x: function(0.0 - x), within, tuple(0.0 - x for x in exact))
    return lambda a: mirrored(neg(a))


def constant(within: Interval) -> Callable[..., Interval]:
    """The interval function that knows no more than the range."""
    return lambda *_: within


def less(a: Interval, b: Interval) -> Interval:
    """The interval of the bool x < y."""
    if _below(a, b):
        return UNIT if a.nan or b.nan else ONE
    return ZERO if a.low >= b.high else UNIT


def less_equal(a: Interval, b: Interval) -> Interval:
    """The interval of the bool x <= y."""
    if _below(b, a):
        return ZERO
    return ONE if a.high <= b.low and not (a.nan or b.nan) else UNIT


def equal(a: Interval, b: Interval) -> Interval:
    """The interval of the bool x == y."""
    if _below(a, b) or _below(b, a):
        return ZERO
    return ONE if a == b and a.low == a.high and not a.nan else UNIT


def _below(a: Interval, b: Interval) -> bool:
    """Whether every value of the one is less than every value of the other."""
    return a.high < b.low or (a.high == b.low and (a.high_open or b.low_open))


def power(a: Interval, b: Interval) -> Interval:
    """The interval of x^y for x >= 0 or a constant whole y; else everything."""
    if b.low == b.high and math.isfinite(b.low):
        return _power_of(a, b.low)
    if a.low < 0:
        return REALS.or_none()
    if b.low > 0 and b.high <= nextafter(b.low, inf):  # a constant that no float is: x^y goes one way in y
        return _power_of(a, b.low).hull(_power_of(a, b.high))
    if a.high <= 1 and b.low >= 0:
        return UNIT
    return NONNEGATIVE


def _power_of(a: Interval, n: float) -> Interval:
    if n == 0:
        return ONE
    if n < 0:
        return reciprocal(_power_of(a, -n))
    if a.low < 0:
        if n != int(n):
            return NONNEGATIVE.or_none()
        if n % 2:
            return increasing(lambda x: _pow(x, n), exact=(-1.0, 0.0, 1.0))(a)
        a = absolute(a)
    return increasing(lambda x: _pow(x, n), NONNEGATIVE, (0.0, 1.0))(a)


def _pow(x: float, n: float) -> float:
    try:
        return float(x**n)
    except OverflowError:
        return inf if x > 0 or n % 2 == 0 else -inf
