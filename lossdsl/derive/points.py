"""Random values for a Graph's leaves that keep to their kinds and intervals: what tests of any loss begin with."""

from __future__ import annotations

from math import isinf
from typing import TYPE_CHECKING, Any

from lossdsl.check.types import base_axis
from lossdsl.ir.graph import Graph, Leaf
from lossdsl.ir.inputs import GIVEN
from lossdsl.primitives.interval import Interval

if TYPE_CHECKING:
    import numpy as np

DEFAULT_SIZE = 4
IGNORE_INDEX = -100


def sizes_for(graph: Graph, **sizes: int) -> dict[str, int]:
    """An extent for every axis of the graph: those given by base axis, 4 for the others; copies share their axis's."""
    return {axis: sizes.get(base_axis(axis), DEFAULT_SIZE) for axis in graph.axes}


def random_leaves(graph: Graph, sizes: dict[str, int], rng: np.random.Generator) -> dict[str, Any]:
    """An array for every leaf, by name, with the dimensions of `Leaf.axes`.

    Reals are normal within their interval, indices in range, labels of three classes, bools fair coins.
    """
    return {leaf.name: _value(leaf, tuple(sizes[a] for a in leaf.axes), sizes, rng) for leaf in graph.leaves}


def _value(leaf: Leaf, shape: tuple[int, ...], sizes: dict[str, int], rng: np.random.Generator) -> Any:
    import numpy as np

    if leaf.name == "@ignore_index":
        return np.array(IGNORE_INDEX)
    if leaf.name.startswith(GIVEN):
        return rng.integers(0, 2, ())
    kind = leaf.type.kind
    if kind.startswith("index "):
        return rng.integers(0, sizes.get(kind.split()[1], DEFAULT_SIZE), shape)
    if kind == "label":
        return rng.integers(0, 3, shape)
    if kind == "bool":
        return rng.random(shape) < 0.6
    if kind == "int":
        low = 0 if isinf(leaf.type.interval.low) else int(leaf.type.interval.low)
        return rng.integers(low, low + 5, shape)
    return np.asarray(_real(leaf.type.interval, shape, rng))


def probabilities(axis: int, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    """Positive, with the sum 1 along one axis to the last digit: multiples of 2^-20; the first entry takes the rest."""
    import numpy as np

    weights = rng.lognormal(0, 1, shape)
    parts = np.floor(weights / weights.sum(axis, keepdims=True) * 2**20) / 2**20
    first = np.take(parts, [0], axis) + 1 - parts.sum(axis, keepdims=True)
    return np.concatenate([first, np.take(parts, range(1, shape[axis]), axis)], axis)


def _real(interval: Interval, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    """Normal on the line, log-normal beyond one bound, uniform well inside two."""
    low, high = interval.low, interval.high
    if isinf(low) and isinf(high):
        return rng.normal(0, 1.5, shape)
    if isinf(high):
        return low + rng.lognormal(-0.3, 0.7, shape)
    if isinf(low):
        return high - rng.lognormal(-0.3, 0.7, shape)
    return low + (high - low) * rng.uniform(0.1, 0.9, shape)
