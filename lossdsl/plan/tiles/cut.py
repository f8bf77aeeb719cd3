"""Where a loss multiplies matrices: the products become leaves, and what they multiply is computed apart.

A *matrix* is `Σ over D of a·b` or of `(a - b)²`, where a varies along rows and b along columns that a lacks. The loss
as a function of its entries is what is tiled; a and b (embeddings, perhaps normalised) are small and computed whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from lossdsl.check.types import Type
from lossdsl.ir.builder import Builder
from lossdsl.ir.graph import Graph, Leaf, reachable
from lossdsl.primitives.interval import REALS, Interval
from lossdsl.registry import Registry


@dataclass(frozen=True, slots=True)
class Matrix:
    """z[rows, columns] = left[rows, over] with right[columns, over], plus bias[columns].

    `name` is the leaf that stands for it; left, right and bias are nodes of the graph that was cut.
    """

    name: str
    kind: Literal["dot", "sqdist"]
    left: int
    right: int
    bias: int | None
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    over: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cut:
    """`head` is the loss as a function of leaves @z0, …; `source` the graph that it was cut from."""

    source: Graph
    head: Graph
    matrices: tuple[Matrix, ...]
    axis: str  # the rows that are taken a tile at a time


def cut(graph: Graph, registry: Registry, along: str = "") -> Cut | None:
    """The loss less its matrix products; None if it has none whose rows can be taken one after the other.

    The rows are those of the samples, or `along` an axis.
    """
    found = {n: m for n in reachable(graph.nodes, [n for _, n in graph.outputs]) if (m := _product(graph, n))}
    if not found:
        return None
    kept = [_sides(graph, m) for m in found.values()]
    named = {a for rows, columns, _, _ in kept for a in (*rows, *columns)}
    axis = next((a for a in ([along] if along else (*graph.batch, *graph.axes)) if a in named), None)
    if axis is None:
        return None
    found = {n: m for n, m in found.items() if axis in graph.nodes[n].type.axes}
    matrices: dict[int, Matrix] = {}
    for n, m in found.items():
        place, bias = _with_bias(graph, n, axis)
        matrices[place] = _matrix(graph, m, f"@z{len(matrices)}", axis, bias)
    b = Builder(registry, graph.name, graph.axes, graph.batch)
    instead: dict[int, int] = {}
    for n, matrix in matrices.items():
        interval: Interval = REALS if matrix.kind == "dot" else Interval(0.0, REALS.high)
        interval = graph.nodes[n].type.interval if matrix.kind == "dot" else interval
        axes = (*matrix.rows, *matrix.columns)
        instead[n] = b.leaf(Leaf(matrix.name, axes, Type(frozenset(axes), "real", interval), "input", True))
    ids = b.replay(graph, instead)
    head = b.graph({name: ids[n] for name, n in graph.outputs})
    used = {node.attrs[0] for node in head.nodes if node.op == "leaf"}
    read = tuple(m for m in matrices.values() if m.name in used)
    leaves = tuple(x for x in head.leaves if not x.name.startswith("@z") or x.name in used)
    return Cut(graph, replace(head, leaves=leaves), read, axis) if read else None


_Product = tuple[Literal["dot", "sqdist"], int, int, tuple[str, ...]]


def _product(graph: Graph, n: int) -> _Product | None:
    """A sum of products (or of squared differences) that is an outer product in the axes it keeps."""
    node = graph.nodes[n]
    if node.op != "reduce" or node.attrs[0] != "sum" or len(node.args) != 1:
        return None
    over = tuple(str(a) for a in node.attrs[1])  # type: ignore[union-attr]
    inner = graph.nodes[node.args[0]]
    kind: Literal["dot", "sqdist"] = "dot"
    if inner.op == "pow" and graph.nodes[inner.args[1]].attrs[:1] == (2,):
        inner, kind = graph.nodes[inner.args[0]], "sqdist"
    if inner.op != ("mul" if kind == "dot" else "sub"):
        return None
    a, b = inner.args
    left, right = (graph.nodes[x].type for x in (a, b))
    if left.kind != "real" or right.kind != "real" or not set(over) <= left.axes & right.axes:
        return None
    if left.axes & right.axes != set(over) or left.axes == set(over) or right.axes == set(over):
        return None
    return kind, a, b, over


def _sides(graph: Graph, m: _Product) -> tuple[tuple[str, ...], tuple[str, ...], int, int]:
    _kind, a, b, over = m
    rows, columns = (tuple(x for x in graph.axes if x in graph.nodes[s].type.axes and x not in over) for s in (a, b))
    return rows, columns, a, b


def _with_bias(graph: Graph, n: int, axis: str) -> tuple[int, int | None]:
    """The product plus a vector over its columns, if that is all that the product is read for."""
    users = [i for i, x in enumerate(graph.nodes) if n in x.args]
    if len(users) != 1 or n in dict(graph.outputs).values():
        return n, None
    user = graph.nodes[users[0]]
    if user.op != "add" or user.args[0] == user.args[1]:
        return n, None
    other = user.args[0] if user.args[1] == n else user.args[1]
    axes = graph.nodes[other].type.axes
    if not axes or axis in axes or not axes < graph.nodes[n].type.axes or graph.nodes[other].type.kind != "real":
        return n, None
    rows, columns, *_ = _sides(graph, _product(graph, n))  # type: ignore[arg-type]
    if axes != set(columns if axis in rows else rows):
        return n, None
    return users[0], other


def _matrix(graph: Graph, m: _Product, name: str, axis: str, bias: int | None) -> Matrix:
    rows, columns, a, b = _sides(graph, m)
    if axis not in rows:
        rows, columns, a, b = columns, rows, b, a
    rows = (axis, *(x for x in rows if x != axis))
    return Matrix(name, m[0], a, b, bias, rows, columns, m[3])


def cut_head(plain: Graph, heads: Mapping[str, Sequence[Leaf]], registry: Registry) -> Cut:
    """A loss of logits whose inputs in `heads` are products of hidden, weight and bias leaves.

    `plain` is the Graph of the loss itself; an input of it is [rows, C], its hidden [rows, D], weight [C, D], bias [C].
    """
    made = Builder(registry, plain.name, plain.axes, plain.batch)
    b = Builder(registry, plain.name, plain.axes, plain.batch)
    instead: dict[int, int] = {}
    matrices = []
    for number, (name, (hidden, weight, bias)) in enumerate(heads.items()):
        logits = next(leaf for leaf in plain.leaves if leaf.name == name)
        at = next(n for n, x in enumerate(plain.nodes) if x.op == "leaf" and x.attrs[0] == name)
        z = replace(logits, name=f"@z{number}")
        instead[at] = b.leaf(z)
        left, right, third = (made.leaf(leaf) for leaf in (hidden, weight, bias))
        rows, columns = hidden.axes[:-1], weight.axes[:-1]
        matrices.append(Matrix(z.name, "dot", left, right, third, rows, columns, hidden.axes[-1:]))
    ids = b.replay(plain, instead)
    head = b.graph({name: ids[n] for name, n in plain.outputs})
    leaves = tuple(leaf for leaf in head.leaves if leaf.name not in heads)
    source = made.graph({f"@{i}": i for i in range(len(made.nodes))})
    return Cut(source, replace(head, leaves=leaves), tuple(matrices), matrices[0].rows[0])
