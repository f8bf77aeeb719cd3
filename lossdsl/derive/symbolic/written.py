"""A whole loss as sympy expressions: every entry of every tensor a symbol, every sum written out, at small sizes.

It is written near one point: conditions, orders, maxima and absolute values are decided by the values there, so that
what comes out is the smooth expression that holds around it. A detached value is a symbol of its own, which no
derivative sees, and so is the unknown of a root, whose derivative is that of the implicit function.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import sympy

from lossdsl.check.types import base_axis
from lossdsl.derive.symbolic.terms import Symbolic, lift
from lossdsl.ir.graph import Graph, Node
from lossdsl.ir.interpret import evaluate
from lossdsl.registry import Registry

Index = tuple[int, ...]
Place = Mapping[str, int]  # axis -> index


class NotWrittenError(Exception):
    """An operation that has no written-out form here; the message names it."""


class UnsuitableError(Exception):
    """The point lies on a kink, where there is no derivative to compare with."""


@dataclass(frozen=True, slots=True)
class Written:
    """What the outputs are near a point.

    outputs   for each output its entries, by index along its axes (those of `rows` in the batch's order)
    entries   the symbol of each entry of a real leaf
    point     the value of every symbol: of entries, detached values and unknowns of roots
    roots     the equation of each unknown: an expression that is 0
    """

    outputs: Mapping[str, Mapping[Index, Any]]
    entries: Mapping[tuple[str, Index], Any]
    point: Mapping[Any, Any]
    roots: Mapping[Any, Any]


def to_sympy(
    graph: Graph, registry: Registry, leaves: Mapping[str, Any], sizes: Mapping[str, int], outputs: Sequence[str]
) -> Written:
    """Some outputs of a Graph written out. NotWrittenError where an operation has no form here.

    `leaves` are arrays as `ir.interpret.evaluate` takes them, `sizes` the extents of all axes.
    """
    writer = _Writer(graph, registry, sizes, _values(graph, registry, leaves, sizes))
    found: dict[str, dict[Index, Any]] = {}
    for name in outputs:
        n = graph.output(name)
        have = graph.nodes[n].type.axes
        axes = graph.batch if name in ("rows", "weight") else tuple(a for a in graph.axes if a in have)
        found[name] = {
            index: writer.write(n, dict(zip(axes, index, strict=True)))
            for index in product(*(range(sizes[a]) for a in axes))
        }
    return Written(found, writer.entries, writer.point, writer.roots)


def _values(graph: Graph, registry: Registry, leaves: Mapping[str, Any], sizes: Mapping[str, int]) -> dict[int, Any]:
    """The value of every node that no unknown enters, at 110 digits."""
    open_roots: list[frozenset[int]] = []
    for node in graph.nodes:
        below = frozenset().union(*(open_roots[a] for a in node.args))
        number = {int(node.attrs[0])} if node.op in ("var", "root") else set()  # type: ignore[arg-type]
        open_roots.append(below | number if node.op == "var" else below - number)
    closed = {f"aux.{n}": n for n, unknowns in enumerate(open_roots) if not unknowns}
    given = {leaf.name for leaf in graph.leaves} & set(leaves)
    every = replace(graph, outputs=tuple(closed.items()))
    found = evaluate(every, registry, {k: leaves[k] for k in given}, number="mpmath", sizes=sizes)
    return {n: found[name] for name, n in closed.items()}


@dataclass(slots=True)
class _Writer:
    graph: Graph
    registry: Registry
    sizes: Mapping[str, int]
    values: dict[int, Any]
    entries: dict[tuple[str, Index], Any] = field(default_factory=dict)
    point: dict[Any, Any] = field(default_factory=dict)
    roots: dict[Any, Any] = field(default_factory=dict)
    unknown: dict[int, Any] = field(default_factory=dict)  # of the roots that are being written
    memo: dict[Any, Any] = field(default_factory=dict)

    def axes(self, n: int) -> tuple[str, ...]:
        return tuple(a for a in self.graph.axes if a in self.graph.nodes[n].type.axes)

    def value(self, n: int, place: Place) -> Any:
        """The number at a place; inside a root, of what is written there."""
        if n in self.values:
            return self.values[n][tuple(place[a] for a in self.axes(n))]
        node = self.graph.nodes[n]
        if node.type.kind == "real":
            return self.number(self.write(n, place))
        return self.decide(node, place)

    def number(self, e: Any) -> Any:
        return sympy.sympify(e).evalf(100, subs={s: self.point[s] for s in sympy.sympify(e).free_symbols})

    def decide(self, node: Node, place: Place) -> Any:
        """A condition or an integer inside a root, from the values of its arguments."""
        values = [lift(self.value(a, place)) for a in node.args]
        found = Symbolic(self.registry.primitives).call(node.op, *values)
        return bool(found) if node.type.kind == "bool" else int(found)

    def holds(self, n: int, place: Place) -> bool:
        return bool(self.value(n, place))

    def write(self, n: int, place: Place) -> Any:
        key = (n, tuple(place[a] for a in self.axes(n)), tuple(sorted(self.unknown.items())))
        if key not in self.memo:
            node = self.graph.nodes[n]
            if node.type.kind != "real":
                value = self.value(n, place)
                self.memo[key] = sympy.Integer(int(value))
            else:
                self.memo[key] = self.real(n, node, place)
        return self.memo[key]

    def real(self, n: int, node: Node, place: Place) -> Any:
        match node.op:
            case "const":
                return lift(node.attrs[0])
            case "leaf":
                return self.entry(str(node.attrs[0]), n, place)
            case "detach":
                return self.symbol(f"detached{n}", n, place)
            case "var":
                return self.unknown[int(node.attrs[0])]  # type: ignore[arg-type]
            case "root":
                return self.root(n, node, place)
            case "reduce":
                return self.reduce(n, node, place)
            case "logp":
                inside = self.masked(node, node.attrs[0], place)
                return self.write(node.args[0], place) - sympy.log(sympy.Add(*(sympy.exp(x) for x, _ in inside)))
            case "cumsum":
                axis, back = str(node.attrs[0]), len(node.attrs) > 1
                here = place[axis]
                inside = self.masked(node, (axis,), place)
                return sympy.Add(*(x for x, at in inside if (at[axis] >= here if back else at[axis] <= here)))
            case "pick":
                axes = node.attrs[0]
                assert isinstance(axes, tuple)
                read = {a: int(self.value(i, place)) for a, i in zip(axes, node.args[1:], strict=True)}
                return self.write(node.args[0], {**place, **read})
            case "scatter":
                axis, over = str(node.attrs[0]), node.attrs[1]
                places = self.places(over, place)
                return sympy.Add(
                    *(self.write(node.args[0], p) for p in places if int(self.value(node.args[1], p)) == place[axis])
                )
            case "logdet":
                determinant = self.matrix(node, place).det()
                return sympy.log(determinant if self.number(determinant) > 0 else -determinant)
            case "inverse":
                row, column = (place[str(a)] for a in node.attrs)
                return self.matrix(node, place).inv()[row, column]
            case "solve":
                return self.solution(node, place)
            case "eigvals":
                return self.eigenvalue(node, place)
        if node.op in self.registry.primitives:
            return self.primitive(node, place)
        raise NotWrittenError(node.op)

    # --- leaves -------------------------------------------------------------------------------------------------------

    def entry(self, name: str, n: int, place: Place) -> Any:
        leaf = next(leaf for leaf in self.graph.leaves if leaf.name == name)
        index = tuple(place[a] for a in leaf.axes)
        if (name, index) not in self.entries:
            self.entries[name, index] = self.symbol(f"{name}{list(index) or ''}", n, place)
        return self.entries[name, index]

    def symbol(self, name: str, n: int, place: Place) -> Any:
        key = (n, "symbol", tuple(place[a] for a in self.axes(n)), tuple(sorted(self.unknown.items())))
        if key not in self.memo:
            value = self.value(n, place) if n in self.values else self.number(self.write(n, place))
            self.memo[key] = sympy.Dummy(name, real=True)
            self.point[self.memo[key]] = lift(value)
        return self.memo[key]

    def root(self, n: int, node: Node, place: Place) -> Any:
        t = self.symbol(f"root{n}", n, place)
        if t not in self.roots:
            number = int(node.attrs[0])  # type: ignore[arg-type]
            self.roots[t] = sympy.Integer(0)
            self.unknown[number] = t
            self.roots[t] = self.write(node.args[2], place)
            del self.unknown[number]
        return t

    # --- over axes ----------------------------------------------------------------------------------------------------

    def places(self, axes: Any, place: Place) -> list[dict[str, int]]:
        return [
            {**place, **dict(zip(axes, index, strict=True))} for index in product(*(range(self.sizes[a]) for a in axes))
        ]

    def masked(self, node: Node, axes: Any, place: Place) -> list[tuple[Any, dict[str, int]]]:
        """The entries over `axes` that the mask leaves, each with its place."""
        kept = (p for p in self.places(axes, place) if len(node.args) == 1 or self.holds(node.args[1], p))
        return [(self.write(node.args[0], p), p) for p in kept]

    def reduce(self, n: int, node: Node, place: Place) -> Any:
        inside = self.masked(node, node.attrs[1], place)
        values = [x for x, _ in inside]
        match node.attrs[0]:
            case "sum":
                return sympy.Add(*values)
            case "prod":
                return sympy.Mul(*values)
            case "max" | "min":
                sign = 1 if node.attrs[0] == "max" else -1
                if not values:
                    return -sign * sympy.oo
                return self.largest([(sign * self.value(node.args[0], at), x) for x, at in inside])
            case "logsumexp":
                return sympy.log(sympy.Add(*(sympy.exp(x) for x in values))) if values else -sympy.oo
        raise NotWrittenError(f"reduce {node.attrs[0]}")

    def matrix(self, node: Node, place: Place) -> Any:
        row, column = (str(a) for a in node.attrs[:2])
        rows, columns = range(self.sizes[base_axis(row)]), range(self.sizes[base_axis(column)])
        return sympy.Matrix([[self.write(node.args[0], {**place, row: i, column: j}) for j in columns] for i in rows])

    def solution(self, node: Node, place: Place) -> Any:
        row, column = (str(a) for a in node.attrs)
        right = [self.write(node.args[1], {**place, row: i}) for i in range(self.sizes[row])]
        return self.matrix(node, place).LUsolve(sympy.Matrix(right))[place[column]]

    def eigenvalue(self, node: Node, place: Place) -> Any:
        """Of a symmetric matrix of 2 rows, in ascending order."""
        matrix = self.matrix(node, place)
        if matrix.shape != (2, 2):
            raise NotWrittenError(f"eigvals of {matrix.rows} rows")
        a, b, c, d = matrix
        gap = sympy.sqrt((a - d) ** 2 + 4 * b * c)
        return (a + d + (2 * place[str(node.attrs[2])] - 1) * gap) / 2

    # --- pointwise ----------------------------------------------------------------------------------------------------

    def primitive(self, node: Node, place: Place) -> Any:
        """The expression of the branch that is taken at the point, where a primitive has branches."""
        args = node.args
        match node.op:
            case "select":
                return self.write(args[1] if self.holds(args[0], place) else args[2], place)
            case "maximum" | "minimum":
                sign = 1 if node.op == "maximum" else -1
                return self.largest([(sign * self.value(a, place), self.write(a, place)) for a in args])
            case "clip":
                x, low, high = ((self.value(a, place), self.write(a, place)) for a in args)
                value, e = x if x[0] == low[0] else self.larger(x, low)
                return e if value == high[0] else -self.larger((-value, -e), (-high[0], -high[1]))[1]
            case "relu":
                return self.larger((self.value(args[0], place), self.write(args[0], place)), (0, sympy.Integer(0)))[1]
            case "abs":
                return self.sign(args[0], place) * self.write(args[0], place)
            case "sign":
                return self.sign(args[0], place)
            case "mul" | "mulz":
                x, y = (self.write(a, place) for a in args)
                return sympy.Integer(0) if x == 0 or y == 0 else x * y
            case "pow":  # 0^y is 0 around y > 0, whose logarithm sympy would ask for
                if self.write(args[0], place) == 0 and self.value(args[1], place) > 0:
                    return sympy.Integer(0)
        return Symbolic(self.registry.primitives).call(node.op, *(self.write(a, place) for a in args))

    def larger(self, *pairs: tuple[Any, Any]) -> tuple[Any, Any]:
        """The (value, expression) of the largest value."""
        first = max(pairs, key=lambda p: p[0])
        if any(value == first[0] and e != first[1] for value, e in pairs):
            raise UnsuitableError("two are equally large")
        return first

    def largest(self, pairs: list[tuple[Any, Any]]) -> Any:
        return self.larger(*pairs)[1]

    def sign(self, n: int, place: Place) -> Any:
        value = self.value(n, place)
        if value == 0 and self.write(n, place) != 0:
            raise UnsuitableError("the sign of 0")
        return sympy.Integer(int(value > 0) - int(value < 0))
