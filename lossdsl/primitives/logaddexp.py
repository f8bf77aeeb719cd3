"""The primitive `logaddexp`."""

from __future__ import annotations

import math
from typing import Any

from lossdsl.primitives import interval
from lossdsl.primitives.interval import Interval
from lossdsl.primitives.record import Primitive


def _share(f: Any, x: Any, y: Any) -> Any:
    share = f.sigmoid(x - y)
    return f.select(f.eq(f.abs(x), math.inf), f.select(f.eq(x, y), 0.5, share), share)  # inf - inf


def _expand(f: Any, x: Any, y: Any) -> Any:
    gap = f.select(f.eq(x, y), 0, f.abs(x - y))  # inf - inf
    return f.maximum(x, y) + f.log1p(f.exp(-gap))


def _range(x: Interval, y: Interval) -> Interval:
    larger = interval.maximum(x, y)
    return Interval(larger.low, interval.add(larger, Interval(0.0, 0.6931471805599454)).high, False, larger.high_open)


RECORD = Primitive(
    name="logaddexp",
    arity=2,
    doc="log(e^x + e^y)",
    exact=lambda f, x, y: f.log(f.exp(x) + f.exp(y)),
    partials=lambda f, x, y: (_share(f, x, y), _share(f, y, x)),
    expand=_expand,
    range=_range,
    commutative=True,
    plain="log(exp(x) + exp(y))",
    samples=((0.0, 0.0), (1.0, 3.0), (-40.0, 2.0), (50.0, 0.0), (1e-8, -1e-8)),
    ulp=4.0,
)
