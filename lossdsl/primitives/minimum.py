"""The primitive `minimum`."""

from __future__ import annotations

from typing import Any

from lossdsl.primitives import interval
from lossdsl.primitives.record import Primitive


def _share(f: Any, x: Any, y: Any) -> Any:
    return f.select(f.lt(x, y), 1, f.select(f.eq(x, y), 0.5, 0))


RECORD = Primitive(
    name="minimum",
    arity=2,
    doc="the smaller; the language's min(a, b, …)",
    partials=lambda f, x, y: (_share(f, x, y), _share(f, y, x)),
    range=interval.minimum,
    kind="same",
    public=False,
    commutative=True,
    kinks="x = y: the derivative is shared equally",
    samples=((1.0, 2.0), (2.0, 1.0), (-1.0, 1.0)),
    ulp=0.5,
)
