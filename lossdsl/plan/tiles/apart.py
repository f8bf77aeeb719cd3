"""Whether a factor's entries are each computed by themselves: then it need not be whole, nor its cotangent.

An input may be read at other names of its axes (`text[N -> N']`), or at the entries of a list (`w[sampled]`): it is
replaced by one that has the factor's own axis there, and the driver hands over what is read.
"""

from __future__ import annotations

from dataclasses import replace

from lossdsl.ir.builder import Builder, bound_axes
from lossdsl.ir.graph import Graph, Leaf, Node, reachable
from lossdsl.registry import Registry

Through = tuple[tuple[str, str], ...]


def entries_apart(graph: Graph, n: int, axis: str, registry: Registry) -> tuple[Graph, int, Through] | None:
    """The graph of node n as a function of single entries along `axis`, with its node there and the inputs that are
    read through a list; None if it isn't one."""
    found = _reads(graph, n, axis)
    if found is None:
        return None
    renamed, through = found
    b = Builder(registry, graph.name, graph.axes, ())
    leaves = {leaf.name: _moved(leaf, renamed.get(leaf.name, {})) for leaf in graph.leaves}
    ids: dict[int, int] = {}
    for i in reachable(graph.nodes, [n]):
        node = graph.nodes[i]
        b.origin = node.origin
        if node.op == "leaf":
            ids[i] = b.leaf(leaves[str(node.attrs[0])], node.origin)
        elif node.op == "pick" and graph.nodes[node.args[0]].op == "leaf":
            ids[i] = ids[node.args[0]]
        else:
            ids[i] = b.again(node, [ids[a] for a in node.args])
    made = b.graph({graph.outputs[0][0]: ids[n]})
    made = replace(made, batch=())
    at = made.output(graph.outputs[0][0])
    alone = (made.nodes[i] for i in reachable(made.nodes, [at]))
    if axis not in made.nodes[at].type.axes or any(_binds(node, axis) for node in alone):
        return None
    return made, at, through


def _moved(leaf: Leaf, axes: dict[str, str]) -> Leaf:
    own = tuple(axes.get(a, a) for a in leaf.axes)
    return replace(leaf, axes=own, type=replace(leaf.type, axes=frozenset(own)))


def _reads(graph: Graph, n: int, axis: str) -> tuple[dict[str, dict[str, str]], Through] | None:
    """By input, which of its axes are read at others; and which are read through a list. None where an input is read
    in two ways, or in one that isn't a renaming."""
    renamed: dict[str, dict[str, str]] = {}
    through: dict[str, str] = {}
    direct: set[str] = set()
    for i in reachable(graph.nodes, [n]):
        node = graph.nodes[i]
        if node.op in ("var", "root"):
            return None
        read = (graph.nodes[a] for a in (node.args[1:] if node.op == "pick" else node.args))
        direct |= {str(x.attrs[0]) for x in read if x.op == "leaf"}
        if node.op != "pick":
            continue
        source = graph.nodes[node.args[0]]
        if source.op != "leaf":
            return None
        name, axes = str(source.attrs[0]), {}
        for a, k in zip(node.attrs[0], node.args[1:], strict=True):  # type: ignore[arg-type]
            index = graph.nodes[k]
            if index.op == "index":
                axes[str(a)] = str(index.attrs[0])
            elif index.op == "leaf" and index.type.axes == {axis}:
                axes[str(a)] = axis
                if through.setdefault(name, str(index.attrs[0])) != str(index.attrs[0]):
                    return None
            else:
                return None
        leaf = next(x for x in graph.leaves if x.name == name)
        own = [axes.get(a, a) for a in leaf.axes]
        if len(set(own)) != len(own) or renamed.setdefault(name, axes) != axes:
            return None
    lists = set(through.values())
    if direct & set(renamed) or any(leaf in renamed for leaf in lists):
        return None
    return renamed, tuple(through.items())


def _binds(node: Node, axis: str) -> bool:
    return axis in bound_axes(node) or (node.op in ("index", "size", "scatter") and node.attrs[0] == axis)
