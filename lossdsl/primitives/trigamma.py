"""The primitive `trigamma`."""

from __future__ import annotations

from lossdsl.primitives.interval import NONNEGATIVE
from lossdsl.primitives.record import Primitive
from lossdsl.primitives.series import polygamma

RECORD = Primitive(
    name="trigamma",
    arity=1,
    doc="the derivative of digamma",
    expand=lambda f, x: polygamma(f, 1, x),
    range=lambda x: NONNEGATIVE.or_none(x.low <= 0),
    public=False,
    samples=((1.0,), (2.0,), (0.5,), (1e-8,), (30.5,), (1e6,)),
    ulp=16.0,
)
