"""The primitive `add`."""

from __future__ import annotations

from lossdsl.primitives import interval
from lossdsl.primitives.record import Primitive

RECORD = Primitive(
    name="add",
    arity=2,
    doc="x + y",
    range=interval.add,
    kind="number",
    public=False,
    commutative=True,
    samples=((1.5, 2.0), (-3.0, 0.25), (0.0, 2.0), (1e-20, 1e10), (7.0, -7.0)),
)
