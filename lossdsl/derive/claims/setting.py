"""The graphs that a claim is about, in one builder, so that equal things are one node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from lossdsl.check.check import check
from lossdsl.check.typed import CheckedLoss
from lossdsl.check.types import base_axis
from lossdsl.derive.examples import extents
from lossdsl.ir.builder import Builder
from lossdsl.ir.graph import Graph, Leaf, Node, reachable
from lossdsl.ir.inputs import GIVEN
from lossdsl.ir.lower import IGNORE, lower
from lossdsl.primitives.interval import FINITE, UNIT, intersection
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
    modes: Mapping[str, str] = field(default_factory=dict)
    rewriting: bool = True  # not where a test reads what may have no value: rules are equalities of numbers

    def with_modes(self, modes: Mapping[str, str]) -> Subject:
        """The same loss with other functions chosen."""
        checked = check(self.lossdef, self.source, self.registry, modes)
        graph, rewriting = _for_claims(checked, self.registry)
        return replace(self, checked=checked, graph=graph, modes=modes, rewriting=rewriting)

    def builder(self) -> Builder:
        return Builder(self.registry, self.graph.name, self.graph.axes, self.graph.batch, self.rewriting)

    def beside(self, value: ast.Expr) -> Subject:
        """The loss as it is to be compared with another expression of its inputs: as written if that is."""
        if not self.rewriting or _for_claims(self._checked(value), self.registry)[1]:
            return self
        return as_written(self)

    def expression(self, value: ast.Expr) -> Graph:
        """Another expression of the loss's inputs and values, as a graph. DiagnosticError where it is wrong.

        It is a map with the loss's batch axes, so that a loss called in it is worth its rows.
        """
        return _lowered(self._checked(value), self.registry, self.rewriting)

    def _checked(self, value: ast.Expr) -> CheckedLoss:
        decls = self.lossdef.decls
        axes = tuple(ast.AxisRef(axis.name, span=value.span) for axis in self.checked.axes if axis.batch)
        if axes and not any(isinstance(d, ast.BatchDecl) for d in decls):
            decls = (*decls, ast.BatchDecl(axes, span=value.span))
        result = ast.Argument(value, span=value.span)
        other = replace(self.lossdef, kind="map", decls=decls, result=result, claims=(), examples=(), outputs=())
        return check(other, self.source, self.registry, self.modes)


def _for_claims(checked: CheckedLoss, registry: Registry) -> tuple[Graph, bool]:
    """The loss's graph, and whether it is rewritten.

    A rule such as x + c - c = x loses that inf - inf has no value. That says nothing of a value that isn't there, but a
    test of it fails, and a choice by the test has a value. So with such a test the graph stays as it is written.
    """
    written = _lowered(checked, registry, False)
    tests = (n for n in written.nodes if n.op in TESTS)
    if any(written.nodes[a].type.interval.nan for n in tests for a in n.args):
        return written, False
    return _lowered(checked, registry, True), True


TESTS = frozenset({"lt", "le", "gt", "ge", "eq", "ne", "isfinite"})


def _lowered(checked: CheckedLoss, registry: Registry, rewriting: bool) -> Graph:
    """The loss's graph for inputs that are finite, of which claims are."""
    graph = lower(checked, registry, rewriting=rewriting)
    b = Builder(registry, graph.name, graph.axes, graph.batch, rewriting)
    leaves = [replace(x, type=replace(x.type, interval=intersection(x.type.interval, FINITE))) for x in graph.leaves]
    found = {leaf.name: b.leaf(leaf) for leaf in leaves}
    instead = {n: found[str(x.attrs[0])] for n, x in enumerate(graph.nodes) if x.op == "leaf"}
    ids = b.replay(graph, instead)
    return b.graph({name: ids[n] for name, n in graph.outputs})


def as_written(about: Subject) -> Subject:
    """The loss without any rewriting."""
    return replace(about, graph=_lowered(about.checked, about.registry, False), rewriting=False)


def sizing(about: Subject) -> frozenset[str]:
    """The params that size an axis: they keep their defaults in claims."""
    found: set[str] = set()
    stack = [axis.size for axis in about.checked.axes if axis.size is not None]
    while stack:
        term = stack.pop()
        if term.op == "leaf":
            found.add(str(term.attrs[0]))
        stack.extend(term.args)
    return frozenset(found)


