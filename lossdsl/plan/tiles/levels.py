"""Which part of a tiled loss is known when: sweeps over the rows, and what is computed between them.

A tile is some rows of the matrix, all columns. What a row gives is known in the sweep that visits it; a reduction over
rows is known when the sweep has ended, so what reads it needs another. The *level* of a node is the first sweep in
which a tile can compute it. Four kinds of node:

    leaf      an input, a param, a seed, or the matrix itself
    inline    computed in the tile (or wherever it is read): pointwise, or along axes other than the rows'
    merge     a reduction over the rows of something as wide as the matrix: what the tiles give is merged
    whole     computed between sweeps, from values that are there whole: vectors, never the matrix
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lossdsl.ir.builder import Builder, bound_axes
from lossdsl.ir.graph import Graph, Node
from lossdsl.registry import Registry
from lossdsl.source.text import Span

MERGED = ("sum", "count", "max", "min", "prod", "logsumexp")
_READS = ("const", "index", "size", "var")


class NotTiledError(Exception):
    """The loss needs the whole matrix at once; `origin` is where the file says so."""

    def __init__(self, message: str, origin: Span | None = None) -> None:
        super().__init__(message)
        self.origin = origin


@dataclass(frozen=True, slots=True)
class Levels:
    """Of every node of `graph`: its kind, its level, and from which sweep on it is there whole (-1: never)."""

    graph: Graph
    axis: str
    columns: frozenset[str]
    kinds: tuple[str, ...]
    levels: tuple[int, ...]
    there: tuple[int, ...]
    from_matrix: tuple[bool, ...]
    in_root: tuple[bool, ...]  # whether the unknown of a root is in it

    def wide(self, n: int) -> bool:
        """Whether a node has an entry for every entry of the matrix, or for a part of each row."""
        return is_wide(self.graph.nodes[n], self.axis, self.columns)

    def reads_wide(self, n: int) -> bool:
        return any(self.wide(a) for a in self.graph.nodes[n].args)


def is_wide(node: Node, axis: str, columns: frozenset[str]) -> bool:
    return axis in node.type.axes and bool(columns & node.type.axes)


def levels(graph: Graph, axis: str, columns: frozenset[str], registry: Registry) -> Levels:
    """The levels of a graph in which log-sum-exps that another sweep needs stand for themselves."""
    found = _levels(separated(graph, axis, registry, everything=False), axis, columns)
    if max(found.levels, default=0) > 0:
        found = _levels(separated(graph, axis, registry, everything=True), axis, columns)
    return found


def _levels(graph: Graph, axis: str, columns: frozenset[str]) -> Levels:
    kinds: list[str] = []
    level: list[int] = []
    there: list[int] = []
    from_matrix: list[bool] = []
    in_root: list[bool] = []
    for node in graph.nodes:
        args = node.args
        wide_args = [a for a in args if is_wide(graph.nodes[a], axis, columns)]
        rooted = node.op == "var" or (node.op != "root" and any(in_root[a] for a in args))
        kind = _kind(graph, node, axis, columns, wide_args, rooted, kinds)
        kinds.append(kind)
        in_root.append(rooted)
        matrix = node.op == "leaf" and str(node.attrs[0]).startswith("@z")
        from_matrix.append(matrix or any(from_matrix[a] for a in args))
        at = max((level[a] for a in args), default=0)
        wide = is_wide(node, axis, columns)
        if kind == "merge":
            level.append(at + 1)
            there.append(at + 1)
        elif kind == "whole":
            whole = max((there[a] for a in args), default=0)
            level.append(whole)
            there.append(whole)
        elif kind == "inline" and not wide:
            level.append(at)
            there.append(at + 1 if wide_args else max((there[a] for a in args), default=0))
        else:
            level.append(at)
            there.append(-1 if matrix else 0 if node.op == "leaf" else -1)
    return Levels(graph, axis, columns, tuple(kinds), tuple(level), tuple(there), tuple(from_matrix), tuple(in_root))


def _kind(
    graph: Graph, node: Node, axis: str, columns: frozenset[str], wide: list[int], rooted: bool, kinds: list[str]
) -> str:
    if node.op == "leaf":
        return "leaf"
    if node.op in _READS or rooted:
        return "inline"
    over = bound_axes(node)
    if axis in over or (node.op == "scatter" and node.attrs[0] == axis):
        if not wide:
            return "whole"
        mergeable = node.op == "reduce" and node.attrs[0] in MERGED
        mergeable = mergeable or (node.op == "scatter" and axis in over and node.attrs[0] != axis)
        if mergeable:
            return "merge"
        raise NotTiledError(_all_rows(node, axis), node.origin)
    if axis in node.type.axes:
        return "inline"
    if wide:
        raise NotTiledError(_all_rows(node, axis), node.origin)
    scalar = not node.type.axes and all(not graph.nodes[a].type.axes for a in node.args)
    read = all(kinds[a] in ("leaf", "inline") for a in node.args)
    return "inline" if scalar and read else "whole"


def _all_rows(node: Node, axis: str) -> str:
    what = {
        "order": "an order",
        "cumsum": "a running sum",
        "pick": "an entry of another row",
        "logdet": "a determinant",
    }.get(node.op, f"{node.attrs[0] if node.op == 'reduce' else node.op}")
    return f"{what} over {axis} needs all rows of the matrix at once"


# --- log-sum-exps that stand for themselves, and entries read at another row -----------------------------------------


def separated(graph: Graph, axis: str, registry: Registry, everything: bool) -> Graph:
    """The graph with logp over the rows' axis as a difference (all logp with `everything`), so that its log-sum-exp is
    a value that can be kept; and an entry that is read at another row as a sum over rows.

    Nothing is rewritten by rule here: the rules would put a log-softmax together again.
    """
    b = Builder(registry, graph.name, graph.axes, graph.batch)
    leaves = {leaf.name: leaf for leaf in graph.leaves}
    for leaf in graph.leaves:
        b.leaf(leaf)
    ids: list[int] = []
    parts: dict[int, tuple[int, int]] = {}  # a difference in place of logp: the operand and its log-sum-exp
    columns = {a for leaf in graph.leaves if leaf.name.startswith("@z") for a in leaf.axes[1:]}
    for node in graph.nodes:
        args = tuple(ids[a] for a in node.args)
        b.origin = node.origin
        over = bound_axes(node)
        if node.op == "leaf":
            made = b.leaf(leaves[str(node.attrs[0])], node.origin)
        elif node.op == "logp" and (everything or axis in over):
            axes = tuple(a for a in graph.axes if a in over)
            lse = b.raw("reduce", args, ("logsumexp", axes), replace(node.type, axes=_less(b, args, over)))
            made = b.raw("sub", (args[0], lse), (), node.type)
            parts[made] = (args[0], lse)
        elif node.op == "pick" and args[0] in parts:
            inner, total = parts[args[0]]
            far = axis in over and b.type(inner).axes & columns
            x = _gathered(b, node, (inner, *args[1:]), axis) if far else _picked(b, node, inner, args[1:])
            made = b.raw("sub", (x, _picked(b, node, total, args[1:])), (), node.type)
        elif node.op == "pick" and axis in over and b.type(args[0]).axes & columns:
            made = _gathered(b, node, args, axis)
        else:
            made = b.raw(node.op, args, node.attrs, node.type)
        ids.append(made)
    return b.graph({name: ids[n] for name, n in graph.outputs})


def _less(b: Builder, args: tuple[int, ...], over: frozenset[str]) -> frozenset[str]:
    return frozenset[str]().union(*(b.type(a).axes for a in args)) - over


def _picked(b: Builder, node: Node, source: int, indices: tuple[int, ...]) -> int:
    have = b.type(source).axes
    pairs = [(str(a), i) for a, i in zip(node.attrs[0], indices, strict=True) if a in have]  # type: ignore[arg-type]
    if not pairs:
        return source
    axes = (have - {a for a, _ in pairs}) | frozenset[str]().union(*(b.type(i).axes for _, i in pairs))
    attrs = (tuple(a for a, _ in pairs),)
    return b.raw("pick", (source, *(i for _, i in pairs)), attrs, replace(node.type, axes=axes))


def _gathered(b: Builder, node: Node, args: tuple[int, ...], axis: str) -> int:
    """x[axis -> i] = Σ over the axis of x where it is i, if i is an index along axes that x has."""
    if node.attrs[0] != (axis,):
        raise NotTiledError(_all_rows(node, axis), node.origin)
    x, i = args
    if axis in b.type(i).axes or not b.type(i).axes <= b.type(x).axes:
        raise NotTiledError(_all_rows(node, axis), node.origin)
    hit = b.raw("eq", (b.index(axis), i), (), replace(node.type, axes=b.type(i).axes | {axis}, kind="bool"))
    entry = b.raw("select", (hit, x, b.const(0)), (), b.type(x))
    return b.raw("reduce", (entry,), ("sum", (axis,)), node.type)
