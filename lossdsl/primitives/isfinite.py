"""The primitive `isfinite`."""

from __future__ import annotations

import math

from lossdsl.primitives import interval
from lossdsl.primitives.interval import UNIT
from lossdsl.primitives.record import Primitive

RECORD = Primitive(
    name="isfinite",
    arity=1,
    doc="neither infinite nor NaN",
    expand=lambda f, x: f.lt(f.abs(x), math.inf),
    range=interval.constant(UNIT),
    kind="bool",
    public=False,
    samples=((0.0,), (1e30,)),
    ulp=0.5,
)
