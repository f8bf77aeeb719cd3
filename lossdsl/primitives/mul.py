"""The primitive `mul`."""

from __future__ import annotations

from lossdsl.primitives import interval
from lossdsl.primitives.record import Primitive

RECORD = Primitive(
    name="mul",
    arity=2,
    doc="x·y; in the language and the Graph 0·±inf is 0, in a kernel it is the bare product",
    range=interval.mul,
    kind="number",
    public=False,
    commutative=True,
    samples=((1.5, 2.0), (-3.0, 0.25), (0.0, 2.0), (1e-20, 1e10), (7.0, -7.0)),
)
