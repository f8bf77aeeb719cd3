"""The primitive `abs`."""

from __future__ import annotations

from lossdsl.primitives import interval
from lossdsl.primitives.record import Primitive

RECORD = Primitive(
    name="abs",
    arity=1,
    doc="|x|",
    partials=lambda f, x: (f.sign(x),),
    range=interval.absolute,
    kind="number",
    kinks="x = 0: derivative 0",
    samples=((1.5,), (-2.0,), (1e-30,)),
    ulp=0.5,
)
