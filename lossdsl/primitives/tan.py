"""The primitive `tan`."""

from __future__ import annotations

from lossdsl.primitives import interval
from lossdsl.primitives.interval import FINITE, REALS
from lossdsl.primitives.record import Primitive

RECORD = Primitive(
    name="tan",
    arity=1,
    doc="sin(x)/cos(x)",
    expand=lambda f, x: f.sin(x) / f.cos(x),
    range=interval.constant(REALS),
    domain=(FINITE,),
    samples=((0.0,), (0.5,), (-1.5,), (3.0,)),
    ulp=4.0,
)
