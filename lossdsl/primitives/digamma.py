"""The primitive `digamma`."""

from __future__ import annotations

from lossdsl.primitives.interval import REALS
from lossdsl.primitives.record import Primitive
from lossdsl.primitives.series import polygamma

RECORD = Primitive(
    name="digamma",
    arity=1,
    doc="the derivative of lgamma",
    expand=lambda f, x: polygamma(f, 0, x),
    range=lambda x: REALS.or_none(x.low <= 0),
    samples=((1.0,), (2.0,), (0.5,), (1e-8,), (30.5,), (1e6,)),
    ulp=16.0,
)
