"""The primitive `asin`."""

from __future__ import annotations

import math

from lossdsl.primitives import interval
from lossdsl.primitives.interval import Interval
from lossdsl.primitives.record import Primitive

RECORD = Primitive(
    name="asin",
    arity=1,
    doc="the angle in [-pi/2, pi/2] whose sine is x",
    # 1 - x² loses the digits of 1 - x; at the ends, where a sine is stationary, 0
    partials=lambda f, x: (f.select(f.lt(f.abs(x), 1), 1 / f.sqrt((1 - x) * (1 + x)), 0),),
    expand=lambda f, x: f.atan(x / f.sqrt((1 - x) * (1 + x))),
    range=interval.increasing(
        lambda x: math.asin(min(max(x, -1.0), 1.0)), Interval(-1.5707963267948968, 1.5707963267948968)
    ),
    domain=(Interval(-1.0, 1.0),),
    kinks="x = -1, x = 1: derivative 0, as that of a norm at 0",
    samples=((0.0,), (0.5,), (-0.9,), (0.9999999,), (1e-10,)),
    ulp=4.0,
)
