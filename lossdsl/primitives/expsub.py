"""The primitive `expsub`."""

from __future__ import annotations

from typing import Any

from lossdsl.primitives import interval
from lossdsl.primitives.exp import RECORD as EXP
from lossdsl.primitives.interval import Interval
from lossdsl.primitives.record import Primitive


def _expand(f: Any, x: Any, y: Any) -> Any:
    gap = f.select(f.eq(x, y), 0, f.abs(x - y))  # inf - inf
    difference = f.exp(f.maximum(x, y)) * -f.expm1(-gap)
    return f.select(f.lt(x, y), -difference, difference)


def _range(x: Interval, y: Interval) -> Interval:
    return interval.sub(EXP.range(x), EXP.range(y))


RECORD = Primitive(
    name="expsub",
    arity=2,
    doc="e^x - e^y, exact where x is near y",
    exact=lambda f, x, y: f.exp(x) - f.exp(y),
    partials=lambda f, x, y: (f.exp(x), -f.exp(y)),
    expand=_expand,
    range=_range,
    public=False,
    samples=((0.0, 0.0), (1.0, 1.0 + 1e-9), (-40.0, 2.0), (5.0, -30.0), (-1e-8, 1e-8)),
    ulp=4.0,
)
