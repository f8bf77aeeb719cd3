"""The primitive `log`."""

from __future__ import annotations

import math

from lossdsl.primitives import interval
from lossdsl.primitives.interval import NONNEGATIVE
from lossdsl.primitives.record import Primitive


def log(x: float) -> float:
    """math.log, which raises at 0."""
    return math.log(x) if x > 0 else -math.inf


RECORD = Primitive(
    name="log",
    arity=1,
    doc="the natural logarithm; -inf at 0",
    range=interval.increasing(log, exact=(0.0, 1.0)),
    domain=(NONNEGATIVE,),
    samples=((1.0,), (0.5,), (1e-30,), (1e30,), (1.0000001,)),
    ulp=1.5,
)
