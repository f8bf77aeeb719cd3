"""The primitive `pow`."""

from __future__ import annotations

from typing import Any

from lossdsl.primitives import interval
from lossdsl.primitives.record import Primitive


def _partials(f: Any, x: Any, y: Any) -> tuple[Any, Any]:
    in_base = f.select(f.eq(y, 0), 0, y * f.pow(x, y - 1))
    in_exponent = f.pow(x, y) * f.log(x)
    return in_base, f.select(f.eq(x, 0), f.select(f.gt(y, 0), 0, in_exponent), in_exponent)


RECORD = Primitive(
    name="pow",
    arity=2,
    doc="x^y: any base for a whole y, else x >= 0",
    partials=_partials,
    range=interval.power,
    public=False,
    kinks="x = 0: the derivative in x is 0 for y = 0; that in y is 0 for y > 0",
    samples=((2.0, 3.0), (0.5, 0.5), (0.25, -1.5), (3.0, 0.0), (1e-8, 2.0), (7.0, 1e-3), (1.0, 5.0)),
)
