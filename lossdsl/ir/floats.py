"""Reals as float64, and the operations that numpy does alike on integers, floats and objects."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from lossdsl.ir.arithmetic import Arithmetic, Array, is_real


def shared(real: Callable[[Array], Array]) -> dict[str, Callable[..., Array]]:
    """Operations that numpy does on integers, floats and objects alike."""

    def numbers(*xs: Array) -> list[Array]:
        if any(is_real(x) for x in xs):
            return [real(x) for x in xs]
        return [x.astype(np.int64) if x.dtype.kind == "b" else x for x in xs]

    def numeric(function: Callable[..., Any]) -> Callable[..., Array]:
        return lambda *xs: np.asarray(function(*numbers(*xs)))

    def bools(function: Callable[..., Any]) -> Callable[..., Array]:
        return lambda *xs: np.asarray(function(*(x.astype(bool) for x in xs)))

    def compare(function: Callable[..., Any]) -> Callable[..., Array]:
        return lambda a, b: np.asarray(function(*numbers(a, b))).astype(bool)

    def select(c: Array, a: Array, b: Array) -> Array:
        if a.dtype.kind == b.dtype.kind == "b":
            return np.where(c.astype(bool), a, b)
        a, b = numbers(a, b)
        return np.where(c.astype(bool), a, b)

    def mulz(a: Array, b: Array) -> Array:
        a, b = numbers(a, b)
        zero = (a == 0) | (b == 0)
        return np.where(zero, 0, np.where(zero, 1, a) * np.where(zero, 1, b))

    return {
        "add": numeric(np.add),
        "sub": numeric(np.subtract),
        "neg": numeric(np.negative),
        "abs": numeric(np.abs),
        "maximum": numeric(np.maximum),
        "minimum": numeric(np.minimum),
        "mulz": mulz,
        "select": select,
        "eq": compare(np.equal),
        "ne": compare(np.not_equal),
        "lt": compare(np.less),
        "le": compare(np.less_equal),
        "gt": compare(np.greater),
        "ge": compare(np.greater_equal),
        "and": bools(np.logical_and),
        "or": bools(np.logical_or),
        "not": bools(np.logical_not),
    }


def _lgamma(x: float) -> float:
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):
        return math.inf


def float64() -> Arithmetic:
    """IEEE double precision."""
    return ieee("float64")


@cache
def ieee(name: str) -> Arithmetic:
    """numpy's float64 or float32, every operation rounded to it."""
    dtype = np.dtype(name)

    def real(x: Array) -> Array:
        return np.asarray(x, dtype=dtype)

    own = shared(real)

    def unary(function: Callable[[Array], Any]) -> Callable[..., Array]:
        return lambda x: np.asarray(function(real(x)), dtype=dtype)

    for op in ("exp", "log", "expm1", "log1p", "sqrt", "sin", "cos", "tan", "tanh", "floor"):
        own[op] = unary(getattr(np, op))
    for op in ("acos", "asin", "atan"):
        own[op] = unary(getattr(np, "arc" + op[1:]))
    own["round"] = unary(np.rint)
    own["lgamma"] = unary(np.frompyfunc(_lgamma, 1, 1))
    own["erf"] = unary(np.frompyfunc(math.erf, 1, 1))
    own["div"] = lambda a, b: np.asarray(np.divide(real(a), real(b)))
    own["pow"] = lambda a, b: np.asarray(np.power(real(a), real(b)))
    own["mul"] = product(real)
    return Arithmetic(name, real, float, own, exact=False)


def product(real: Callable[[Array], Array]) -> Callable[..., Array]:
    def multiply(a: Array, b: Array) -> Array:
        if is_real(a) or is_real(b):
            return np.asarray(real(a) * real(b))
        return np.asarray(a.astype(np.int64) * b.astype(np.int64))

    return multiply
