"""The primitive `ne`."""

from __future__ import annotations

from lossdsl.primitives import interval
from lossdsl.primitives.record import Primitive

RECORD = Primitive(
    name="ne",
    arity=2,
    doc="x != y",
    range=lambda x, y: interval.sub(interval.ONE, interval.equal(x, y)),
    kind="bool",
    public=False,
    commutative=True,
    samples=((1.0, 2.0), (2.0, 1.0), (1.0, 1.0)),
    ulp=0.5,
)
