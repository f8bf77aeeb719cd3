"""Claims at points: small whole numbers first, then random ones, with differences taken at 50 digits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from lossdsl.derive.points import probabilities, random_leaves, sizes_for
from lossdsl.ir.graph import Graph, Leaf
from lossdsl.ir.interpret import evaluate
from lossdsl.registry import Registry

Leaves = dict[str, Any]
POINTS = 24
DIGITS = 40
TOLERANCE = 1e-40
SIZES = ({"N": 1}, {"N": 2}, {"N": 3})
CLASSES = (2, 3, 5)


def draws(graph: Graph, sums: Mapping[str, str], seed: int = 0) -> Iterator[tuple[dict[str, int], Leaves]]:
    """Sizes and leaves: two classes and whole numbers to begin with, so that a counterexample is a small one.

    `sums` names the leaves that are probabilities, each with the axis over which they sum to 1.
    """
    for k in range(POINTS):
        rng = np.random.default_rng(seed + k)
        few = CLASSES[0] if k < POINTS // 3 else CLASSES[k % len(CLASSES)]
        sizes = dict.fromkeys(graph.axes, few) | sizes_for(graph, **SIZES[k % len(SIZES)], C=few, D=2)
        leaves = random_leaves(graph, sizes, rng)
        if k < POINTS // 3:
            leaves = {n: _rounded(v, leaf_of(graph, n)) for n, v in leaves.items()}
        for leaf in graph.leaves:
            if leaf.name in sums:
                shape = tuple(sizes[a] for a in leaf.axes)
                leaves[leaf.name] = probabilities(leaf.axes.index(sums[leaf.name]), shape, rng)
        yield sizes, leaves


def leaf_of(graph: Graph, name: str) -> Leaf:
    return next(leaf for leaf in graph.leaves if leaf.name == name)


def _rounded(value: Any, leaf: Leaf) -> Any:
    """The nearest whole or half numbers, where the leaf's interval has them."""
    array = np.asarray(value)
    if array.dtype.kind != "f":
        return array
    for step in (1.0, 0.5, 0.25):
        near = np.round(array / step) * step
        if all(x in leaf.type.interval for x in near.flat):
            return near
    return array


def exact(value: Any) -> Any:
    import mpmath

    array = np.asarray(value)
    if array.dtype.kind != "f":
        return array
    out = np.empty(array.shape, dtype=object)
    for place in np.ndindex(array.shape):
        out[place] = mpmath.mpf(float(array[place]))
    return out


def values(
    graph: Graph, registry: Registry, sizes: Mapping[str, int], leaves: Leaves, node: int, axes: tuple[str, ...]
) -> Any:
    """A node's value in high precision, with one dimension for each of `axes`."""
    probe = replace(graph, outputs=(("aux.claim", node),))
    found = evaluate(probe, registry, {n: exact(v) for n, v in leaves.items()}, ["aux.claim"], "mpmath", sizes)[
        "aux.claim"
    ]
    own = [a for a in graph.axes if a in graph.nodes[node].type.axes]
    shape = [sizes[a] if a in own else 1 for a in axes]
    return np.broadcast_to(np.asarray(found, dtype=object).reshape(shape), [sizes[a] for a in axes])


def first_failure(difference: Any, fails: Callable[[Any], bool]) -> tuple[int, ...] | None:
    for place in np.ndindex(np.shape(difference)):
        if fails(difference[place]):
            return place
    return None


def shown(leaves: Leaves, names: list[str]) -> str:
    """Leaves in the form of an example."""
    parts = []
    for name in names:
        if not name.startswith("@"):
            array = np.asarray(leaves[name])
            rows = np.round(array, 6).tolist() if array.dtype.kind == "f" else array.tolist()
            parts.append(f"{name} = {rows}")
    return ", ".join(parts)
