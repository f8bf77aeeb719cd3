"""The primitive `gt`."""

from __future__ import annotations

from lossdsl.primitives import interval
from lossdsl.primitives.record import Primitive

RECORD = Primitive(
    name="gt",
    arity=2,
    doc="x > y",
    range=lambda x, y: interval.less(y, x),
    kind="bool",
    public=False,
    samples=((1.0, 2.0), (2.0, 1.0), (1.0, 1.0)),
    ulp=0.5,
)
