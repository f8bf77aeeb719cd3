"""The primitive `maximum`."""

from __future__ import annotations

from typing import Any

from lossdsl.primitives import interval
from lossdsl.primitives.record import Primitive


def _share(f: Any, x: Any, y: Any) -> Any:
    return f.select(f.gt(x, y), 1, f.select(f.eq(x, y), 0.5, 0))


RECORD = Primitive(
    name="maximum",
    arity=2,
    doc="the larger; the language's max(a, b, …)",
    partials=lambda f, x, y: (_share(f, x, y), _share(f, y, x)),
    range=interval.maximum,
    kind="same",
    public=False,
    commutative=True,
    kinks="x = y: the derivative is shared equally",
    samples=((1.0, 2.0), (2.0, 1.0), (-1.0, 1.0)),
    ulp=0.5,
)
