"""Graphs as JSON, for a process that is to prove something of them: all but where nodes came from in the text."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from lossdsl.check.types import Type
from lossdsl.ir.graph import Attr, Graph, Leaf, Node
from lossdsl.primitives.interval import Interval


def to_json(graph: Graph) -> dict[str, Any]:
    """The Graph as objects that `json` writes."""
    return {
        "name": graph.name,
        "nodes": [[n.op, list(n.args), [_attr(a) for a in n.attrs], _type(n.type)] for n in graph.nodes],
        "leaves": [[x.name, list(x.axes), _type(x.type), x.role, x.differentiable] for x in graph.leaves],
        "axes": list(graph.axes),
        "batch": list(graph.batch),
        "outputs": [list(o) for o in graph.outputs],
    }


def from_json(data: dict[str, Any]) -> Graph:
    """The Graph that `to_json` wrote, its nodes without an origin."""
    return Graph(
        data["name"],
        tuple(
            Node(op, tuple(args), tuple(map(_read_attr, attrs)), _read_type(t), None)
            for op, args, attrs, t in data["nodes"]
        ),
        tuple(Leaf(name, tuple(axes), _read_type(t), role, d) for name, axes, t, role, d in data["leaves"]),
        tuple(data["axes"]),
        tuple(data["batch"]),
        tuple((name, node) for name, node in data["outputs"]),
    )


def _attr(a: Attr) -> Any:
    if isinstance(a, tuple):
        return {"axes": list(a)}
    if isinstance(a, Fraction):
        return {"fraction": str(a)}
    return {"float": repr(a)} if isinstance(a, float) else a  # json has no infinities


def _read_attr(a: Any) -> Attr:
    if not isinstance(a, dict):
        result: Attr = a
        return result
    if "axes" in a:
        return tuple(a["axes"])
    return Fraction(a["fraction"]) if "fraction" in a else float(a["float"])


def _type(t: Type) -> list[Any]:
    i = t.interval
    return [sorted(t.axes), t.kind, repr(i.low), repr(i.high), i.low_open, i.high_open, i.nan]


def _read_type(data: list[Any]) -> Type:
    axes, kind, low, high, *flags = data
    return Type(frozenset(axes), kind, Interval(float(low), float(high), *flags))
