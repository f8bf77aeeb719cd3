"""The reduction `min`."""

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
    name="min",
    doc="the smallest; inf over nothing",
    init=(math.inf,),
    update=lambda f, s, x: (f.minimum(s[0], x),),
    merge=lambda f, a, b: (f.minimum(a[0], b[0]),),
    finish=lambda f, s: s,
    empty=math.inf,
    adjoint=_adjoint,
    kind="same",
    range=lambda x: Interval(x.low, math.inf, x.low_open),
)
