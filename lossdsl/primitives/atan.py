"""The primitive `atan`."""

from __future__ import annotations

import math

from lossdsl.primitives import interval
from lossdsl.primitives.interval import Interval
from lossdsl.primitives.record import Primitive

RECORD = Primitive(
    name="atan",
    arity=1,
    doc="the angle in [-pi/2, pi/2] whose tangent is x",
    range=interval.increasing(math.atan, Interval(-1.5707963267948968, 1.5707963267948968)),
    samples=((0.0,), (0.5,), (-3.0,), (1e10,)),
    ulp=2.0,
)
