"""The primitive `log1mexp`."""

from __future__ import annotations

import math

from lossdsl.primitives import interval
from lossdsl.primitives.interval import NONPOSITIVE
from lossdsl.primitives.record import Primitive


def _log1mexp(x: float) -> float:
    if x >= 0:
        return -math.inf
    return math.log(-math.expm1(x)) if x > -0.693147 else math.log1p(-math.exp(x))


RECORD = Primitive(
    name="log1mexp",
    arity=1,
    doc="log(1 - e^x) for x <= 0; -inf at 0",
    exact=lambda f, x: f.log(1 - f.exp(x)),
    partials=lambda f, x: (-1 / f.abs(f.expm1(-x)),),  # abs, so that it is -inf and not inf at 0
    expand=lambda f, x: f.select(f.gt(x, -0.693147), f.log(-f.expm1(x)), f.log1p(-f.exp(x))),
    range=interval.decreasing(_log1mexp, NONPOSITIVE),
    domain=(NONPOSITIVE,),
    public=False,
    samples=((-1e-10,), (-0.5,), (-0.7,), (-1.0,), (-40.0,)),
    ulp=4.0,
)
