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
    partials=lambda f, x: (-1 / f.sqrt((1 - x) * (1 + x)),),  # 1 - x² loses the digits of 1 - x
    expand=lambda f, x: 2 * f.atan(f.sqrt((1 - x) / (1 + x))),
    range=interval.decreasing(lambda x: math.acos(min(max(x, -1.0), 1.0)), Interval(0.0, 3.1415926535897936), (1.0,)),
    domain=(Interval(-1.0, 1.0),),
    samples=((0.0,), (0.5,), (-0.9,), (0.9999999,), (-0.9999999,)),
    ulp=4.0,
)
