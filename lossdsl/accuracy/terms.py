"""What an equation adds up: the size of a value that is a sum of terms, and how far its exponentials reach.

A sum that nearly cancels can't be more exact than its terms, however it is computed. `terms` gives for every node the
sum of the sizes of what is added up in it: sums, differences and choices are looked into, and products and quotients
by what does not cancel; everything else is one term of its own size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lossdsl.ir.arrays import extended
from lossdsl.ir.arrays import pick as pick_at
from lossdsl.ir.graph import Graph, Node

Array = Any
_NEAR = 1e-6  # a kink is met within this part of the terms
_EXPONENTIALS = frozenset({"exp", "expm1", "sigmoid", "softplus", "logaddexp", "log1mexp", "expsub", "tanh"})


def as_floats(x: Array) -> Array:
    """Numbers of any arithmetic as float64."""
    return x.astype(np.float64)


def terms(graph: Graph, values: Mapping[int, Array], sizes: Sequence[int]) -> dict[int, Array]:
    """For every node that has a value the Σ|terms| of it, with the shape of the value. Bools and indices have none."""
    found: dict[int, Array] = {}
    with np.errstate(all="ignore"):
        for n in sorted(values):
            node = graph.nodes[n]
            value = as_floats(values[n])
            size = _terms(graph, node, value, {a: as_floats(values[a]) for a in node.args if a in values}, found, sizes)
            found[n] = np.broadcast_to(np.fmax(size, np.abs(value)), value.shape)
    return found


def _terms(
    graph: Graph,
    node: Node,
    value: Array,
    of: Mapping[int, Array],
    size: Mapping[int, Array],
    sizes: Sequence[int],
) -> Array:
    args = node.args
    match node.op:
        case "add" | "sub":
            return size[args[0]] + size[args[1]]
        case "neg" | "detach" | "abs":
            return size[args[0]]
        case "mul":
            return np.fmax(size[args[0]] * abs(of[args[1]]), abs(of[args[0]]) * size[args[1]])
        case "div":
            x, y = args
            return np.fmax(size[x], abs(value) * size[y]) / abs(of[y])
        case "select":
            return np.where(of[args[0]] != 0, size[args[1]], size[args[2]])
        case "relu":
            return np.where(of[args[0]] > -_NEAR * size[args[0]], size[args[0]], 0)
        case "maximum" | "minimum" | "clip":
            near = [np.where(abs(of[a] - value) <= _NEAR * size[a], size[a], 0) for a in args]
            return np.max(np.broadcast_arrays(*near), axis=0)
        case "pick":
            dims = [graph.axes.index(a) for a in node.attrs[0]]  # type: ignore[union-attr]
            return pick_at(size[args[0]], {d: of[i].astype(np.int64) for d, i in zip(dims, args[1:], strict=True)})
        case "reduce" if node.attrs[0] in ("sum", "max", "min", "logsumexp"):
            return _reduced(graph, node, value, of, size, sizes)
        case "logp":  # a logit that is itself a sum is rounded before the maximum is taken
            return abs(value) + size[args[0]] - abs(of[args[0]])
    return abs(value)


def _reduced(
    graph: Graph,
    node: Node,
    value: Array,
    of: Mapping[int, Array],
    size: Mapping[int, Array],
    sizes: Sequence[int],
) -> Array:
    dims = tuple(graph.axes.index(a) for a in node.attrs[1])  # type: ignore[union-attr]
    e = node.args[0]
    keep = of[node.args[1]] != 0 if len(node.args) > 1 else np.ones((1,) * value.ndim, dtype=bool)
    shape = np.broadcast_shapes(size[e].shape, keep.shape)
    whole, full = (extended(np.broadcast_to(x, shape), dims, sizes) for x in (size[e], keep))
    if node.attrs[0] == "sum":
        return np.where(full, whole, 0).sum(axis=dims, keepdims=True)
    entries = extended(np.broadcast_to(of[e], shape), dims, sizes)
    if node.attrs[0] == "logsumexp":
        top = np.where(full, entries, -np.inf).max(axis=dims, keepdims=True, initial=-np.inf)
        return abs(top) + abs(value - top)
    near = full & (abs(entries - value) <= _NEAR * whole)
    return np.where(near, whole, 0).max(axis=dims, keepdims=True, initial=0)


def spread(graph: Graph, values: Mapping[int, Array], size: Mapping[int, Array], rounded: bool) -> dict[int, Array]:
    """For each exponential how far it reaches: |z - max z| of a softmax's logits, |u| of another's argument.

    A computed argument is rounded at this size, and the exponential turns that into a relative error. With `rounded`
    at the size of what is added up in it. Arguments that are inputs themselves are exact.
    """
    found: dict[int, Array] = {}
    with np.errstate(all="ignore"):
        for n in values:
            node = graph.nodes[n]
            if node.op == "logp" or (node.op == "reduce" and node.attrs[0] == "logsumexp"):
                z = as_floats(values[node.args[0]])
                z = np.where(np.isfinite(z), z, np.nan)
                dims = tuple(graph.axes.index(a) for a in node.attrs[0 if node.op == "logp" else 1])  # type: ignore[union-attr]
                reach = np.fmax.reduce(z, axis=dims, keepdims=True) - z
                if rounded and not _exact(graph, node.args[0]):
                    reach = reach + size[node.args[0]]
                found[n] = reach
            elif node.op in _EXPONENTIALS:
                computed = [a for a in node.args if not _exact(graph, a)]
                for a in computed:
                    reach = size[a] if rounded else abs(as_floats(values[a]))
                    found[n] = np.fmax(found[n], reach) if n in found else reach
    return {n: np.where(np.isfinite(x), x, 0) for n, x in found.items()}


def _exact(graph: Graph, n: int) -> bool:
    """Whether a node is an input, or its negative, or an entry of it: nothing is rounded in it."""
    node = graph.nodes[n]
    if node.op in ("neg", "pick", "detach", "abs", "relu"):
        return _exact(graph, node.args[0])
    if node.op == "select":
        return all(_exact(graph, a) for a in node.args[1:])
    return node.op in ("leaf", "const", "index", "size")
