"""The primitive `floor`."""

from __future__ import annotations

import math

from lossdsl.primitives import interval
from lossdsl.primitives.record import Primitive


def _floor(x: float) -> float:
    return float(math.floor(x)) if math.isfinite(x) else x


RECORD = Primitive(
    name="floor",
    arity=1,
    doc="the largest whole number that is not above x",
    range=interval.increasing(_floor, exact=(), strictly=False),
    kind="int",
    kinks="derivative 0 everywhere",
    samples=((1.5,), (-1.5,), (2.0,), (-0.0,)),
    ulp=0.5,
)
