"""The primitive `lgamma`."""

from __future__ import annotations

import math

from lossdsl.primitives.interval import REALS
from lossdsl.primitives.record import Primitive

RECORD = Primitive(
    name="lgamma",
    arity=1,
    doc="the logarithm of |gamma(x)|",
    range=lambda x: REALS.or_none(-math.inf in x),
    samples=((1.0,), (2.0,), (0.5,), (1e-8,), (30.5,), (1e6,)),
    ulp=8.0,
)
