"""The primitive `sigmoid`."""

from __future__ import annotations

import math
from typing import Any

from lossdsl.primitives import interval
from lossdsl.primitives.interval import UNIT
from lossdsl.primitives.record import Primitive


def _expand(f: Any, x: Any) -> Any:
    e = f.exp(-f.abs(x))
    return f.select(f.ge(x, 0), 1, e) / (1 + e)


def sigmoid(x: float) -> float:
    """The logistic function in floats, accurate in both tails."""
    e = math.exp(-abs(x))
    return (1 if x >= 0 else e) / (1 + e)


RECORD = Primitive(
    name="sigmoid",
    arity=1,
    doc="1/(1 + e^-x)",
    exact=lambda f, x: 1 / (1 + f.exp(-x)),
    partials=lambda f, x: (f.sigmoid(x) * f.sigmoid(-x),),  # 1 - sigmoid(x) loses the tail
    expand=_expand,
    range=interval.increasing(sigmoid, UNIT),
    samples=((0.0,), (0.5,), (-40.0,), (40.0,), (-1e-10,)),
    ulp=3.0,
)
