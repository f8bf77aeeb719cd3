"""The primitive `round`."""

from __future__ import annotations

import math

from lossdsl.primitives import interval
from lossdsl.primitives.record import Primitive


def _round(x: float) -> float:
    return float(round(x)) if math.isfinite(x) else x


RECORD = Primitive(
    name="round",
    arity=1,
    doc="the nearest whole number, halves to the even one",
    range=interval.increasing(_round, exact=(), strictly=False),
    kind="int",
    kinks="derivative 0 everywhere",
    samples=((1.4,), (1.5,), (2.5,), (-0.5,), (-1.6,)),
    ulp=0.5,
)
