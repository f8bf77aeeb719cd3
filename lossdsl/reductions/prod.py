"""The reduction `prod`."""

from __future__ import annotations

from typing import Any

from lossdsl.primitives.interval import NONNEGATIVE, REALS, Interval
from lossdsl.reductions.record import Reduction


def _adjoint(f: Any, x: Any, result: Any, cotangent: Any, reduce: Any) -> Any:
    """The product of the others. Its own derivative at a zero leaves out pairs of zeros."""
    zero = f.eq(x, 0)
    zeros = reduce("sum", zero)
    safe = f.select(zero, 1, x)
    nonzero = reduce("prod", safe)
    others = f.select(zero, f.select(f.eq(zeros, 1), nonzero, 0), f.select(f.eq(zeros, 0), result / safe, 0))
    return cotangent * others


def _range(x: Interval) -> Interval:
    if x.low >= 0:
        return Interval(0.0, 1.0) if x.high <= 1 else NONNEGATIVE
    return Interval(-1.0, 1.0) if x.low >= -1 and x.high <= 1 else REALS


RECORD = Reduction(
    name="prod",
    doc="x1·x2·…",
    init=(1,),
    update=lambda f, s, x: (s[0] * x,),
    merge=lambda f, a, b: (a[0] * b[0],),
    finish=lambda f, s: s,
    empty=1.0,
    adjoint=_adjoint,
    kind="number",
    range=_range,
)
