"""The statements of a program being written: open scopes, the names given, and where each value is defined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from lossdsl.ir.graph import Graph, Node, reachable
from lossdsl.ir.limits import MOST_STATEMENTS, TooLargeError
from lossdsl.plan.guards import Output, reduced_axes
from lossdsl.plan.kernel import (
    Buffer,
    Dtype,
    Island,
    Let,
    Load,
    Operand,
    Pick,
    Reduce,
    Scatter,
    Stmt,
    Store,
    Value,
)
from lossdsl.registry import Registry
from lossdsl.source.diagnostic import InternalError

STRUCTURAL = frozenset({"const", "index", "size"})


class NotByRowsError(Exception):
    """What is needed where stands in the way of loops: the program is composed instead."""


def operand_axes(graph: Graph, node: Node) -> set[str]:
    """The axes of a node and of its arguments, and those that it reduces."""
    return {*node.type.axes, *reduced_axes(node)}.union(*(graph.nodes[a].type.axes for a in node.args))


@dataclass(slots=True)
class Scope:
    """An open loop, or the outside (axis None)."""

    axis: str | None
    body: list[Stmt] = field(default_factory=list)
    values: dict[int, str] = field(default_factory=dict)


class State:
    """The program being written: open scopes and the names given."""

    def __init__(
        self,
        graph: Graph,
        registry: Registry,
        leaves: dict[str, Buffer],
        outer: str | None,
        taken: set[str],
        hints: dict[int, str],
    ) -> None:
        self.graph = graph
        self.registry = registry
        self.leaves = leaves
        self.outer = outer
        self.taken = taken
        self.counts: dict[str, int] = {}  # the last number given to a name
        self.written = 0  # statements
        self.hints = hints
        self.scopes = [Scope(None)]
        self.saved: dict[int, str] = {}  # results that a later visit to the rows reads again, and their buffers
        self.scratch: list[Buffer] = []
        self.guards: dict[str, int] = {}  # of loops over an axis
        self.unknowns = _unknowns(graph)

    # --- looking ----------------------------------------------------------------------------------------------------

    @property
    def bound(self) -> set[str]:
        return {s.axis for s in self.scopes if s.axis is not None}

    def order(self, axes: set[str] | frozenset[str]) -> tuple[str, ...]:
        return tuple(a for a in self.graph.axes if a in axes)

    def visible(self, n: int, depth: int | None = None) -> str | None:
        for scope in self.scopes[:depth]:
            if n in scope.values:
                return scope.values[n]
        return None

    def by_rows(self, n: int) -> bool:
        """Whether the node or its operands vary along the outermost axis."""
        return self.outer is not None and self.outer in operand_axes(self.graph, self.graph.nodes[n])

    def name(self, base: str) -> str:
        name = base
        while name in self.taken:
            self.counts[base] = self.counts.get(base, 0) + 1
            name = f"{base}_{self.counts[base]}"
        self.taken.add(name)
        return name

    def value(self, n: int, base: str) -> Value:
        node = self.graph.nodes[n]
        return Value(self.name(base), self.order(node.type.axes), dtype_of(node.type.kind))

    # --- writing ----------------------------------------------------------------------------------------------------

    def need(self, n: int, depth: int | None = None) -> Operand:
        """The operand for a node, defined where it varies with nothing but the loops around it."""
        stack = [(n, depth)]
        while stack:  # no recursion: an expression may be deeper than Python's stack
            m, within = stack[-1]
            if self._known(m, within) is not None:
                stack.pop()
                continue
            node = self.graph.nodes[m]
            scope, prefix = self._home(m, within)
            if node.op in ("reduce", "statistic", "scatter") and self.by_rows(m) and not self.is_stored(m):
                raise InternalError(f"node {m}, {node.op}, is needed before its sweep")
            missing = [(a, prefix) for a in self._read(m, node) if self._known(a, prefix) is None]
            if missing:
                stack += reversed(missing)
                continue
            stack.pop()
            statement = self._statement(m, node, prefix)
            self.scopes[scope].body.append(statement)
            self.written += 1
            if self.written > MOST_STATEMENTS:
                raise TooLargeError(f"a program of this loss needs more than {MOST_STATEMENTS} statements")
            if m not in self.scopes[scope].values:
                self.scopes[scope].values[m] = _result(statement)
        found = self._known(n, depth)
        if found is None:
            raise InternalError(f"node {n} has not been defined where it is needed")
        return found

    def _known(self, n: int, depth: int | None) -> Operand | None:
        """A constant, or the name under which a value is visible."""
        node = self.graph.nodes[n]
        return node.attrs[0] if node.op == "const" else self.visible(n, depth)  # type: ignore[return-value]

    def _read(self, n: int, node: Node) -> Sequence[int]:
        """The nodes whose operands a statement names."""
        if self.is_stored(n) or node.op in ("leaf", "index", "size"):
            return ()
        if node.op == "root":
            return node.args[:2]
        if node.op == "pick":
            source = self.graph.nodes[node.args[0]]
            indices = [i for i in node.args[1:] if self.graph.nodes[i].op != "index"]
            return indices if source.op == "leaf" else [node.args[0], *indices]
        return node.args

    def _home(self, n: int, depth: int | None) -> tuple[int, int]:
        """The scope that defines a node, and how many scopes its operands may use."""
        scopes = self.scopes[:depth]
        axes = self.graph.nodes[n].type.axes
        if self.unknowns[n]:  # within the function of a root
            return len(scopes) - 1, len(scopes)
        if axes and self.outer not in axes and not self._in_place(n):
            return 0, 1  # a vector that is the same for every row: once, as a whole array
        bound: set[str] = set()
        for i, scope in enumerate(scopes):
            bound |= {scope.axis} if scope.axis is not None else set()
            if axes <= bound:
                return i, i + 1
        return (len(scopes) - 1, len(scopes)) if axes & bound else (0, 1)

    def _in_place(self, n: int) -> bool:
        """Whether a value without the rows' axis is as cheap to make again as to read."""
        node = self.graph.nodes[n]
        if node.op in STRUCTURAL or node.op == "leaf":
            return True
        if node.op == "pick":
            return self.graph.nodes[node.args[0]].op == "leaf"
        if node.op not in self.registry.primitives:
            return False
        return all(self.graph.nodes[a].op in STRUCTURAL for a in node.args)

    def is_stored(self, n: int) -> bool:
        """Whether an earlier visit has stored it."""
        return any(b.name == self.saved.get(n) for b in self.scratch)

    def save(self, n: int, name: str, home: Scope) -> None:
        """Stores a result that later visits need."""
        node = self.graph.nodes[n]
        axes = self.order(node.type.axes)
        self.scratch.append(Buffer(self.saved[n], axes, dtype_of(node.type.kind), "scratch"))
        home.body.append(Store(self.saved[n], axes, name))

    def _statement(self, n: int, node: Node, depth: int) -> Stmt:
        if self.is_stored(n):
            return Load(self.value(n, self.saved[n]), self.saved[n], self.order(node.type.axes), node.origin)
        match node.op:
            case "leaf":
                buffer = self.leaves[str(node.attrs[0])]
                return Load(self.value(n, buffer.name), buffer.name, buffer.axes, node.origin)
            case "pick":
                return self._pick(n, node, depth)
            case "index" | "size":
                base = f"{'i' if node.op == 'index' else 'n'}_{str(node.attrs[0]).lower().rstrip(chr(39))}"
                return Let(self.value(n, base), node.op, (), node.attrs, node.origin)
            case "reduce" | "statistic" | "scatter":
                return self.reduction(n, node, depth, self.scopes[depth - 1])
        if node.op == "root":
            return self._root(n, node, depth)
        args = tuple(self.need(a, depth) for a in node.args)
        if node.op in self.registry.primitives:
            return Let(self.value(n, self._wish(n, node)), node.op, args, (), node.origin)
        return Island((self.value(n, node.op),), node.op, args, node.attrs, origin=node.origin)

    def _root(self, n: int, node: Node, depth: int) -> Island:
        """The zero of f: the statements of f stand in a scope of their own, with the unknown."""
        low, high = (self.need(a, depth) for a in node.args[:2])
        unknowns = [m for m, other in enumerate(self.graph.nodes) if other.op == "var" and other.attrs == node.attrs]
        value = self.value(n, "t")
        bound = [self.value(m, "unknown") for m in unknowns] or [replace(value, name=self.name("unknown"))]
        for m in _before(self.graph, node.args[2], self.unknowns):
            self.need(m)
        self.scopes.append(Scope(None))
        self.scopes[-1].values |= {m: v.name for m, v in zip(unknowns, bound, strict=False)}
        f = self.need(node.args[2])
        body = tuple(self.scopes.pop().body)
        return Island((value,), "root", (low, high, f), node.attrs, body, tuple(bound), node.origin)

    def _wish(self, n: int, node: Node) -> str:
        """What a pointwise value is called: by the hint, by what it chooses or compares, else by its operation."""
        if n in self.hints:
            return self.hints[n]
        if node.op == "select":
            branches = [a for a in node.args[1:] if self.graph.nodes[a].op != "const"]
            if len(branches) == 1:
                return self._stem(branches[0]) or "chosen"
        if node.op == "eq" and self.graph.nodes[node.args[0]].op == "index":
            stem = self._stem(node.args[1])
            return f"at_{stem}" if stem else "same"
        return SHORT.get(node.op, node.op)

    def _stem(self, n: int) -> str:
        """The name of the buffer from which a value comes unchanged, or by a choice."""
        node = self.graph.nodes[n]
        if node.op == "leaf":
            return self.leaves[str(node.attrs[0])].name
        if node.op == "pick" and self.graph.nodes[node.args[0]].op == "leaf":
            source = self._stem(node.args[0])
            at = next((self._stem(i) for i in node.args[1:] if self.graph.nodes[i].op != "index"), "")
            return f"{source}_{at}" if at else source
        if node.op == "select":
            stems = [self._stem(a) for a in node.args[1:] if self.graph.nodes[a].op != "const"]
            return stems[0] if len(stems) == 1 else ""
        return ""

    def _pick(self, n: int, node: Node, depth: int) -> Stmt:
        source = self.graph.nodes[node.args[0]]
        axes = tuple(node.attrs[0])  # type: ignore[arg-type]
        places = {a: self._place(i, depth) for a, i in zip(axes, node.args[1:], strict=True)}
        if source.op == "leaf":
            buffer = self.leaves[str(source.attrs[0])]
            index = tuple(places.get(a, a) for a in buffer.axes)
            return Load(self.value(n, self._stem(n) or buffer.name), buffer.name, index, node.origin)
        if {s.axis for s in self.scopes[:depth]} & set(axes):
            raise NotByRowsError("a matrix is read inside a loop over one of its axes, at another index")
        name = str(self.need(node.args[0], depth))
        return Pick(self.value(n, f"{name}_at"), name, axes, tuple(places.values()), node.origin)

    def _place(self, i: int, depth: int) -> str:
        """An index of a load or pick: an axis, or the name of an int."""
        node = self.graph.nodes[i]
        if node.op == "index":
            return str(node.attrs[0])
        place = self.need(i, depth)
        if isinstance(place, str):
            return place
        value = Value(self.name("at"), (), "int")
        self.scopes[0].body.append(Let(value, "add", (place, Fraction(0)), (), node.origin))
        return value.name

    def reduction(self, n: int, node: Node, depth: int, home: Scope) -> Reduce | Scatter:
        """The statement of a reduction; its values become visible in `home`."""
        args = [self.need(a, depth) for a in node.args]
        if node.op == "scatter":
            value = self.value(n, "put")
            home.values[n] = value.name
            return Scatter(value, str(node.attrs[0]), reduced_axes(node), args[0], str(args[1]), node.origin)
        where = args[1] if len(args) == 2 else None
        axes = reduced_axes(node)
        if node.op == "reduce":
            values = [self.value(n, SHORT.get(str(node.attrs[0]), str(node.attrs[0])))]
            home.values[n] = values[0].name
        else:
            values = []
            for i, base in enumerate(RESULTS[str(node.attrs[0])]):
                kept = self.order(operand_axes(self.graph, node) - set(axes))
                values.append(Value(self.name(base), kept))
                twin = self._twin(node, i)
                if twin is not None:
                    home.values[twin] = values[-1].name
        return Reduce(tuple(values), str(node.attrs[0]), axes, (args[0],), where, node.origin)

    def _twin(self, node: Node, i: int) -> int | None:
        """The node of result i of the same reduction, if the graph has it."""
        attrs = (node.attrs[0], i, *node.attrs[2:])
        for n, other in enumerate(self.graph.nodes):
            if other.op == "statistic" and other.args == node.args and other.attrs == attrs:
                return n
        return None

    def store(self, output: Output) -> None:
        value = self.need(output.node)
        store = Store(output.buffer.name, output.buffer.axes, value, otherwise=output.otherwise)
        self.scopes[-1].body.append(store)


