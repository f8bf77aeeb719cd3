"""The primitive `expm1mx`."""

from __future__ import annotations

from lossdsl.primitives import interval
from lossdsl.primitives.interval import NONNEGATIVE
from lossdsl.primitives.record import Primitive
from lossdsl.primitives.series import exp_series

RECORD = Primitive(
    name="expm1mx",
    arity=1,
    doc="e^x - 1 - x, which is never negative; accurate near 0",
    exact=lambda f, x: f.exp(x) - 1 - x,
    partials=lambda f, x: (f.expm1(x),),
    expand=lambda f, x: f.select(f.lt(f.abs(x), 1), x * x * exp_series(x, 2), f.expm1(x) - x),
    range=interval.constant(NONNEGATIVE),
    public=False,
    samples=((0.0,), (1e-10,), (-1e-5,), (0.4999,), (-0.5,), (-40.0,), (30.0,)),
    ulp=4.0,
)
