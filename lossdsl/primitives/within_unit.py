"""The primitive `within_unit`."""

from __future__ import annotations

from lossdsl.primitives.interval import SYMMETRIC_UNIT, constant
from lossdsl.primitives.record import Primitive

RECORD = Primitive(
    name="within_unit",
    arity=1,
    doc="x, which lies in [-1, 1] but for rounding: a cosine",
    exact=lambda f, x: x,
    partials=lambda f, x: (1,),  # also where rounding has carried x beyond: its direction counts
    expand=lambda f, x: f.clip(x, -1, 1),
    range=constant(SYMMETRIC_UNIT),
    public=False,
    rounding=True,
    samples=((0.0,), (0.5,), (-1.0,), (1.0,)),
    ulp=0.5,
)
