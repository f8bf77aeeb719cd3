"""The reduction `count`."""

from __future__ import annotations

import math

from lossdsl.primitives.interval import Interval
from lossdsl.reductions.record import Reduction

RECORD = Reduction(
    name="count",
    doc="how many entries there are",
    init=(0,),
    update=lambda f, s, x: (s[0] + 1,),
    merge=lambda f, a, b: (a[0] + b[0],),
    finish=lambda f, s: s,
    empty=0.0,
    adjoint=None,
    kind="int",
    range=lambda x: Interval(0.0, math.inf, False, True),
)
