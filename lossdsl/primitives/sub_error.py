"""The primitive `sub_error`."""

from __future__ import annotations

import math
from typing import Any

from lossdsl.primitives.interval import FINITE, constant
from lossdsl.primitives.record import Primitive


def _expand(f: Any, x: Any, y: Any) -> Any:
    """Knuth's two-sum (The Art of Computer Programming 2, 4.2.2): exact in rounding arithmetic without overflow."""
    difference = x - y
    taken = difference - x
    error = (x - (difference - taken)) - (y + taken)
    return f.select(f.lt(f.abs(difference), math.inf), error, 0)


RECORD = Primitive(
    name="sub_error",
    arity=2,
    doc="what rounding drops of x - y: x - y is the rounded difference plus this, exactly; 0 in exact arithmetic",
    exact=lambda f, x, y: f.mulz(0, x - y),
    partials=lambda f, x, y: (0, 0),
    expand=_expand,
    range=constant(FINITE),
    public=False,
    rounding=True,
    samples=((0.0, 0.0), (1.0, 3.0), (-4.5, 2.25)),
)
