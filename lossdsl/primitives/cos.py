"""The primitive `cos`."""

from __future__ import annotations

from lossdsl.primitives import interval
from lossdsl.primitives.interval import FINITE, Interval
from lossdsl.primitives.record import Primitive

RECORD = Primitive(
    name="cos",
    arity=1,
    doc="the cosine of x in radians",
    range=interval.constant(Interval(-1.0, 1.0)),
    domain=(FINITE,),
    samples=((0.0,), (0.5,), (-1.5,), (3.0,), (40.0,)),
    ulp=2.0,
)
