"""The reduction `logsumexp`."""

from __future__ import annotations

import math
from typing import Any

from lossdsl.primitives.interval import Interval
from lossdsl.reductions.record import Reduction


def _merge(f: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """The leader's rest and all of the other, scaled; nothing is (-inf, -1), so that "all of it" is 0."""
    first = f.ge(a[0], b[0])
    m, n = f.select(first, a[0], b[0]), f.select(first, b[0], a[0])
    leading, other = f.select(first, a[1], b[1]), f.select(first, b[1], a[1])
    gap = f.select(f.eq(m, n), 0, n - m)  # inf - inf
    return m, leading + (1 + other) * f.exp(gap)


def _adjoint(f: Any, x: Any, result: Any, cotangent: Any, reduce: Any) -> Any:
    """Shares of the softmax; an infinite entry that is the result has the share 1."""
    share = f.exp(x - result)
    return cotangent * f.select(f.eq(f.abs(x), math.inf), f.select(f.eq(x, result), 1, share), share)


RECORD = Reduction(
    name="logsumexp",
    doc="log Σ e^x as (m, rest): m the largest, rest the sum of e^(x - m) less one 1",
    init=(-math.inf, -1.0),
    update=lambda f, s, x: _merge(f, s, (x, 0.0)),
    merge=_merge,
    finish=lambda f, s: s,
    empty=-math.inf,
    adjoint=_adjoint,
    kind="real",
    range=lambda x: Interval(-math.inf, math.inf, False, math.inf not in x),
)
