"""The primitive `exp`."""

from __future__ import annotations

import math

from lossdsl.primitives import interval
from lossdsl.primitives.interval import NONNEGATIVE
from lossdsl.primitives.record import Primitive


def exp(x: float) -> float:
    """math.exp, which raises where the value is too large."""
    return math.exp(x) if x < 709 else math.inf


RECORD = Primitive(
    name="exp",
    arity=1,
    doc="e^x",
    range=interval.increasing(exp, NONNEGATIVE),
    samples=((0.0,), (1.0,), (-30.0,), (40.0,), (1e-8,)),
    ulp=1.5,
)
