"""The graphs that a claim is about, in one builder, so that equal things are one node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from lossdsl.check.check import check
from lossdsl.check.typed import CheckedLoss
from lossdsl.ir.builder import Builder
from lossdsl.ir.graph import Graph
from lossdsl.ir.lower import IGNORE, lower
from lossdsl.registry import Registry
from lossdsl.source.text import Source
from lossdsl.syntax import ast

Replacement = Callable[[Builder], int]


@dataclass(frozen=True, slots=True)
class Subject:
    """A loss as its claims see it: the tree it came from, its checked form and its graph."""

    lossdef: ast.LossDef
    checked: CheckedLoss
    source: Source
    registry: Registry
    graph: Graph

    def builder(self) -> Builder:
        return Builder(self.registry, self.graph.name, self.graph.axes, self.graph.batch)

    def expression(self, value: ast.Expr) -> Graph:
        """Another expression of the loss's inputs and values, as a graph. DiagnosticError where it is wrong."""
        other = replace(
            self.lossdef, kind="map", result=ast.Argument(value, span=value.span), claims=(), examples=(), outputs=()
        )
        return lower(check(other, self.source, self.registry), self.registry)


def subject(lossdef: ast.LossDef, checked: CheckedLoss, registry: Registry) -> Subject:
    return Subject(lossdef, checked, checked.source, registry, lower(checked, registry))


def place(b: Builder, graph: Graph, replaced: Mapping[str, Replacement]) -> dict[str, int]:
    """Adds a graph with some leaves replaced; returns its outputs.

    No row is left out, since claims are about rows that are there, and inputs with a default have it.
    """
    defaults = {name.removeprefix("default."): node for name, node in graph.outputs if name.startswith("default.")}
    leaves = {leaf.name: leaf for leaf in graph.leaves}
    ids: list[int] = []
    for node in graph.nodes:
        args = [ids[a] for a in node.args]
        name = str(node.attrs[0]) if node.op == "leaf" else ""
        if name in replaced:
            ids.append(replaced[name](b))
        elif defaults.get(name, len(ids)) < len(ids):
            ids.append(ids[defaults[name]])
        elif node.op == "leaf":
            ids.append(b.leaf(leaves[name], node.origin))
        elif node.op == "var":
            ids.append(b.var(int(node.attrs[0]), node.type))  # type: ignore[arg-type]
        elif node.op == "eq" and any(b[a].op == "leaf" and b[a].attrs == (IGNORE,) for a in args):
            ids.append(b.const(False))
        elif node.op == "pick":
            ids.append(b.pick(args[0], dict(zip(node.attrs[0], args[1:], strict=True))))  # type: ignore[arg-type]
        else:
            ids.append(b.node(node.op, args, node.attrs, node.origin))
    return {name: ids[node] for name, node in graph.outputs}
