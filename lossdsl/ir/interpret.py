"""Running a Graph or JointGraph: the reference that every later stage is compared with, in float64 or at 50 digits.

A value is an array with one dimension for each axis of the graph, of size 1 where it does not vary along it, so that
numpy's broadcasting is the language's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lossdsl.check.types import base_axis
from lossdsl.ir import arrays
from lossdsl.ir.arithmetic import Arithmetic, Array, arithmetic_of, call, is_real, scalar_array
from lossdsl.ir.graph import Graph, JointGraph, Leaf, Node, reachable
from lossdsl.ir.root import bisect
from lossdsl.registry import Registry
from lossdsl.source.diagnostic import InternalError

_EXACT = frozenset({"const", "leaf", "var", "index", "size", "detach", "neg", "abs", "relu", "select", "pick", "clip"})


@dataclass(slots=True)
class _Run:
    graph: Graph
    registry: Registry
    arithmetic: Arithmetic
    sizes: list[int]
    leaves: dict[str, Array]
    unknowns: list[frozenset[int]]  # for each node the roots whose unknown it depends on
    rounding: Callable[[Array], Array] | None = None
    shapes: dict[frozenset[str], tuple[int, ...]] = field(default_factory=dict)

    def dim(self, axis: str) -> int:
        return self.graph.axes.index(axis)

    def dims(self, axes: Iterable[str]) -> tuple[int, ...]:
        return tuple(self.dim(a) for a in axes)

    def shape(self, axes: Iterable[str]) -> tuple[int, ...]:
        have = frozenset(axes)
        if have not in self.shapes:
            extents = zip(self.graph.axes, self.sizes, strict=True)
            self.shapes[have] = tuple(n if a in have else 1 for a, n in extents)
        return self.shapes[have]


def evaluate(
    graph: Graph | JointGraph,
    registry: Registry,
    leaves: Mapping[str, Any],
    outputs: Sequence[str] | None = None,
    number: str = "float64",
    sizes: Mapping[str, int] | None = None,
    rounding: Callable[[Array], Array] | None = None,
) -> dict[str, Array]:
    """The outputs' values (all, or those named), by name.

    `leaves` are arrays with the dimensions of `Leaf.axes` (params and seeds included), `sizes` the extents of axes that
    no leaf has; a copy N' has the size of N. `rows` and `weight` have the batch axes, `grad.X`, `second.X` and
    `default.X` those of leaf X in its order, other outputs those of their node in canonical order. With number="mpmath"
    reals are numbers of 110 digits in object arrays. `rounding` is applied to what is computed anew in every real node:
    to see what rounding it does. InternalError where leaves are missing or contradict each other.
    """
    if isinstance(graph, JointGraph):
        graph = graph.graph
    wanted = tuple(name for name, _ in graph.outputs) if outputs is None else tuple(outputs)
    roots = [graph.output(name) for name in wanted]
    state, values = _run(graph, registry, leaves, roots, number, sizes, rounding)
    return {name: _output(state, name, values[graph.output(name)]) for name in wanted}


@dataclass(frozen=True, slots=True)
class Trace:
    """The value of every node that some outputs need, with one dimension an axis of the graph, and the extents."""

    values: dict[int, Array]
    sizes: list[int]
    _state: _Run

    def output(self, name: str) -> Array:
        """An output as `evaluate` gives it."""
        return self.laid(name, self.values[self._state.graph.output(name)])

    def laid(self, name: str, x: Array) -> Array:
        """Numbers that belong to an output's node, with the output's dimensions."""
        return _output(self._state, name, x)


def trace(
    graph: Graph,
    registry: Registry,
    leaves: Mapping[str, Any],
    outputs: Sequence[str],
    number: str = "float64",
    sizes: Mapping[str, int] | None = None,
) -> Trace:
    """Like `evaluate`, keeping what every node was."""
    state, values = _run(graph, registry, leaves, [graph.output(name) for name in outputs], number, sizes)
    return Trace(values, state.sizes, state)


def _run(
    graph: Graph,
    registry: Registry,
    leaves: Mapping[str, Any],
    roots: Sequence[int],
    number: str,
    sizes: Mapping[str, int] | None,
    rounding: Callable[[Array], Array] | None = None,
) -> tuple[_Run, dict[int, Array]]:
    needed = set(reachable(graph.nodes, roots))
    used = {str(graph.nodes[n].attrs[0]) for n in needed if graph.nodes[n].op == "leaf"}
    found = _sizes(graph, leaves, sizes or {}, _axes(graph, needed))
    state = _Run(graph, registry, arithmetic_of(number), found, {}, _unknowns(graph), rounding)
    values: dict[int, Array] = {}
    with np.errstate(all="ignore"):
        for leaf in graph.leaves:
            if leaf.name in used:
                state.leaves[leaf.name] = _leaf(state, leaf, leaves)
        _nodes(state, sorted(needed), values, frozenset())
    return state, values


def _axes(graph: Graph, nodes: Iterable[int]) -> set[str]:
    """The axes that some nodes vary along or work along."""
    axes: set[str] = set()
    for n in nodes:
        node = graph.nodes[n]
        named = {a for attr in node.attrs for a in (attr if isinstance(attr, tuple) else (attr,))}
        axes |= node.type.axes | {a for a in graph.axes if a in named}
    return axes


def _sizes(graph: Graph, leaves: Mapping[str, Any], given: Mapping[str, int], used: set[str]) -> list[int]:
    """The extent of each axis: given, or from a leaf; a copy takes its base's."""
    sizes = dict(given)
    for leaf in graph.leaves:
        if leaf.name not in leaves:
            continue
        shape = np.shape(leaves[leaf.name])
        if len(shape) != len(leaf.axes):
            raise InternalError(f"{leaf.name} has {len(shape)} dimensions, not [{', '.join(leaf.axes)}]")
        for axis, n in zip(leaf.axes, shape, strict=True):
            if sizes.setdefault(axis, n) != n:
                raise InternalError(f"{axis} is {sizes[axis]}, but {n} in {leaf.name}")
    known = {base_axis(a): n for a, n in sizes.items()}
    missing = [a for a in graph.axes if a in used and a not in sizes and base_axis(a) not in known]
    if missing:
        raise InternalError(f"the graph of {graph.name} is evaluated without a size of {', '.join(missing)}")
    return [sizes.get(a, known.get(base_axis(a), 1)) for a in graph.axes]


