"""The primitive `erf`."""

from __future__ import annotations

import math

from lossdsl.primitives import interval
from lossdsl.primitives.interval import Interval
from lossdsl.primitives.record import Primitive

RECORD = Primitive(
    name="erf",
    arity=1,
    doc="the error function, 2/sqrt(pi) times the integral of e^(-t²) from 0 to x",
    partials=lambda f, x: (2 / f.sqrt(math.pi) * f.exp(-x * x),),
    range=interval.increasing(math.erf, Interval(-1.0, 1.0)),
    samples=((0.0,), (0.5,), (-2.0,), (4.0,), (1e-10,)),
    ulp=3.0,
)
