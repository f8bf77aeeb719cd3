"""The primitive `expm1`."""

from __future__ import annotations

import math

from lossdsl.primitives import interval
from lossdsl.primitives.interval import Interval
from lossdsl.primitives.record import Primitive
from lossdsl.primitives.series import exp_series

RECORD = Primitive(
    name="expm1",
    arity=1,
    doc="e^x - 1, accurate near 0",
    exact=lambda f, x: f.exp(x) - 1,
    expand=lambda f, x: f.select(f.lt(f.abs(x), 0.5), x * exp_series(x, 1), f.exp(x) - 1),
    range=interval.increasing(lambda x: math.expm1(x) if x < 709 else math.inf, Interval(-1.0)),
    plain="exp(x) - 1",
    samples=((0.0,), (1e-10,), (-1e-5,), (0.4999,), (-0.5,), (-40.0,), (30.0,)),
    ulp=3.0,
)
