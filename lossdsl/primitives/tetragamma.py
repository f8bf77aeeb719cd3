"""The primitive `tetragamma`."""

from __future__ import annotations

from lossdsl.primitives.interval import REALS
from lossdsl.primitives.record import Primitive
from lossdsl.primitives.series import polygamma

RECORD = Primitive(
    name="tetragamma",
    arity=1,
    doc="the derivative of trigamma; its own derivative is not offered",
    expand=lambda f, x: polygamma(f, 2, x),
    range=lambda x: REALS.or_none(x.low <= 0),
    public=False,
    samples=((1.0,), (2.0,), (0.5,), (1e-8,), (30.5,), (1e6,)),
    ulp=16.0,
)
