"""A Graph as stable text: leaves, then one node a line, then the outputs.

graph focal
axes N, C; batch N
input logits[N, C]: real, differentiable
param gamma: real
%0 = leaf logits                      : real[N, C]
%1 = logp[(C)](%0)                    : real[C, N]
rows = %1
"""

from __future__ import annotations

from fractions import Fraction

from lossdsl.ir.graph import Attr, Graph, JointGraph, Leaf

WIDTH = 44


def dump(graph: Graph | JointGraph) -> str:
    """The text of a Graph, which ends in a line break; equal Graphs have equal texts."""
    missing = ""
    if isinstance(graph, JointGraph):
        missing = graph.second_missing
        graph = graph.graph
    lines = [f"graph {graph.name}", f"axes {', '.join(graph.axes)}; batch {', '.join(graph.batch) or 'none'}"]
    lines += [_leaf(leaf) for leaf in graph.leaves]
    for n, node in enumerate(graph.nodes):
        attrs = f"[{', '.join(map(show_attr, node.attrs))}]" if node.attrs else ""
        args = f"({', '.join(f'%{a}' for a in node.args)})" if node.args else ""
        axes = [a for a in graph.axes if a in node.type.axes]
        type_text = node.type.kind + (f"[{', '.join(axes)}]" if axes else "")
        lines.append(f"{f'%{n} = {node.op}{attrs}{args}':<{WIDTH}} : {type_text}")
    lines += [f"{name} = %{n}" for name, n in graph.outputs]
    if missing:
        lines.append(f"no second derivative: {missing}")
    return "\n".join(lines) + "\n"


def _leaf(leaf: Leaf) -> str:
    axes = f"[{', '.join(leaf.axes)}]" if leaf.axes else ""
    return f"{leaf.role} {leaf.name}{axes}: {leaf.type.kind}" + (", differentiable" if leaf.differentiable else "")


def show_attr(x: Attr) -> str:
    """An attribute: names as they are, tuples in parentheses, exact numbers without a point."""
    if isinstance(x, tuple):
        return f"({', '.join(x)})"
    if isinstance(x, bool):
        return "true" if x else "false"
    if isinstance(x, str | int | Fraction):
        return str(x)
    return repr(x)