def _leaf(state: _Run, leaf: Leaf, given: Mapping[str, Any]) -> Array:
    if leaf.name not in given:
        raise InternalError(f"the graph of {state.graph.name} is evaluated without {leaf.name}")
    x = np.asarray(given[leaf.name])
    order = sorted(range(len(leaf.axes)), key=lambda d: state.dim(leaf.axes[d]))
    full = np.transpose(x, order).reshape(state.shape(leaf.axes))
    if leaf.type.kind == "real":
        return state.arithmetic.real(full)
    return full.astype(bool if leaf.type.kind == "bool" else np.int64)


def _output(state: _Run, name: str, x: Array) -> Array:
    """Without the dimensions along which the output does not vary, in the order that the docstring says."""
    graph = state.graph
    axes: tuple[str, ...] = tuple(a for a in graph.axes if a in graph.nodes[graph.output(name)].type.axes)
    kind, _, of = name.partition(".")
    if name in ("rows", "weight"):
        axes = graph.batch
    elif kind in ("grad", "second", "default"):
        axes = next(leaf.axes for leaf in graph.leaves if leaf.name == of)
    canonical = sorted(axes, key=state.dim)
    full = np.broadcast_to(x, state.shape(axes)).reshape([state.sizes[state.dim(a)] for a in canonical])
    return np.array(np.transpose(full, [canonical.index(a) for a in axes]))


def _unknowns(graph: Graph) -> list[frozenset[int]]:
    found: list[frozenset[int]] = []
    for node in graph.nodes:
        below = frozenset().union(*(found[a] for a in node.args))
        if node.op == "var":
            below |= {int(node.attrs[0])}  # type: ignore[arg-type]
        if node.op == "root":
            below -= {int(node.attrs[0])}  # type: ignore[arg-type]
        found.append(below)
    return found