def _unknowns(graph: Graph) -> list[frozenset[int]]:
    """For each node, the roots on whose unknown it hangs: a root's own does not leave it."""
    found: list[frozenset[int]] = []
    for node in graph.nodes:
        inner = frozenset().union(*(found[a] for a in node.args))
        if node.op == "var":
            inner |= {int(node.attrs[0])}  # type: ignore[arg-type]
        if node.op == "root":
            inner -= {int(node.attrs[0])}  # type: ignore[arg-type]
        found.append(inner)
    return found


def _before(graph: Graph, f: int, unknowns: Sequence[frozenset[int]]) -> list[int]:
    """What a root's function reads that does not hang on its unknown."""
    nodes = reachable(graph.nodes, [f])
    hanging = {n for n in nodes if unknowns[n]}
    return sorted({a for n in hanging for a in graph.nodes[n].args} - hanging)


def _result(statement: Stmt) -> str:
    """The name of what a statement defines first."""
    match statement:
        case Reduce() | Island():
            return statement.values[0].name
        case Let() | Load() | Pick() | Scatter():
            return statement.value.name
    raise InternalError("a statement that defines nothing")


SHORT = {
    **{"logsumexp": "lse", "minimum": "lesser", "maximum": "greater", "not": "without", "and": "both", "or": "either"},
    **{"add": "total", "sub": "difference", "mul": "product", "mulz": "product", "div": "ratio", "neg": "minus"},
    **{"select": "chosen", "eq": "same", "ne": "differs", "lt": "less", "le": "at_most", "pow": "power"},
    **{"log1p": "log1p", "abs": "size", "max": "largest", "min": "smallest", "argmax": "leader", "count": "number"},
}


RESULTS = {"logsumexp": ("m", "rest"), "ties": ("m", "ties")}


def dtype_of(kind: str) -> Dtype:
    """What a kernel stores for a kind: labels and indices are ints."""
    return kind if kind in ("real", "bool") else "int"  # type: ignore[return-value]
