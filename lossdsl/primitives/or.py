"""The primitive `or`."""

from __future__ import annotations

from lossdsl.primitives import interval
from lossdsl.primitives.record import Primitive

RECORD = Primitive(
    name="or",
    arity=2,
    doc="at least one holds",
    range=interval.maximum,
    kind="bool",
    argument_kind="bool",
    public=False,
    commutative=True,
    samples=((0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)),
    ulp=0.5,
)
