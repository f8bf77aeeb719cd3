"""The primitive `log1pmx`."""

from __future__ import annotations

from typing import Any

from lossdsl.primitives import interval
from lossdsl.primitives.interval import NONPOSITIVE, Interval
from lossdsl.primitives.record import Primitive
from lossdsl.primitives.series import artanh_series


def _expand(f: Any, x: Any) -> Any:
    s = x / (2 + x)  # 2 artanh(s) - x = 2 s³ (1/3 + s²/5 + …) - s·x
    near = s * (2 * s * s * artanh_series(s * s, 1) - x)
    return f.select(f.lt(f.abs(x), 0.5), near, f.log1p(x) - x)


RECORD = Primitive(
    name="log1pmx",
    arity=1,
    doc="log(1 + x) - x, which is never positive; accurate near 0",
    exact=lambda f, x: f.log(1 + x) - x,
    partials=lambda f, x: (-x / (1 + x),),
    expand=_expand,
    range=interval.constant(NONPOSITIVE),
    domain=(Interval(-1.0),),
    public=False,
    samples=((0.0,), (1e-10,), (-1e-5,), (0.4999,), (-0.4999,), (-0.9999,), (30.0,)),
    ulp=6.0,
)