def _nodes(state: _Run, order: Sequence[int], values: dict[int, Array], known: frozenset[int]) -> None:
    """Evaluates in order those nodes whose unknowns are all known."""
    for n in order:
        if n in values or not state.unknowns[n] <= known:
            continue
        node = state.graph.nodes[n]
        x = _root(state, node, order, values, known) if node.op == "root" else _value(state, node, values)
        if node.type.kind == "real" and not is_real(x):
            x = state.arithmetic.real(x)
        if state.rounding is not None and node.type.kind == "real" and node.op not in _EXACT:
            x = state.rounding(x)
        try:
            values[n] = arrays.spread(x, state.shape(node.type.axes))
        except ValueError:
            raise InternalError(f"node {n}, {node.op}, has the shape {x.shape} for {node.type}") from None


def _root(state: _Run, node: Node, order: Sequence[int], values: dict[int, Array], known: frozenset[int]) -> Array:
    number = int(node.attrs[0])  # type: ignore[arg-type]
    low, high = (arrays.spread(values[a], state.shape(node.type.axes)) for a in node.args[:2])
    inner = [n for n in order if number in state.unknowns[n]]
    unknown = [n for n in inner if state.graph.nodes[n].op == "var" and state.graph.nodes[n].attrs[0] == number]

    def f(t: Array) -> Array:
        inside = dict(values)
        inside.update(dict.fromkeys(unknown, t))
        _nodes(state, inner, inside, known | {number})
        return inside[node.args[2]]

    return bisect(state.arithmetic, f, state.arithmetic.real(low), state.arithmetic.real(high))


def _value(state: _Run, node: Node, values: Mapping[int, Array]) -> Array:
    rank = len(state.graph.axes)
    args = [values[a] for a in node.args]
    match node.op:
        case "const":
            return scalar_array(state.arithmetic, node.attrs[0]).reshape((1,) * rank)  # type: ignore[arg-type]
        case "leaf":
            return state.leaves[str(node.attrs[0])]
        case "index":
            axis = str(node.attrs[0])
            return np.arange(state.sizes[state.dim(axis)]).reshape([-1 if a == axis else 1 for a in state.graph.axes])
        case "size":
            return np.full((1,) * rank, state.sizes[state.dim(str(node.attrs[0]))], dtype=np.int64)
        case "detach":
            return args[0]
        case "mul":
            return call(state.arithmetic, state.registry, "mulz", args)
        case "reduce":
            mask = args[1] if len(args) > 1 else None
            dims = state.dims(node.attrs[1])  # type: ignore[arg-type]
            name = str(node.attrs[0])
            return arrays.reduce(state.arithmetic, state.registry, name, args[0], dims, mask, state.sizes)[0]
        case "logp":
            return _logp(state, node, args)
        case "pick":
            return arrays.pick(args[0], dict(zip(state.dims(node.attrs[0]), args[1:], strict=True)))  # type: ignore[arg-type]
        case "scatter":
            dims = state.dims(node.attrs[1])  # type: ignore[arg-type]
            return arrays.scatter(args[0], args[1], state.dim(str(node.attrs[0])), dims, state.sizes)
    if node.op in state.registry.primitives:
        return call(state.arithmetic, state.registry, node.op, args)
    return arrays.island(state.arithmetic, node.op, node.attrs, args, state.graph.axes, state.sizes)


def _logp(state: _Run, node: Node, args: Sequence[Array]) -> Array:
    """(z - m) - log1p(rest), where m is the maximum of what the mask leaves and rest the other terms."""
    dims = state.dims(node.attrs[0])  # type: ignore[arg-type]
    keep = np.ones((1,) * args[0].ndim, dtype=bool) if len(args) == 1 else args[1].astype(bool)
    shape = np.broadcast_shapes(args[0].shape, keep.shape)
    z = arrays.extended(arrays.spread(args[0], shape), dims, state.sizes)
    m, r = arrays.logsumexp_parts(
        state.arithmetic, z, dims, arrays.extended(arrays.spread(keep, shape), dims, state.sizes)
    )
    return state.arithmetic.real(z) - m - state.arithmetic.own["log1p"](r)
