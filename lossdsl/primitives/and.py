"""The primitive `and`."""

from __future__ import annotations

from lossdsl.primitives import interval
from lossdsl.primitives.record import Primitive

RECORD = Primitive(
    name="and",
    arity=2,
    doc="both hold",
    range=interval.minimum,
    kind="bool",
    argument_kind="bool",
    public=False,
    commutative=True,
    samples=((0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)),
    ulp=0.5,
)
