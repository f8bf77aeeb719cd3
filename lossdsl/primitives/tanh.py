"""The primitive `tanh`."""

from __future__ import annotations

import math
from typing import Any

from lossdsl.primitives import interval
from lossdsl.primitives.interval import Interval
from lossdsl.primitives.record import Primitive


def _expand(f: Any, x: Any) -> Any:
    e = f.expm1(-2 * f.abs(x))
    return f.sign(x) * (-e / (2 + e))


RECORD = Primitive(
    name="tanh",
    arity=1,
    doc="(e^x - e^-x)/(e^x + e^-x)",
    exact=lambda f, x: (f.exp(x) - f.exp(-x)) / (f.exp(x) + f.exp(-x)),
    partials=lambda f, x: (4 * f.sigmoid(2 * x) * f.sigmoid(-2 * x),),  # 1 - tanh² is 0 from x = 10 on
    expand=_expand,
    range=interval.increasing(math.tanh, Interval(-1.0, 1.0)),
    samples=((0.0,), (0.5,), (-10.0,), (40.0,), (1e-10,)),
    ulp=3.0,
)
