"""The primitive `sqrt`."""

from __future__ import annotations

import math

from lossdsl.primitives import interval
from lossdsl.primitives.interval import NONNEGATIVE
from lossdsl.primitives.record import Primitive

RECORD = Primitive(
    name="sqrt",
    arity=1,
    doc="the square root; its derivative at 0 is infinite, and a zero cotangent stays zero",
    range=interval.increasing(lambda x: math.sqrt(max(x, 0.0)), NONNEGATIVE, (0.0, 1.0)),
    domain=(NONNEGATIVE,),
    samples=((1.0,), (2.0,), (1e-20,), (1e20,)),
    ulp=1.0,
)
