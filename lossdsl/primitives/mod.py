"""The primitive `mod`."""

from __future__ import annotations

from lossdsl.primitives import interval
from lossdsl.primitives.interval import Interval
from lossdsl.primitives.record import Primitive


def _range(x: Interval, y: Interval) -> Interval:
    none = not x.finite or 0.0 in y
    return Interval(0.0, y.high).or_none(none) if y.low > 0 else interval.REALS.or_none(none)


RECORD = Primitive(
    name="mod",
    arity=2,
    doc="x - y·floor(x/y): the remainder with the sign of y",
    exact=lambda f, x, y: x - y * f.floor(x / y),
    partials=lambda f, x, y: (1, -f.floor(x / y)),
    expand=lambda f, x, y: x - y * f.floor(x / y),
    range=_range,
    kind="number",
    kinks="x a multiple of y: the derivatives of the branch above",
    samples=((5.5, 2.0), (-5.5, 2.0), (5.5, -2.0), (1.0, 3.0)),
)
