"""The reduction `max`."""

from __future__ import annotations

import math
from typing import Any

from lossdsl.primitives.interval import Interval
from lossdsl.reductions.record import Reduction


def _adjoint(f: Any, x: Any, result: Any, cotangent: Any, reduce: Any) -> Any:
    """Entries that attain it share equally."""
    attained = f.eq(x, result)
    return f.select(attained, cotangent / reduce("sum", attained), 0)


RECORD = Reduction(
    name="max",
    doc="the largest; -inf over nothing",
    init=(-math.inf,),
    update=lambda f, s, x: (f.maximum(s[0], x),),
    merge=lambda f, a, b: (f.maximum(a[0], b[0]),),
    finish=lambda f, s: s,
    empty=-math.inf,
    adjoint=_adjoint,
    kind="same",
    range=lambda x: Interval(-math.inf, x.high, False, x.high_open),
)
