"""The reduction `argmax`."""

from __future__ import annotations

import math
from typing import Any

from lossdsl.primitives.interval import Interval
from lossdsl.reductions.record import Reduction

NOWHERE = 2**31 - 1  # the index over nothing, which is absent in the language


def _merge(f: Any, a: Any, b: Any) -> tuple[Any, Any]:
    earlier = f.select(f.lt(b[1], a[1]), b[1], a[1])
    index = f.select(f.gt(b[0], a[0]), b[1], f.select(f.eq(b[0], a[0]), earlier, a[1]))
    return f.maximum(a[0], b[0]), index


RECORD = Reduction(
    name="argmax",
    doc="the index of the largest, the lowest of ties",
    init=(-math.inf, NOWHERE),
    update=_merge,
    merge=_merge,
    finish=lambda f, s: (s[1],),
    empty=float(NOWHERE),
    adjoint=None,
    kind="int",
    range=lambda x: Interval(0.0, math.inf, False, True),
)
