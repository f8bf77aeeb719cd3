"""The reduction `sum`."""

from __future__ import annotations

import math

from lossdsl.primitives.interval import Interval
from lossdsl.reductions.record import Reduction


def _range(x: Interval) -> Interval:
    low = Interval(0.0) if x.low >= 0 else Interval(low_open=-math.inf not in x)
    high = 0.0 if x.high <= 0 else math.inf
    return Interval(low.low, high, low.low_open, high > 0 and math.inf not in x)


RECORD = Reduction(
    name="sum",
    doc="x1 + x2 + …; true counts as 1",
    init=(0,),
    update=lambda f, s, x: (s[0] + x,),
    merge=lambda f, a, b: (a[0] + b[0],),
    finish=lambda f, s: s,
    empty=0.0,
    adjoint=lambda f, x, result, cotangent, reduce: cotangent,
    kind="number",
    range=_range,
)
