"""The primitive `divergence`."""

from __future__ import annotations

from typing import Any

from lossdsl.primitives.interval import NONNEGATIVE, constant
from lossdsl.primitives.record import Primitive


def _expand(f: Any, x: Any, y: Any) -> Any:
    gap = f.select(f.eq(x, y), 0, y - x)  # inf - inf
    near = f.exp(x) * f.expm1mx(f.clip(gap, -0.5, 0.5))
    far = f.expsub(y, x) - f.mulz(f.exp(x), gap)
    return f.select(f.lt(f.abs(gap), 0.5), near, far)


def _partials(f: Any, x: Any, y: Any) -> tuple[Any, Any]:
    return f.exp(x) * (x - y), f.expsub(y, x)  # at x = y = -inf the first factor is 0


RECORD = Primitive(
    name="divergence",
    arity=2,
    doc="p·log(p/q) - p + q for p = e^x, q = e^y: an entry of the divergence of two distributions, never negative",
    exact=lambda f, x, y: f.exp(x) * (x - y) - f.exp(x) + f.exp(y),
    partials=_partials,
    expand=_expand,
    range=constant(NONNEGATIVE),
    public=False,
    samples=((-1.0, -1.0), (-1.0, -1.000001), (-0.1, -3.0), (-40.0, -0.5), (-2.0, -2.4), (-0.5, -40.0)),
    ulp=8.0,
)