def file_sizes(about: Subject, sizes: Mapping[str, int]) -> dict[str, int]:
    """The extents of the axes that the file sizes (by base axis), where the others have those of `sizes`."""
    sized = [axis.name for axis in about.checked.axes if axis.size is not None]
    if not sized:
        return {}
    leaves = {p.name: np.asarray(p.default) for p in about.checked.params if not p.modes}
    bound = {base_axis(a): (n, "") for a, n in sizes.items() if base_axis(a) not in sized}
    found = extents(about.checked, about.registry, about.graph, leaves, bound)
    return {a: n for a, n in found.items() if a in sized}


def per_row(about: Subject, name: str) -> tuple[Subject, dict[str, Replacement]]:
    """The loss with a leaf that rows share as one that each row has for itself: a row's gradient in it is one row's."""
    leaf = next((leaf for leaf in about.graph.leaves if leaf.name == name), None)
    batch = tuple(a for a in about.graph.batch if leaf is not None and a not in leaf.axes)
    if leaf is None or not batch or not leaf.differentiable:
        return about, {}
    wide = replace(leaf, axes=(*batch, *leaf.axes), type=replace(leaf.type, axes=leaf.type.axes | set(batch)))
    replaced: dict[str, Replacement] = {name: lambda b: b.leaf(wide)}
    b = about.builder()
    return replace(about, graph=b.graph(place(b, about.graph, replaced))), replaced


def subject(lossdef: ast.LossDef, checked: CheckedLoss, registry: Registry) -> Subject:
    graph, rewriting = _for_claims(checked, registry)
    return Subject(lossdef, checked, checked.source, registry, graph, rewriting=rewriting)


LEFT_OUT = "@left out "  # begins the name of a leaf that says which entries of a target are ignored


def _left_out(b: Builder, graph: Graph, test: Node, ids: Mapping[int, int]) -> int:
    """Whether a target is the ignored one: never the row's own, which is there, but perhaps one of several in a row."""
    found = next(n for n in test.args if graph.nodes[n].attrs != (IGNORE,))
    node = graph.nodes[found]
    named = graph.nodes[node.args[0]] if node.op == "pick" else node
    if named.op != "leaf":
        return b.const(False)
    target = next(leaf for leaf in graph.leaves if leaf.name == named.attrs[0])
    if set(target.axes) <= set(graph.batch):
        return b.const(False)
    kind = replace(target.type, kind="bool", interval=UNIT)
    out = b.leaf(Leaf(f"{LEFT_OUT}{target.name}", target.axes, kind, "input", False))
    axes = node.attrs[0] if node.op == "pick" else ()
    assert isinstance(axes, tuple)
    return b.pick(out, {a: ids[m] for a, m in zip(axes, node.args[1:], strict=True)}) if axes else out


def place(b: Builder, graph: Graph, replaced: Mapping[str, Replacement]) -> dict[str, int]:
    """Adds a graph with some leaves replaced; returns its outputs.

    No row is left out, since claims are about rows that are there, but entries of a row may be; and inputs with a
    default have it.
    """
    leaves = {leaf.name: leaf for leaf in graph.leaves}
    defaults = {name.removeprefix("default."): node for name, node in graph.outputs if name.startswith("default.")}
    roots = sum(node.op == "root" for node in b.nodes)  # unknowns of another graph have other numbers
    ids: dict[int, int] = {}
    for n in (*reachable(graph.nodes, defaults.values()), *range(len(graph.nodes))):
        if n in ids:
            continue
        node = graph.nodes[n]
        args = [ids[a] for a in node.args]
        name = str(node.attrs[0]) if node.op == "leaf" else ""
        if name in replaced:
            ids[n] = replaced[name](b)
        elif name in defaults and defaults[name] in ids:
            ids[n] = ids[defaults[name]]
        elif name.startswith(GIVEN):  # what stands for the input has been put in its place
            ids[n] = b.const(1)
        elif node.op == "leaf":
            ids[n] = b.leaf(leaves[name], node.origin)
        elif node.op == "var":
            ids[n] = b.var(roots + int(node.attrs[0]), node.type)
        elif node.op == "root":
            ids[n] = b.node("root", args, (roots + int(node.attrs[0]),), node.origin)
        elif node.op == "eq" and any(b[a].op == "leaf" and b[a].attrs == (IGNORE,) for a in args):
            ids[n] = _left_out(b, graph, node, ids)
        elif node.op == "pick":
            ids[n] = b.pick(args[0], dict(zip(node.attrs[0], args[1:], strict=True)))
        else:
            ids[n] = b.node(node.op, args, node.attrs, node.origin)
    return {name: ids[node] for name, node in graph.outputs}
