"""A cut loss as it is tiled: column reductions said as such, rows that are left out decided, and its gradient."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lossdsl.check.types import Type, base_axis
from lossdsl.derive.reverse import reverse, total
from lossdsl.ir.builder import Builder, bound_axes
from lossdsl.ir.graph import Graph, Leaf, reachable
from lossdsl.plan.guards import decide_rows
from lossdsl.plan.tiles.cut import Cut
from lossdsl.primitives.interval import FINITE
from lossdsl.registry import Registry

TINY = "@tiny"  # the smallest normal number: gradients below it are 0 before they meet a matrix


@dataclass(frozen=True, slots=True)
class Function:
    """`graph` has the outputs rows, weight and the cotangents grad.@z0, … and grad.X.

    Where `keep` holds a row is there; elsewhere rows and weight are 0 and the row has no gradient (None: all are).
    `keep` is a graph of its own, with the output "keep".
    """

    graph: Graph
    keep: Graph | None


def function(cut: Cut, registry: Registry, picks: bool = True) -> Function:
    """The loss with its gradient by every differentiable leaf; NotDifferentiableError as `derive` raises it.

    `picks`: rows that are left out are looked for beforehand, where one condition decides it, and the rest is computed
    of the others alone. Else each choice stays where it is, and `keep` says of what no entry may come into a sum.
    """
    head = _turned(cut, registry)
    outputs = tuple(o for o in head.outputs if o[0] in ("rows", "weight"))
    head = replace(head, outputs=outputs)
    keep = None
    if cut.axis in head.batch and not any(a != cut.axis and base_axis(a) == base_axis(cut.axis) for a in _axes(head)):
        found = decide_rows(head, registry, cut.axis, {m.name for m in cut.matrices})
        if found is not None:
            decided, condition = found
            keep = replace(decided, outputs=(("keep", condition),))
            head = decided if picks else head
    return Function(_derived(head, registry), keep)


def _axes(graph: Graph) -> frozenset[str]:
    """The axes that stand in a graph."""
    nodes = [graph.nodes[n] for n in reachable(graph.nodes, [n for _, n in graph.outputs])]
    return frozenset[str]().union(*(n.type.axes | bound_axes(n) for n in nodes))


def _derived(head: Graph, registry: Registry) -> Graph:
    b = Builder(registry, head.name, head.axes, head.batch)
    ids = b.replay(head)
    outputs = {name: ids[n] for name, n in head.outputs}
    seeds: dict[int, int] = {}
    for name, n in outputs.items():
        type_ = Type(frozenset(head.batch), "real", FINITE)
        seed = b.leaf(Leaf(f"@{name}", head.batch, type_, "seed", True))
        seeds[n] = total(b, [seeds[n], seed]) if n in seeds else seed
    leaves = {name: b.leaf(leaf) for name, leaf in tuple(b.leaves.items()) if leaf.differentiable and name[:1] != "@"}
    matrices = ((name, leaf) for name, leaf in tuple(b.leaves.items()) if leaf.differentiable and name[:2] == "@z")
    leaves |= {name: b.leaf(leaf) for name, leaf in matrices}
    found = reverse(b, seeds, list(leaves.values()))
    for name, n in leaves.items():
        if n in found and b.value(found[n]) != 0:
            outputs[f"grad.{name}"] = _flushed(b, found[n]) if name.startswith("@z") else found[n]
    return b.graph(outputs)


def _flushed(b: Builder, g: int) -> int:
    """0 for numbers below the smallest normal one, which cost a matrix product forty times as much."""
    tiny = b.leaf(Leaf(TINY, (), Type(frozenset(), "real", FINITE), "param", False))
    return b.node("select", [b.node("lt", [b.node("abs", [g]), tiny]), b.const(0), g])


# --- transposed matrices ----------------------------------------------------------------------------------------------


def _turned(cut: Cut, registry: Registry) -> Graph:
    """A reduction over N' of what is read at [N', N] is the same over N, read at N': no second matrix is needed."""
    graph = cut.head
    columns = {a for m in cut.matrices for a in m.columns}
    other = next((a for a in columns if base_axis(a) == base_axis(cut.axis)), None)
    if other is None:
        return graph
    b = Builder(registry, graph.name, graph.axes, graph.batch)
    leaves = {leaf.name: leaf for leaf in graph.leaves}
    ids: list[int] = []
    for node in graph.nodes:
        args = [ids[a] for a in node.args]
        over = bound_axes(node) & {cut.axis, other}
        if node.op == "leaf":
            ids.append(b.leaf(leaves[str(node.attrs[0])], node.origin))
        elif node.op == "var":
            ids.append(b.var(int(node.attrs[0]), node.type))  # type: ignore[arg-type]
        elif node.op in ("reduce", "logp") and over == {other} and _reads_turned(b, args[0], cut.axis, other):
            swap = {cut.axis: b.index(other), other: b.index(cut.axis)}
            axes = tuple(cut.axis if a == other else a for a in _over(node.attrs[-1]))
            turned = [b.pick(a, swap) for a in args]
            again = b.node(node.op, turned, (*node.attrs[:-1], axes), node.origin)
            ids.append(b.pick(again, swap))
        else:
            outer, b.origin = b.origin, node.origin
            ids.append(b.again(node, args))
            b.origin = outer
    return b.graph({name: ids[n] for name, n in graph.outputs})


def _over(attr: object) -> tuple[str, ...]:
    assert isinstance(attr, tuple)
    return attr


def _reads_turned(b: Builder, n: int, axis: str, other: str) -> bool:
    """Whether every matrix that the pointwise part of n reads is read the other way round."""
    straight = turned = False
    stack, seen = [n], set[int]()
    while stack:
        m = stack.pop()
        if m in seen or not {axis, other} <= b.type(m).axes:
            continue
        seen.add(m)
        node = b[m]
        if node.op == "leaf":
            straight = straight or str(node.attrs[0]).startswith("@z")
        elif node.op == "pick":
            pairs: Mapping[object, int] = dict(zip(_over(node.attrs[0]), node.args[1:], strict=True))
            swap = {axis: b.index(other), other: b.index(axis)}
            turned = turned or {k: v for k, v in pairs.items() if k in swap} == swap
        else:
            stack.extend(node.args)
    return turned and not straight
