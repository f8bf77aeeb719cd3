"""The logarithm of a sum less that of one of its parts, by what the others are beside it.

log Σ f - log f_y is the loss of any weights f in the place of e^z. Where f_y is all but all of the sum, it is a
difference of nearly equal numbers, and so is its derivative 1 / Σ f - 1 / f_y. log1p(Σ others / f_y) is neither.

No rule of the Graph: which form is taken hangs on the numbers, and analysis would see a kink where there is none.
"""

from __future__ import annotations

from lossdsl.ir.builder import Builder
from lossdsl.ir.graph import Graph
from lossdsl.ir.rules.match import inside, is_place, nonnegative
from lossdsl.registry import Registry

_NODES = 32  # of a part, in which its place is looked for


def by_the_others(graph: Graph, registry: Registry) -> Graph:
    """The graph with such differences in that form; the graph itself where it has none."""
    logs = {n for n, node in enumerate(graph.nodes) if node.op == "log"}
    wanted = {n: node.args for n, node in enumerate(graph.nodes) if node.op == "sub" and logs.issuperset(node.args)}
    if not wanted:
        return graph
    b = Builder(registry, graph.name, graph.axes, graph.batch)
    for leaf in graph.leaves:
        b.leaf(leaf)
    ids = b.replay(graph)
    found = {n: _minus(b, *(ids[a] for a in args)) for n, args in wanted.items()}
    instead = {n: new for n, new in found.items() if new is not None}
    if not instead:
        return graph
    ids = b.replay(graph, instead)
    return b.graph({name: ids[n] for name, n in graph.outputs})


def _minus(b: Builder, x: int, y: int) -> int | None:
    """log(Σ f + c) - log f_y; where f_y is the smaller, or below 0 and its logarithm NaN, from both logarithms: their
    quotient may be inf, and may be a number."""
    whole, part = (inside(b, n, "log") for n in (x, y))
    if whole is None or part is None:
        return None
    total, more = whole, None
    if b[whole].op == "add":
        total, more = sorted(b[whole].args, key=lambda n: b[n].op != "reduce")
    node = b[total]
    if node.op != "reduce" or node.attrs[0] != "sum" or len(node.args) != 1:
        return None
    axes = node.attrs[1]
    place = _place(b, part, node.args[0], axes[0]) if isinstance(axes, tuple) and len(axes) == 1 else None
    if place is None:
        return None
    elsewhere = b.node("not", [b.node("eq", [b.index(axes[0]), place])])  # type: ignore[index]
    others = b.reduce("sum", axes, node.args[0], elsewhere)  # type: ignore[arg-type]
    if more is not None:
        others = b.node("add", [others, more])
    both = b.node("log", [b.node("add", [others, part])])
    behind = b.node("sub", [both, b.node("log", [part])])
    ahead = b.node("log1p", [b.node("div", [others, part])])
    least = others if nonnegative(b, part) else b.node("maximum", [others, b.const(0)])
    return b.node("select", [b.node("lt", [part, least]), behind, ahead])


def _place(b: Builder, part: int, f: int, axis: str) -> int | None:
    """y, if part is f at y, one place of the axis for all of it."""
    seen, stack = set[int](), [part]
    while stack and len(seen) < _NODES:
        n = stack.pop()
        if n in seen:
            continue
        seen.add(n)
        node = b[n]
        if node.op == "pick" and node.attrs[0] == (axis,):
            y = node.args[1]
            if _is_place(b, y, axis) and axis not in b.type(y).axes and b.pick(f, {axis: y}) == part:
                return y
        stack += node.args
    return None


def _is_place(b: Builder, y: int, axis: str) -> bool:
    """Whether y surely is a place of the axis; that of an ignored target is 0."""
    if b[y].op == "select":
        return all(_is_place(b, n, axis) for n in b[y].args[1:])
    return is_place(b, y, axis)
