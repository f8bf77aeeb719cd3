"""The primitive `eq`."""

from __future__ import annotations

from lossdsl.primitives import interval
from lossdsl.primitives.record import Primitive

RECORD = Primitive(
    name="eq",
    arity=2,
    doc="x == y",
    range=interval.equal,
    kind="bool",
    public=False,
    commutative=True,
    samples=((1.0, 2.0), (2.0, 1.0), (1.0, 1.0)),
    ulp=0.5,
)
