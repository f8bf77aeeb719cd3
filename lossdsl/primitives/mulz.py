"""The primitive `mulz`."""

from __future__ import annotations

from lossdsl.primitives import interval
from lossdsl.primitives.record import Primitive

RECORD = Primitive(
    name="mulz",
    arity=2,
    doc="x·y where 0·±inf is 0: what a kernel needs for a product that may meet both",
    exact=lambda f, x, y: x * y,
    partials=lambda f, x, y: (y, x),
    expand=lambda f, x, y: f.select(f.eq(x, 0), 0, f.select(f.eq(y, 0), 0, x * y)),
    range=interval.mul,
    kind="number",
    public=False,
    commutative=True,
    samples=((1.5, 2.0), (-3.0, 0.25), (0.0, 2.0), (1e-20, 1e10), (7.0, -7.0)),
)
