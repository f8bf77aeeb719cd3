"""The primitive `le`."""

from __future__ import annotations

from lossdsl.primitives import interval
from lossdsl.primitives.record import Primitive

RECORD = Primitive(
    name="le",
    arity=2,
    doc="x <= y",
    range=interval.less_equal,
    kind="bool",
    public=False,
    samples=((1.0, 2.0), (2.0, 1.0), (1.0, 1.0)),
    ulp=0.5,
)
