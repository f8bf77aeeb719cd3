"""What a matrix multiplies: both sides as whole values, and the way back from their cotangents to the inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lossdsl.check.types import Type, base_axis
from lossdsl.derive.reverse import reverse
from lossdsl.ir.builder import Builder
from lossdsl.ir.graph import Graph, Leaf, Node, reachable, restricted
from lossdsl.plan.tiles.apart import entries_apart
from lossdsl.plan.tiles.cut import Cut, Matrix
from lossdsl.plan.tiles.steps import Give, Step
from lossdsl.primitives.interval import FINITE
from lossdsl.registry import Registry


@dataclass(frozen=True, slots=True)
class Side:
    """One factor of a matrix (or its bias): under which name its value is there, and with which axes.

    `step` computes it (None: the value is an input's own); `inputs` and `params` are the differentiable leaves it hangs
    on, `back` the steps from its cotangent `cotangent` to them: none where the cotangent is that of the one input.
    `along`: entries along this axis, the first, are each computed by themselves, so that the steps can be run on some.
    `through` are inputs that are read at the entries of a list: the steps take what is read, as if it were the input.
    """

    value: str
    axes: tuple[str, ...]
    step: Step | None
    cotangent: str
    inputs: tuple[str, ...]
    params: tuple[str, ...]
    lists: tuple[str, ...]  # index inputs that choose its entries: none may be there twice
    back: tuple[tuple[str, Step], ...]  # ("inputs" or "params", …)
    along: str = ""
    through: tuple[tuple[str, str], ...] = ()  # (input, list)


def sides(cut: Cut, m: Matrix, registry: Registry) -> tuple[Side, Side, Side | None]:
    """The left and right factors of a matrix, and its bias. Where a matrix is of things with each other, both factors
    are one value: so what is nearest to itself is at no distance."""
    name = m.name.removeprefix("@")
    left = _side(cut.source, m.left, f"left.{name}", (*m.rows, *m.over), registry)
    right = _side(cut.source, m.right, f"right.{name}", (*m.columns, *m.over), registry)
    turned = _renaming(m)
    if turned is not None and left.step is not None and _equal(cut.source, m.left, m.right, turned):
        cotangent = left.cotangent
        right = replace(left, axes=tuple(turned.get(a, a) for a in left.axes), cotangent=cotangent)
    if m.bias is None:
        return left, right, None
    return left, right, _side(cut.source, m.bias, f"bias.{name}", m.columns, registry)


def _renaming(m: Matrix) -> dict[str, str] | None:
    """The rows' axes as the columns call them, if these are copies of those."""
    columns = {base_axis(a): a for a in m.columns}
    found = {a: columns[base_axis(a)] for a in m.rows if base_axis(a) in columns}
    return found if len(found) == len(m.rows) == len(m.columns) else None


def _equal(graph: Graph, left: int, right: int, renamed: dict[str, str]) -> bool:
    """Whether two nodes are the same but for the names of these axes."""
    known: dict[tuple[int, int], bool] = {}

    def same(a: int, b: int) -> bool:
        if (a, b) not in known:
            known[a, b] = _alike(graph, graph.nodes[a], graph.nodes[b], renamed, same)
        return known[a, b]

    return same(left, right)


def _alike(graph: Graph, a: Node, b: Node, renamed: dict[str, str], same: Callable[[int, int], bool]) -> bool:
    if a.op == "leaf" and not a.type.axes & set(renamed):
        return b == a
    if a.op == "leaf":
        indices = [graph.nodes[i] for i in b.args[1:]]
        if b.op != "pick" or graph.nodes[b.args[0]].attrs != a.attrs or any(i.op != "index" for i in indices):
            return False
        picked = {str(x): str(i.attrs[0]) for x, i in zip(b.attrs[0], indices, strict=True)}  # type: ignore[arg-type]
        return picked == {x: to for x, to in renamed.items() if x in a.type.axes}
    attrs = tuple(
        tuple(renamed.get(str(x), x) for x in v)
        if isinstance(v, tuple)
        else renamed.get(v, v)
        if isinstance(v, str)
        else v
        for v in a.attrs
    )
    if a.op != b.op or attrs != b.attrs or len(a.args) != len(b.args):
        return False
    return all(map(same, a.args, b.args)) or (a.op in ("mul", "add") and all(map(same, a.args, b.args[::-1])))


def _side(graph: Graph, n: int, name: str, axes: tuple[str, ...], registry: Registry) -> Side:
    needed = [graph.nodes[i] for i in reachable(graph.nodes, [n])]
    read = {str(x.attrs[0]) for x in needed if x.op == "leaf"}
    leaves = {leaf.name: leaf for leaf in graph.leaves if leaf.name in read}
    inputs = tuple(x.name for x in leaves.values() if x.differentiable and x.role == "input")
    params = tuple(x.name for x in leaves.values() if x.differentiable and x.role == "param")
    own = _own_leaf(graph, n)
    if own is not None:
        leaf, order = own
        return Side(leaf.name, order, None, f"@d.{name}", inputs, (), (), ())
    order = (*axes, *(a for a in graph.axes if a not in axes))
    whole = replace(graph, axes=order, outputs=((f"@{name}", n),), batch=())
    found = entries_apart(whole, n, axes[0], registry)
    graph, n, through, axis = (whole, n, (), "") if found is None else (*found, axes[0])
    step = _step(graph, {f"@{name}": axes}, axis)
    back = []
    for group, wanted in (("inputs", inputs), ("params", params)):
        if wanted:
            back.append((group, _back(graph, n, f"@d.{name}", axes, wanted, registry, axis)))
    lists = _lists(whole, needed, axes)
    return Side(f"@{name}", axes, step, f"@d.{name}", inputs, params, lists, tuple(back), axis, through)


def _lists(graph: Graph, needed: Sequence[Node], axes: tuple[str, ...]) -> tuple[str, ...]:
    """Index inputs along the side's own axes by which something is read."""
    found = []
    for node in needed:
        for i in node.args[1:] if node.op == "pick" else ():
            index = graph.nodes[i]
            if index.op == "leaf" and index.type.axes and index.type.axes <= set(axes):
                found.append(str(index.attrs[0]))
    return tuple(dict.fromkeys(found))


def _own_leaf(graph: Graph, n: int) -> tuple[Leaf, tuple[str, ...]] | None:
    """The input that a node is, perhaps under other names of its axes; with them, in the order of its dimensions."""
    node = graph.nodes[n]
    renamed: dict[str, str] = {}
    if node.op == "pick":
        indices = [graph.nodes[a] for a in node.args[1:]]
        if any(i.op != "index" for i in indices):
            return None
        renamed = {str(a): str(i.attrs[0]) for a, i in zip(node.attrs[0], indices, strict=True)}  # type: ignore[arg-type]
        node = graph.nodes[node.args[0]]
    if node.op != "leaf":
        return None
    leaf = next(x for x in graph.leaves if x.name == node.attrs[0])
    axes = tuple(renamed.get(a, a) for a in leaf.axes)
    return (leaf, axes) if len(set(axes)) == len(axes) else None


def _back(
    graph: Graph, n: int, name: str, axes: tuple[str, ...], wanted: tuple[str, ...], registry: Registry, axis: str
) -> Step:
    b = Builder(registry, graph.name, graph.axes, ())
    ids = b.replay(graph)
    seed = b.leaf(Leaf(name, axes, Type(frozenset(axes), "real", FINITE), "seed", True))
    leaves = {leaf.name: leaf for leaf in graph.leaves}
    nodes = {x: b.leaf(leaves[x]) for x in wanted}
    found = reverse(b, {ids[n]: seed}, list(nodes.values()))
    outputs = {f"{name}.{x}": found.get(node, b.const(0)) for x, node in nodes.items()}
    back = b.graph(outputs)
    return _step(back, {f"{name}.{x}": leaves[x].axes for x in wanted}, axis)


def _step(graph: Graph, axes: dict[str, tuple[str, ...]], axis: str) -> Step:
    """A graph as a step; with an axis it may be run on some of the entries along that."""
    part = restricted(graph, graph.outputs)
    roles = {"param": "param"}
    leaves = tuple(replace(x, role=roles.get(x.role, "input"), differentiable=False) for x in part.leaves)  # type: ignore[arg-type]
    sliced = tuple((x.name, x.axes.index(axis)) for x in leaves if axis in x.axes)
    how = {name: ("rows" if axis in axes[name] else "sum") if axis else "whole" for name, _ in graph.outputs}
    gives = tuple(Give(name, axes[name], how[name]) for name, _ in graph.outputs)
    return Step(replace(part, leaves=leaves), False, sliced, gives)
