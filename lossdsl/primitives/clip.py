"""The primitive `clip`."""

from __future__ import annotations

from typing import Any

from lossdsl.primitives import interval
from lossdsl.primitives.record import Primitive


def _partials(f: Any, x: Any, lo: Any, hi: Any) -> tuple[Any, Any, Any]:
    inside = f.select(f.le(lo, x), f.select(f.le(x, hi), 1, 0), 0)
    below = f.select(f.lt(x, lo), f.select(f.le(lo, hi), 1, 0), 0)
    above = f.select(f.gt(f.maximum(x, lo), hi), 1, 0)
    return inside, below, above


RECORD = Primitive(
    name="clip",
    arity=3,
    doc="min(max(x, lo), hi)",
    exact=lambda f, x, lo, hi: f.minimum(f.maximum(x, lo), hi),
    partials=_partials,
    expand=lambda f, x, lo, hi: f.minimum(f.maximum(x, lo), hi),
    range=interval.clip,
    kind="same",
    kinks="x at a bound: derivative 1 in x, 0 in the bound",
    samples=((0.5, 0.0, 1.0), (-2.0, 0.0, 1.0), (3.0, 0.0, 1.0), (0.5, 2.0, 1.0)),
    ulp=0.5,
)
