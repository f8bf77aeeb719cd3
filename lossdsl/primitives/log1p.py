"""The primitive `log1p`."""

from __future__ import annotations

import math
from typing import Any

from lossdsl.primitives import interval
from lossdsl.primitives.interval import Interval
from lossdsl.primitives.record import Primitive
from lossdsl.primitives.series import artanh_series


def _expand(f: Any, x: Any) -> Any:
    s = x / (2 + x)  # log(1 + x) = 2 artanh(s); a series, since compilers and rewriting may undo (1 + x) - 1
    return f.select(f.lt(f.abs(x), 0.5), 2 * s * artanh_series(s * s), f.log(1 + x))


RECORD = Primitive(
    name="log1p",
    arity=1,
    doc="log(1 + x), accurate near 0",
    exact=lambda f, x: f.log(1 + x),
    expand=_expand,
    range=interval.increasing(lambda x: math.log1p(x) if x > -1 else -math.inf, exact=(-1.0, 0.0)),
    domain=(Interval(-1.0),),
    plain="log(1 + x)",
    samples=((0.0,), (1e-10,), (-1e-5,), (0.4999,), (-0.4999,), (-0.9999,), (1e30,)),
    ulp=3.0,
)
