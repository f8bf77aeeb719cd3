"""The reduction `ties`."""

from __future__ import annotations

import math
from typing import Any

from lossdsl.primitives.interval import Interval
from lossdsl.reductions.record import Reduction


def _merge(f: Any, a: Any, b: Any) -> tuple[Any, Any]:
    number = f.select(f.gt(a[0], b[0]), a[1], f.select(f.gt(b[0], a[0]), b[1], a[1] + b[1]))
    return f.maximum(a[0], b[0]), number


RECORD = Reduction(
    name="ties",
    doc="the largest and how many attain it: what the gradient of a maximum shares by",
    init=(-math.inf, 0),
    update=lambda f, s, x: _merge(f, s, (x, 1)),
    merge=_merge,
    finish=lambda f, s: s,
    empty=-math.inf,
    adjoint=None,
    kind="real",
    range=lambda x: Interval(-math.inf, x.high, False, x.high_open),
    public=False,
)
