"""log(1 - p) of a loss's own equation by way of the other classes.

log(1 - p_y) is exact by p_y's logarithm, its derivative p_y / (1 - p_y) is not: where y is 88 ahead, float32 has no
such quotient, and in float64 it would be 700. So it is -softplus(z_y - lse of the others) (`rules/parts.py`), which
costs a log-sum-exp. It is no rule: a logarithm that a derivative brought in, as that of (1 - p)^γ after γ, is taken
for its value alone; nor need one that is bounded from below have a derivative there.
"""

from __future__ import annotations

from lossdsl.ir.builder import Builder
from lossdsl.ir.graph import Graph
from lossdsl.ir.rules.parts import axes_of, entry, left_of, log_of
from lossdsl.registry import Registry


def by_the_others(graph: Graph, registry: Registry) -> Graph:
    """The graph with each such logarithm replaced; the graph itself where there is none."""
    users: dict[int, set[str]] = {}
    for node in graph.nodes:
        for a in node.args:
            users.setdefault(a, set()).add(node.op)
    logs = [n for n, x in enumerate(graph.nodes) if x.op == "log1mexp" and not users.get(n, set()) <= {"maximum"}]
    if not logs:
        return graph
    b = Builder(registry, graph.name, graph.axes, graph.batch)
    for leaf in graph.leaves:
        b.leaf(leaf)
    instead: dict[int, int] = {}
    for n in logs:
        ids = b.replay(graph, instead)
        found = _log(b, ids[graph.nodes[n].args[0]])
        if found is not None:
            instead[n] = found
    if not instead:
        return graph
    ids = b.replay(graph, instead)
    return b.graph({name: ids[n] for name, n in graph.outputs})


def _log(b: Builder, u: int) -> int | None:
    """log(1 - e^u) for the log-probability of a class, or of each: then of the first of them as of one."""
    part, node = entry(b, u), b[u]
    if part is not None:
        return log_of(b, left_of(b, part))
    if node.op == "select":
        found = [_log(b, a) for a in node.args[1:]]
        if found == [None, None]:
            return None
        parts = zip(found, node.args[1:], strict=True)
        return b.node("select", [node.args[0], *(b.node("log1mexp", [a]) if x is None else x for x, a in parts)])
    if node.op != "logp" or len(axes_of(b, u)) != 1 or len(node.args) != 1:
        return None
    (axis,) = axes_of(b, u)  # no other class has more than 1/2
    first = b.node("detach", [b.node("reduce", node.args, ("argmax", (axis,)))])
    top = entry(b, b.pick(u, {axis: first}))
    assert top is not None
    return b.node("select", [top.mask, log_of(b, left_of(b, top)), b.node("log1mexp", [u])])
