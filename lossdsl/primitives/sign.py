"""The primitive `sign`."""

from __future__ import annotations

from lossdsl.primitives import interval
from lossdsl.primitives.interval import Interval
from lossdsl.primitives.record import Primitive

RECORD = Primitive(
    name="sign",
    arity=1,
    doc="-1, 0 or 1; 0 at 0",
    partials=lambda f, x: (0,),
    expand=lambda f, x: f.select(f.gt(x, 0), 1, f.select(f.lt(x, 0), -1, 0)),
    range=interval.increasing(lambda x: float((x > 0) - (x < 0)), Interval(-1.0, 1.0), strictly=False),
    kind="number",
    kinks="x = 0: derivative 0",
    samples=((1.5,), (-2.0,)),
    ulp=0.5,
)
