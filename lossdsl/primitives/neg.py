"""The primitive `neg`."""

from __future__ import annotations

from lossdsl.primitives import interval
from lossdsl.primitives.record import Primitive

RECORD = Primitive(
    name="neg", arity=1, doc="-x", range=interval.neg, kind="number", public=False, samples=((1.5,), (-2.0,), (0.0,))
)
