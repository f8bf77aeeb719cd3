"""The primitive `acos`."""

from __future__ import annotations

import math

from lossdsl.primitives import interval
from lossdsl.primitives.interval import Interval
from lossdsl.primitives.record import Primitive

RECORD = Primitive(
    name="acos",
    arity=1,
    doc="the angle in [0, pi] whose cosine is x",
    # 1 - x² loses the digits of 1 - x; at the ends, where a cosine is stationary, 0
    partials=lambda f, x: (f.select(f.lt(f.abs(x), 1), -1 / f.sqrt((1 - x) * (1 + x)), 0),),
    expand=lambda f, x: 2 * f.atan(f.sqrt((1 - x) / (1 + x))),
    range=interval.decreasing(lambda x: math.acos(min(max(x, -1.0), 1.0)), Interval(0.0, 3.1415926535897936), (1.0,)),
    domain=(Interval(-1.0, 1.0),),
    kinks="x = -1, x = 1: derivative 0, as that of a norm at 0",
    samples=((0.0,), (0.5,), (-0.9,), (0.9999999,), (-0.9999999,)),
    ulp=4.0,
)
