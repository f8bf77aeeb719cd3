"""The primitive `not`."""

from __future__ import annotations

from lossdsl.primitives import interval
from lossdsl.primitives.record import Primitive

RECORD = Primitive(
    name="not",
    arity=1,
    doc="does not hold",
    range=lambda x: interval.sub(interval.ONE, x),
    kind="bool",
    argument_kind="bool",
    public=False,
    samples=((0.0,), (1.0,)),
    ulp=0.5,
)
