"""The primitive `select`."""

from __future__ import annotations

from lossdsl.primitives import interval
from lossdsl.primitives.record import Primitive

RECORD = Primitive(
    name="select",
    arity=3,
    doc="a where c holds, else b: value and gradient of the branch taken alone",
    partials=lambda f, c, a, b: (0, f.select(c, 1, 0), f.select(c, 0, 1)),
    range=interval.select,
    kind="same",
    public=False,
    samples=((1.0, 2.0, 3.0), (0.0, 2.0, 3.0)),
    ulp=0.5,
)
