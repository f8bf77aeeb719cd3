"""Graph → statements: which reductions share a sweep over the data, and where each value is computed.

Two forms. *Row loops*: the first axis is the outermost loop, rows are visited in as few phases as reductions over
that axis demand, and inside a row every sweep over another axis does all the reductions whose operands are ready. A
pointwise value is computed where it is used, again in each sweep (it is cheap next to memory); a reduction once a
phase. *Flat*: one whole-array statement after the other, for graphs in which an island stands between rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from lossdsl.ir.graph import Graph, Node, reachable
from lossdsl.plan.guards import Output, hoist, reduced_axes
from lossdsl.plan.kernel import (
    Buffer,
    Stmt,
)
from lossdsl.plan.loops import visits
from lossdsl.plan.writing import STRUCTURAL, NotByRowsError, State, operand_axes
from lossdsl.registry import Registry


def schedule(
    graph: Graph,
    outputs: Sequence[Output],
    leaves: dict[str, Buffer],
    registry: Registry,
    hints: dict[int, str],
) -> tuple[tuple[Stmt, ...], tuple[Buffer, ...], str]:
    """The statements that store `outputs`, their scratch buffers, and why they are flat ('' for row loops).

    `hints` are names for nodes; others are named by what they do.
    """
    taken = {b.name for b in leaves.values()} | {o.buffer.name for o in outputs}
    reason = why_flat(graph, outputs)
    if not reason:
        rows, row_outputs, row_hints, guards = hoist(graph, outputs, registry, hints)
        state = State(rows, registry, leaves, rows.axes[0], set(taken), row_hints)
        state.guards = guards
        try:
            visits(state, row_outputs)
            return tuple(state.scopes[0].body), tuple(state.scratch), ""
        except NotByRowsError as error:
            reason = str(error)
    state = State(graph, registry, leaves, None, taken, hints)
    for n in reachable(graph.nodes, [o.node for o in outputs]):
        if not state.unknowns[n]:
            state.need(n)
    for o in outputs:
        state.store(o)
    return tuple(state.scopes[0].body), (), reason


def why_flat(graph: Graph, outputs: Sequence[Output]) -> str:
    """Why the outputs can't be computed row by row; '' if they can."""
    if not graph.axes:
        return "there are no axes"
    outer = graph.axes[0]
    loops = False
    for n in reachable(graph.nodes, [o.node for o in outputs]):
        node = graph.nodes[n]
        axes = {outer} & operand_axes(graph, node)
        loops = loops or bool(axes)
        if not axes or node.op in STRUCTURAL or node.op in ("leaf", "reduce", "statistic"):
            continue
        if node.op == "pick":
            if graph.nodes[node.args[0]].op != "leaf" and outer in graph.nodes[node.args[0]].type.axes:
                return "a computed value is read at other places of its rows"
        elif node.op == "scatter":
            if outer not in reduced_axes(node) or outer in node.type.axes:
                return "a scatter leaves an array for every row"
        elif node.op in ("contract", "cumsum", "order", "root", "var") or _is_island(node):
            return f"{node.op} works on whole arrays"
    return "" if loops else f"nothing varies along {outer}"


def _is_island(node: Node) -> bool:
    return node.op in ("logdet", "inverse", "transpose_inverse", "solve", "eigvals", "eigvecs")
