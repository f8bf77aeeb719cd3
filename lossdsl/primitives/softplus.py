"""The primitive `softplus`."""

from __future__ import annotations

import math

from lossdsl.primitives import interval
from lossdsl.primitives.interval import NONNEGATIVE
from lossdsl.primitives.record import Primitive

RECORD = Primitive(
    name="softplus",
    arity=1,
    doc="log(1 + e^x)",
    exact=lambda f, x: f.log(1 + f.exp(x)),
    partials=lambda f, x: (f.sigmoid(x),),
    expand=lambda f, x: f.maximum(x, 0) + f.log1p(f.exp(-f.abs(x))),
    range=interval.increasing(lambda x: max(x, 0.0) + math.log1p(math.exp(-abs(x))), NONNEGATIVE, ()),
    samples=((0.0,), (0.5,), (-40.0,), (100.0,), (-1e-10,)),
    ulp=3.0,
)
