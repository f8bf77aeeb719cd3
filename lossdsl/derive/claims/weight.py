"""The form weight(p)·(p - e_y) of a gradient: that of a loss which reads its logits through one class's probability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lossdsl.check.types import Type
from lossdsl.derive.claims.cases import probability
from lossdsl.derive.claims.everywhere import axes_of, rows_of
from lossdsl.derive.claims.setting import Subject, place
from lossdsl.derive.derive import derive
from lossdsl.ir.builder import Builder
from lossdsl.ir.graph import Graph, Leaf
from lossdsl.primitives.interval import Interval

LOG = "@logp"  # the leaf that stands for log p


@dataclass(frozen=True, slots=True)
class ByOne:
    """A loss as a function of log p, p the probability of one class under softmax(scale·x + what doesn't read x).

    `graph` has the loss as `rows`, and as `aux.weight` the weight of the gradient in x, which is weight·(softmax - e):
    -scale times the derivative in log p. Both read the leaf `@logp`.
    """

    leaf: str
    graph: Graph
    own: bool  # whether p is that of the softmax of the input itself


def by_one(about: Subject) -> ByOne | None:
    """The loss as a function of one class's probability; None where it isn't one, or reads several inputs so."""
    b = about.builder()
    graph = b.graph({"rows": place(b, about.graph, {})["rows"]})
    names = [leaf.name for leaf in graph.leaves if rows_of(leaf, graph)]
    node = probability(graph, graph.output("rows"), names)
    if node is None:
        return None
    source = graph.nodes[graph.nodes[node].args[0]].args[0]
    read = [leaf for leaf in graph.leaves if leaf.name in names and _reads(graph, source, leaf.name)]
    moving = [leaf for leaf in read if leaf.differentiable]
    if len(moving) != 1:
        return None
    batch = frozenset(graph.nodes[node].type.axes)
    leaf = Leaf(LOG, tuple(a for a in graph.axes if a in batch), Type(batch, "real", Interval(high=0.0)), "input", True)
    again = about.builder()
    rows = _copied(again, graph, {node: again.leaf(leaf)}, [graph.output("rows")])[graph.output("rows")]
    scale = _scale(again, _copied(again, graph, {}, [source])[source], again.leaf(moving[0]))
    if scale is None:
        return None
    told = again.graph({"rows": rows, "aux.scale": scale})
    joint = derive(told, about.registry).graph
    final = about.builder()
    one = {"@rows": lambda b: b.const(1)}
    slope = place(final, joint, one)[f"grad.{LOG}"]
    kept = place(final, told, {})
    weight = final.node("neg", [final.node("mul", [kept["aux.scale"], slope])])
    found = final.graph({"rows": kept["rows"], "aux.weight": weight})
    if axes_of(found):  # what counts entries is known for their number alone
        return None
    return ByOne(moving[0].name, found, graph.nodes[source].op == "leaf")


def _reads(graph: Graph, n: int, name: str) -> bool:
    stack, seen = [n], set()
    while stack:
        m = stack.pop()
        if m not in seen:
            seen.add(m)
            node = graph.nodes[m]
            if node.op == "leaf" and node.attrs[0] == name:
                return True
            stack.extend(node.args)
    return False


def _copied(b: Builder, graph: Graph, given: dict[int, int], wanted: Sequence[int]) -> dict[int, int]:
    """Nodes of a graph in another builder, some of them replaced."""
    leaves = {leaf.name: leaf for leaf in graph.leaves}
    ids = dict(given)

    def walk(n: int) -> int:
        if n not in ids:
            node = graph.nodes[n]
            args = [walk(a) for a in node.args]
            if node.op == "leaf":
                ids[n] = b.leaf(leaves[str(node.attrs[0])], node.origin)
            elif node.op == "var":
                ids[n] = b.var(int(node.attrs[0]), node.type)  # type: ignore[arg-type]
            elif node.op == "pick":
                axes = node.attrs[0]
                assert isinstance(axes, tuple)
                ids[n] = b.pick(args[0], dict(zip(axes, args[1:], strict=True)))
            else:
                ids[n] = b.node(node.op, args, node.attrs, node.origin)
        return ids[n]

    for n in wanted:
        walk(n)
    return ids


def _scale(b: Builder, n: int, leaf: int) -> int | None:
    """k where n is k·leaf + something else, entry by entry: what a softmax doesn't see, the same for all classes, may
    read the leaf too."""
    from lossdsl.derive.claims.by_rules import depends

    node = b[n]
    if n == leaf:
        return b.const(1)
    if node.op in ("add", "sub", "neg"):
        reading = [a for a in node.args if depends(b, a, [leaf]) and not b.type(a).axes <= frozenset(b.batch)]
        inner = _scale(b, reading[0], leaf) if len(reading) == 1 else None
        minus = node.op == "neg" or (node.op == "sub" and reading[:1] == [node.args[1]])
        return b.node("neg", [inner]) if inner is not None and minus else inner
    if node.op == "div" and not depends(b, node.args[1], [leaf]):
        inner = _scale(b, node.args[0], leaf)
        return None if inner is None else b.node("div", [inner, node.args[1]])
    if node.op == "mul":
        for x, y in (node.args, node.args[::-1]):
            if not depends(b, x, [leaf]) and b.type(x).axes <= frozenset(b.batch):
                inner = _scale(b, y, leaf)
                return None if inner is None else b.node("mul", [x, inner])
    return None
