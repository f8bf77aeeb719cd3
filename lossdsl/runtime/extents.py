"""Sizes of axes that no argument shows: numbers, params, and arithmetic of them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping

from torch import Tensor

from lossdsl.runtime.signature import Extent


def extent(
    source: Extent, sizes: Mapping[str, int], params: Mapping[str, Tensor]
) -> float:
    """The value of an extent as the signature has it."""
    if isinstance(source, str):
        if source.startswith("size "):
            return sizes[source.removeprefix("size ")]
        return params[source].item()
    if not isinstance(source, tuple):
        return source
    name, *rest = source
    if name == "select":
        condition, yes, no = rest
        return extent(yes if extent(condition, sizes, params) else no, sizes, params)
    result: float = OPERATIONS[name](*(extent(x, sizes, params) for x in rest))
    return result


def _divided(a: float, b: float) -> float:
    if b == 0:
        return math.nan if a == 0 else math.copysign(math.inf, a)
    return a / b


def _multiplied(a: float, b: float) -> float:
    return 0 if a == 0 or b == 0 else a * b


def _power(a: float, b: float) -> float:
    try:
        return math.pow(a, b)
    except (OverflowError, ValueError):
        return math.nan


def _down(x: float) -> float:
    return math.floor(x) if math.isfinite(x) else x


def _nearest(x: float) -> float:
    return round(x) if math.isfinite(x) else x


OPERATIONS: dict[str, Callable[..., float]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": _multiplied,
    "div": _divided,
    "neg": operator.neg,
    "pow": _power,
    "mod": lambda a, b: a - b * _down(_divided(a, b)) if b else math.nan,
    "minimum": min,
    "maximum": max,
    "clip": lambda x, low, high: max(low, min(x, high)),
    "abs": abs,
    "sign": lambda x: (x > 0) - (x < 0),
    "floor": _down,
    "round": _nearest,
    "sqrt": lambda x: math.sqrt(x) if x >= 0 else math.nan,
    "exp": lambda x: math.exp(x) if x < 709 else math.inf,
    "log": lambda x: math.log(x) if x > 0 else -math.inf if x == 0 else math.nan,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "and": lambda a, b: bool(a and b),
    "or": lambda a, b: bool(a or b),
    "not": operator.not_,
}
