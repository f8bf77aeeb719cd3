"""The primitive `relu`."""

from __future__ import annotations

from lossdsl.primitives import interval
from lossdsl.primitives.record import Primitive

RECORD = Primitive(
    name="relu",
    arity=1,
    doc="max(x, 0)",
    exact=lambda f, x: f.select(f.gt(x, 0), x, 0),
    partials=lambda f, x: (f.select(f.gt(x, 0), 1, 0),),
    expand=lambda f, x: f.maximum(x, 0),
    range=interval.relu,
    kind="number",
    kinks="x = 0: derivative 0",
    samples=((1.5,), (-2.0,)),
    ulp=0.5,
)
