"""Rows that are left out: a condition that decides everything a row gives becomes the guard of its loop.

Lowering writes absence as choices: select(keep, x, 0) wherever something is read, select(keep, loss, 0) for what is
given. If, for a row where the condition says "absent", every store gets a constant and every reduction over rows its
neutral element, then the loop's body need run only for the others, and there all these choices are decided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from lossdsl.check.types import Type
from lossdsl.ir.builder import Builder, bound_axes
from lossdsl.ir.graph import Graph, Node, Scalar, reachable
from lossdsl.ir.rules.algebra import small
from lossdsl.plan.kernel import Buffer
from lossdsl.primitives.interval import UNIT
from lossdsl.registry import Registry

_TRIED = 4  # conditions a loop, the most used first


@dataclass(frozen=True, slots=True)
class Output:
    """A node and the buffer it is stored in; `otherwise` where the guards say that there is nothing."""

    buffer: Buffer
    node: int
    otherwise: Scalar = Fraction(0)


def reduced_axes(node: Node) -> tuple[str, ...]:
    """The axes that a reduction (or a scatter) takes away; () for other operations."""
    if node.op in ("reduce", "scatter"):
        return tuple(node.attrs[1])  # type: ignore[arg-type]
    if node.op == "statistic":
        return tuple(node.attrs[2])  # type: ignore[arg-type]
    return ()


def hoist(
    graph: Graph, outputs: Sequence[Output], registry: Registry, hints: dict[int, str]
) -> tuple[Graph, list[Output], dict[int, str], dict[str, int]]:
    """The graph for rows that are there, its outputs and hints, and the guard of each loop that has one."""
    guards: dict[str, int] = {}
    for axis in graph.axes:
        for condition, absent in _candidates(graph, outputs, axis):
            otherwise = _decided(graph, outputs, axis, condition, absent)
            if otherwise is not None:
                again = Rebuild(graph, registry, axis, condition, not absent)
                guards = {a: again.plain(n) for a, n in guards.items()}
                guard = again.plain(condition)
                guards[axis] = again.negated(guard) if absent else guard
                again.known_names[guards[axis]] = "keep"
                present = [again.present(o.node) for o in outputs]
                outputs = [
                    replace(o, node=n, otherwise=otherwise.get(o.buffer.name, o.otherwise))
                    for o, n in zip(outputs, present, strict=True)
                ]
                hints = {new: hints[old] for old, new in again.known.items() if old in hints} | again.known_names
                graph = replace(graph, nodes=tuple(again.builder.nodes), outputs=())
                break
    return graph, list(outputs), hints, guards


def decide_rows(graph: Graph, registry: Registry, axis: str, unknown: Collection[str]) -> tuple[Graph, int] | None:
    """The graph for rows along `axis` that are there, and the condition for it; None where nothing decides that.

    Every output that varies along the axis has to be 0 in the other rows. The condition is a node of the new graph, and
    hangs on none of the leaves in `unknown`.
    """
    names = [name for name, _ in graph.outputs]
    axes = {name: graph.batch if name in ("rows", "weight") else () for name in names}
    outputs = [Output(Buffer(name, axes[name], "real", "out"), n) for name, n in graph.outputs]
    for condition, absent in _candidates(graph, outputs, axis):
        read = {graph.nodes[n].attrs[0] for n in reachable(graph.nodes, [condition]) if graph.nodes[n].op == "leaf"}
        if graph.nodes[condition].type.axes != {axis} or read & set(unknown):
            continue
        otherwise = _decided(graph, outputs, axis, condition, absent)
        if otherwise is not None and all(v == 0 for v in otherwise.values()):
            again = Rebuild(graph, registry, axis, condition, not absent)
            guard = again.plain(condition)
            guard = again.negated(guard) if absent else guard
            present = tuple((o.buffer.name, again.present(o.node)) for o in outputs)
            return replace(graph, nodes=tuple(again.builder.nodes), outputs=present), guard
    return None


def _candidates(graph: Graph, outputs: Sequence[Output], axis: str) -> list[tuple[int, bool]]:
    """Conditions that choices hang on, along this axis and those of loops around it; each with the answer for
    absence.
    """
    outer = graph.axes[0]
    around = set(graph.axes[: graph.axes.index(axis) + 1])
    needed = reachable(graph.nodes, [o.node for o in outputs])
    uses: Counter[int] = Counter()
    for n in needed:
        node = graph.nodes[n]
        for a in node.args[:1] if node.op == "select" else node.args[1:] if reduced_axes(node) else ():
            uses[a] += 1
    found = []
    for n, _ in sorted(uses.items(), key=lambda item: (-item[1], item[0])):
        node = graph.nodes[n]
        axes = node.type.axes
        if node.op == "const" or node.type.kind != "bool" or not {axis, outer} <= axes <= around:
            continue
        if not _before_sweeps(graph, n, outer):
            continue
        if any(axes < graph.nodes[m].type.axes for m in needed):  # a sweep of its own is saved, not one element
            found.append(n)
    return [(n, absent) for n in found[:_TRIED] for absent in (True, False)]


def _before_sweeps(graph: Graph, n: int, outer: str) -> bool:
    """Whether a condition hangs on nothing that a sweep over its row would have to find."""
    nodes = (graph.nodes[m] for m in reachable(graph.nodes, [n]))
    return not any(reduced_axes(node) and outer in node.type.axes for node in nodes)


def _decided(
    graph: Graph, outputs: Sequence[Output], axis: str, condition: int, absent: bool
) -> dict[str, Scalar] | None:
    """What stores give where the condition has the answer `absent`, if everything that a row gives is decided there."""
    fold = _Fold(graph, condition, absent)
    otherwise: dict[str, Scalar] = {}
    for o in outputs:
        if axis in o.buffer.axes:
            value = fold.value(o.node)
            if value is None or not set(graph.nodes[condition].type.axes) <= set(o.buffer.axes):
                return None
            otherwise[o.buffer.name] = value
    about = graph.nodes[condition].type.axes
    for n in reachable(graph.nodes, [o.node for o in outputs]):
        node = graph.nodes[n]
        if not about & set(reduced_axes(node)):
            if node.op != "pick" and about & bound_axes(node):
                return None  # an order or a matrix takes the entries together, those that are left out too
            continue
        adds = node.op == "scatter" or node.attrs[0] == "sum"
        masked = node.op != "scatter" and len(node.args) == 2 and fold.value(node.args[1]) is False
        if not masked and not (adds and fold.value(node.args[0]) == 0):
            return None
    return otherwise


class _Fold:
    """Values that are constant once a condition is decided."""

    def __init__(self, graph: Graph, condition: int, answer: bool) -> None:
        self.graph = graph
        self.axes = graph.nodes[condition].type.axes
        self.known: dict[int, Scalar | None] = {condition: answer}

    def value(self, root: int) -> Scalar | None:
        for n in reachable(self.graph.nodes, [root]):
            if n not in self.known:
                node = self.graph.nodes[n]
                args = [self.known[a] for a in node.args]
                elsewhere = self.axes & bound_axes(node)  # other rows than the one that the condition is about
                self.known[n] = None if elsewhere else self._value(node, args)
        return self.known[root]

    def _value(self, node: Node, args: list[Scalar | None]) -> Scalar | None:
        match node.op, args:
            case "const", _:
                return node.attrs[0]  # type: ignore[return-value]
            case "select", [c, yes, no]:
                if isinstance(c, bool):
                    return yes if c else no
                return yes if yes is not None and _same(yes, no) else None
            case "not", [bool() as c]:
                return not c
            case "and", _:
                return False if False in _bools(args) else True if _bools(args) == [True, True] else None
            case "or", _:
                return True if True in _bools(args) else False if _bools(args) == [False, False] else None
            case "mul" | "mulz", [x, y]:
                if _is_zero(x) or _is_zero(y):
                    return Fraction(0)
                return _number(node.op, x, y)
            case "div", [x, _] if _is_zero(x) and 0.0 not in self.graph.nodes[node.args[1]].type.interval:
                return Fraction(0)
            case ("add" | "sub", [x, y]):
                return _number(node.op, x, y)
            case "eq", [Fraction() as x, Fraction() as y]:
                return x == y
            case "neg" | "abs" | "relu", [x] if _is_zero(x):
                return Fraction(0)
            case "reduce", [x, *_] if node.attrs[0] == "sum" and _is_zero(x):
                return Fraction(0)
            case "pick", [x, *_]:
                return x
        return None


def _bools(args: Sequence[Scalar | None]) -> list[bool]:
    return [a for a in args if isinstance(a, bool)]


def _is_zero(x: Scalar | None) -> bool:
    return x is not None and not isinstance(x, bool) and x == 0


def _same(x: Scalar, y: Scalar | None) -> bool:
    return y is not None and isinstance(x, bool) == isinstance(y, bool) and x == y


def _number(op: str, x: Scalar | None, y: Scalar | None) -> Scalar | None:
    if not isinstance(x, Fraction) or not isinstance(y, Fraction):
        return None
    result = x + y if op == "add" else x - y if op == "sub" else x * y
    return result if small(result) else None


class Rebuild:
    """The nodes once more: `plain` as they are, `present` with the condition decided in what stands in the loop."""

    def __init__(
        self, graph: Graph, registry: Registry, axis: str = "", condition: int = -1, answer: bool = True
    ) -> None:
        self.graph = graph
        self.axis = axis
        self.builder = Builder(registry, graph.name, graph.axes, graph.batch)
        for leaf in graph.leaves:
            self.builder.leaf(leaf)
        self.leaves = {leaf.name: leaf for leaf in graph.leaves}
        self.same: dict[int, int] = {}
        self.known_names: dict[int, str] = {}
        self.known: dict[int, int] = {}
        self.about = graph.nodes[condition].type.axes if condition >= 0 else frozenset()
        if condition >= 0:
            self.known[condition] = self.raw("const", (), Type(kind="bool", interval=UNIT), (answer,))

    def type(self, n: int) -> Type:
        return self.builder.nodes[n].type

    def raw(self, op: str, args: Sequence[int], type_: Type, attrs: tuple[object, ...] = ()) -> int:
        return self.builder.raw(op, tuple(args), attrs, type_)  # type: ignore[arg-type]

    def negated(self, n: int) -> int:
        """The opposite of a condition."""
        node = self.builder.nodes[n]
        if node.op == "not":
            return node.args[0]
        op, args = ("ne", node.args) if node.op == "eq" else ("not", (n,))
        return self.raw(op, args, Type(node.type.axes, "bool", UNIT))

    def plain(self, root: int) -> int:
        for n in reachable(self.graph.nodes, [root]):
            if n not in self.same:
                node = self.graph.nodes[n]
                self.same[n] = self._again(node, [self.same[a] for a in node.args])
        return self.same[root]

    def present(self, root: int) -> int:
        for n in reachable(self.graph.nodes, [root]):
            if n not in self.known:
                node = self.graph.nodes[n]
                args = [self.known[a] for a in node.args]
                if node.op == "pick" and self.about & bound_axes(node):
                    args[0] = self.plain(node.args[0])  # of another row than the one that the condition is about
                over = reduced_axes(node)
                left = frozenset().union(*(self.type(a).axes for a in args))
                if self.axis in over and not self.about | set(over) <= left:
                    self.plain(n)  # a sum of ones would no longer stand in the loop: take the choice, which does
                    args = [self.same[a] for a in node.args]
                self.known[n] = self._again(node, args)
        return self.known[root]

    def _again(self, node: Node, args: list[int]) -> int:
        self.builder.origin = node.origin
        truths = [self._truth(a) for a in args]
        match node.op:
            case "leaf":
                return self.builder.leaf(self.leaves[str(node.attrs[0])], node.origin)
            case "select" if truths[0] is not None:
                return args[1] if truths[0] else args[2]
            case "select" if args[1] == args[2] or (truths[1] is not None and truths[1] == truths[2]):
                return args[1]
            case "not" if truths[0] is not None:
                # A constant is one node for all who read it: it must not have the axes of the first.
                return self.raw("const", (), Type(kind="bool", interval=UNIT), (not truths[0],))
            case "and" | "or" if None not in truths:
                truth = all(truths) if node.op == "and" else any(truths)
                return self.raw("const", (), Type(kind="bool", interval=UNIT), (truth,))
            case "and" | "or" if truths != [None, None]:
                known = truths[0] if truths[1] is None else truths[1]
                other = args[1] if truths[1] is None else args[0]
                constant = args[0] if truths[1] is None else args[1]
                return other if known == (node.op == "and") else constant
            case "pick":
                return self._picked(node, args)
            case "reduce" | "statistic" if len(args) == 2 and truths[1] is True:
                args = args[:1]
        type_ = node.type
        if node.op in self.builder.registry.primitives:
            type_ = replace(type_, axes=frozenset().union(*(self.type(a).axes for a in args)))
        elif reduced_axes(node):
            made = {str(node.attrs[0])} if node.op == "scatter" else set()
            axes = frozenset().union(*(self.type(a).axes for a in args)) - set(reduced_axes(node)) | made
            type_ = replace(type_, axes=axes)
        return self.raw(node.op, args, type_, node.attrs)

    def _picked(self, node: Node, args: list[int]) -> int:
        """A pick along those of its axes that the source still has."""
        source = self.type(args[0]).axes
        pairs = [(str(a), i) for a, i in zip(node.attrs[0], args[1:], strict=True) if a in source]  # type: ignore[arg-type]
        if not pairs:
            return args[0]
        axes = frozenset().union(*(self.type(i).axes for _, i in pairs)) | (source - {a for a, _ in pairs})
        indices = [i for _, i in pairs]
        return self.raw("pick", [args[0], *indices], replace(node.type, axes=axes), (tuple(a for a, _ in pairs),))

    def _truth(self, n: int) -> bool | None:
        node = self.builder.nodes[n]
        value = node.attrs[0] if node.op == "const" else None
        return value if isinstance(value, bool) else None
