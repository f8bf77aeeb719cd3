"""Graph → JointGraph: the loss with its gradient and the second derivative, each by the reverse pass."""

from __future__ import annotations

from lossdsl.check.types import Type, base_axis
from lossdsl.derive.errors import NotDifferentiableError
from lossdsl.derive.reverse import reverse, total
from lossdsl.ir.builder import Builder
from lossdsl.ir.graph import Graph, JointGraph, Leaf
from lossdsl.primitives.interval import FINITE
from lossdsl.registry import Registry


def derive(graph: Graph, registry: Registry, rewriting: bool = True) -> JointGraph:
    """The Graph with outputs grad.X for every differentiable leaf X, and second.X (see `ir/graph.py`).

    Seeds become leaves `@rows`, `@weight` (where the weight depends on a differentiable leaf) and `@grad.X`. A leaf
    that the loss does not depend on has gradient 0. NotDifferentiableError where the gradient meets an operation
    without a derivative; where only the second derivative does, `second_missing` says so. `rewriting=False` derives
    without the rules, for a graph that was lowered without them.
    """
    b = Builder(registry, graph.name, graph.axes, graph.batch, rewriting)
    ids = b.replay(graph)
    _shown(b, graph)
    outputs = {name: ids[node] for name, node in graph.outputs}
    leaves = {name: b.leaf(leaf) for name, leaf in tuple(b.leaves.items()) if leaf.differentiable}
    seeds: dict[int, int] = {}
    for name in ("rows", "weight"):
        if name in outputs:
            _seed(b, seeds, outputs[name], f"@{name}", graph.batch)
    found = reverse(b, seeds, list(leaves.values()))
    grads = {name: found.get(node, b.const(0)) for name, node in leaves.items()}
    first = outputs | {f"grad.{name}": node for name, node in grads.items()}
    missing = ""
    try:
        first |= _second(b, leaves, seeds, grads)
    except NotDifferentiableError as error:
        missing = str(error)
    made = b.graph(first)
    return JointGraph(_attached(made, registry) if rewriting else made, missing)


def _shown(b: Builder, graph: Graph) -> None:
    """Inputs that nothing reads (they were folded away), where no other input says how long an axis of theirs is."""
    read = {node.attrs[0] for node in graph.nodes if node.op == "leaf"}
    shown = {base_axis(a) for leaf in graph.leaves if leaf.name in read for a in leaf.axes}
    for leaf in graph.leaves:
        if leaf.role == "input" and not {base_axis(a) for a in leaf.axes} <= shown:
            b.leaf(leaf)
            shown |= {base_axis(a) for a in leaf.axes}


def _attached(graph: Graph, registry: Registry) -> Graph:
    """The graph without `detach`, which has done its part: a detached softmax again sums to 1, and meets its like."""
    if all(node.op != "detach" for node in graph.nodes):
        return graph
    b = Builder(registry, graph.name, graph.axes, graph.batch)
    ids = b.replay(graph, attached=True)
    _shown(b, graph)
    return b.graph({name: ids[node] for name, node in graph.outputs})


def _seed(b: Builder, seeds: dict[int, int], output: int, name: str, axes: tuple[str, ...]) -> None:
    seed = b.leaf(Leaf(name, axes, Type(frozenset(axes), "real", FINITE), "seed", True))
    seeds[output] = seed if output not in seeds else total(b, [seeds[output], seed])


def _second(b: Builder, leaves: dict[str, int], seeds: dict[int, int], grads: dict[str, int]) -> dict[str, int]:
    """The cotangents of leaves and seeds, given those of the gradients."""
    upstream: dict[int, int] = {}
    for name, grad in grads.items():
        leaf = b.leaves[name]
        if b.value(grad) is None:
            seed = b.leaf(Leaf(f"@grad.{name}", leaf.axes, Type(leaf.type.axes, "real", FINITE), "seed", True))
            upstream[grad] = seed if grad not in upstream else total(b, [upstream[grad], seed])
    first_seeds = {str(b[s].attrs[0]): s for s in seeds.values() if b[s].op == "leaf"}
    wanted = leaves | first_seeds
    found = reverse(b, upstream, list(wanted.values()))
    felt = {name: node for name, node in wanted.items() if name in leaves or node in found}
    return {f"second.{name}": found.get(node, b.const(0)) for name, node in felt.items()}
