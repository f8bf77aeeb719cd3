"""A Graph written out as scalars: every entry of every tensor by itself, at small sizes, for all real inputs at once.

Indices, booleans and sizes are numbers here (a proof goes through all of them); what depends on reals stays open, so
that what is shown of a scalar holds for all reals: no branch is chosen by a point. Entries of a row of logits may
be given as logarithms of probabilities, which is all that a loss sees of them if it doesn't change with a shift.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from math import inf, isinf
from typing import Any

from lossdsl.ir.graph import Graph, Leaf, Node

Index = tuple[int, ...]
Place = Mapping[str, int]
Number = Fraction | float | bool
Entry = Callable[["Scalars", Leaf, Index], int]
MOST = 20_000  # scalars: more is no small size


class NotWrittenError(Exception):
    """An operation that has no written-out form here; the message names it."""


@dataclass(slots=True)
class Scalars:
    """Hash-consed scalar expressions: ("const", value), ("var", name) or (primitive, arguments), in topological order.

    Beside the primitives of the Graph: `lse` (log-sum-exp of its arguments), `logp` (the first argument less the
    log-sum-exp of all), `xlogx`, and `phi`, which is (e^x - 1)/x and 1 at 0. `simplices` are
    groups of scalars that sum to 1.
    """

    nodes: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    ids: dict[tuple[Any, ...], int] = field(default_factory=dict)
    simplices: list[frozenset[int]] = field(default_factory=list)

    def const(self, value: Number | int) -> int:
        if isinstance(value, bool):
            return self._raw("const", (value,))
        if isinstance(value, float) and not isinf(value):
            value = Fraction(value)
        return self._raw("const", (Fraction(value) if isinstance(value, int) else value,))

    def var(self, name: str) -> int:
        return self._raw("var", (name,))

    def value(self, n: int) -> Any:
        """The number that a scalar is known to be, or None."""
        op, args = self.nodes[n]
        return args[0] if op == "const" else None

    def node(self, op: str, args: Sequence[int]) -> int:
        """The scalar op(args), folded where that is exact."""
        better = _fold(self, op, tuple(args))
        return self._raw(op, tuple(args)) if better is None else better

    def _raw(self, op: str, args: tuple[Any, ...]) -> int:
        key = (op, args, op == "const" and isinstance(args[0], bool))
        if key not in self.ids:
            if len(self.nodes) > MOST:
                raise NotWrittenError("too many entries")
            self.ids[key] = len(self.nodes)
            self.nodes.append((op, args))
        return self.ids[key]

    def is_probability(self, n: int) -> bool:
        """Whether it is known to lie in [0, 1]."""
        return any(n in simplex for simplex in self.simplices)

    def total(self, terms: Sequence[int]) -> int:
        """The sum; probabilities of all outcomes sum to 1, those of all but one to its complement."""
        for simplex in self.simplices:
            here = {t for t in terms if t in simplex}
            rest = [t for t in terms if t not in simplex]
            if len(here) + len(rest) < len(terms) or len(here) < 2:
                continue
            if here == simplex or len(here) == len(simplex) - 1:
                left = simplex - here
                whole = self.node("sub", [self.const(1), *left]) if left else self.const(1)
                return self.total([*rest, whole]) if rest else whole
        total = self.const(0)
        for t in terms:
            total = self.node("add", [total, t])
        return total

    def lse(self, terms: Sequence[int]) -> int:
        """log Σ e^x."""
        if not terms:
            return self.const(-inf)
        return self.node("lse", terms)


def _fold(s: Scalars, op: str, args: tuple[int, ...]) -> int | None:
    values = [s.value(a) for a in args]
    if all(v is not None for v in values):
        known = _number(op, values)
        if known is not None:
            return s.const(known)
    ops = [s.nodes[a][0] for a in args]
    match op:
        case "add":
            if 0 in values and not all(isinstance(v, bool) for v in values if v == 0):
                return args[1 - values.index(0)]
            if ops[1] == "neg":
                return s.node("sub", [args[0], s.nodes[args[1]][1][0]])
            if ops[0] == "neg":
                return s.node("sub", [args[1], s.nodes[args[0]][1][0]])
            return _factored(s, "add", args)
        case "sub":
            if values[1] == 0:
                return args[0]
            if args[0] == args[1]:
                return s.const(0)
            if values[0] == 0:
                return s.node("neg", [args[1]])
            if ops[1] == "neg":
                return s.node("add", [args[0], s.nodes[args[1]][1][0]])
            if ops[1] == "lse" and args[0] in s.nodes[args[1]][1]:
                return _share(s, args[0], s.nodes[args[1]][1])
            if ops[0] == "lse" and args[1] in s.nodes[args[0]][1]:
                return s.node("neg", [_share(s, args[1], s.nodes[args[0]][1])])
            if ops[1] == "sub" and s.nodes[args[1]][1][0] == args[0]:  # 1 - (1 - p)
                return int(s.nodes[args[1]][1][1])
            if values[0] == 1 and ops[1] == "div":  # 1 - x/(x + y) is y/(x + y)
                x, total = s.nodes[args[1]][1]
                terms = _terms(s, total)
                if len(terms) > 1 and x in terms:
                    terms.remove(x)
                    return s.node("div", [s.total(terms), total])
            return _factored(s, "sub", args)
        case "neg":
            if ops[0] == "neg":
                return int(s.nodes[args[0]][1][0])
            if ops[0] == "sub":
                x, y = s.nodes[args[0]][1]
                return s.node("sub", [y, x])
        case "mul" | "mulz":
            return _product(s, args, values)
        case "div":
            return _quotient(s, args, values)
        case "pow":
            if values[1] == 0:
                return s.const(1)
            if values[1] == 1:
                return args[0]
            inner = s.nodes[args[0]][1]
            whole = values[1] is not None and Fraction(values[1]).denominator == 1
            if whole and ops[0] in ("mul", "div"):
                return s.node(ops[0], [s.node("pow", [a, args[1]]) for a in inner])
            if values[1] == 2 and ops[0] == "neg":
                return s.node("pow", [inner[0], args[1]])
            if values[1] == 2 and ops[0] == "sqrt" and (s.value(inner[0]) or 0) > 0:
                return int(inner[0])
        case "select":
            if values[0] is not None:
                return args[1] if values[0] else args[2]
            if args[1] == args[2]:
                return args[1]
        case "exp" | "expm1" | "log" | "lse":
            return _logarithm(s, op, args, values)
        case "clip":
            if s.is_probability(args[0]) and (values[1] is not None and values[1] <= 0) and values[2] == 1:
                return args[0]
        case "maximum" | "minimum":
            if args[0] == args[1]:
                return args[0]
            worst = -inf if op == "maximum" else inf
            if worst in values:
                return args[1 - values.index(worst)]
        case "logaddexp":
            return s.lse(args)
        case "detach":
            return args[0]
        case "and" | "or":
            if op == "and" and False in values:
                return s.const(False)
            if op == "or" and True in values:
                return s.const(True)
            for i in (0, 1):
                if values[i] is not None:
                    return args[1 - i]
    return None


def _factors(s: Scalars, n: int) -> list[tuple[str, int]]:
    """The factors of a product, each with the operation that brings it in; a sign is the factor -1."""
    op, args = s.nodes[n]
    match op:
        case "neg":
            return [("mul", s.const(-1)), *_factors(s, args[0])]
        case "mul":
            return [*_factors(s, args[0]), *_factors(s, args[1])]
        case "div":
            return [*_factors(s, args[0]), ("div", args[1])]
    return [("mul", n)]


def _terms(s: Scalars, n: int) -> list[int]:
    op, args = s.nodes[n]
    return [*_terms(s, args[0]), *_terms(s, args[1])] if op == "add" else [n]


def _factored(s: Scalars, op: str, args: tuple[int, ...]) -> int | None:
    """x·a ± x·b as x·(a ± b), which is what an enclosure of it needs."""
    left, right = (_factors(s, a) for a in args)
    common = []
    for f in list(left):
        if f in right and (f[0] == "div" or s.value(f[1]) is None):
            left.remove(f)
            right.remove(f)
            common.append(f)
    if not common:
        return None
    rest = s.node(op, [_made_of(s, left), _made_of(s, right)])
    return _made_of(s, [("mul", rest), *common])


def _made_of(s: Scalars, factors: Sequence[tuple[str, int]]) -> int:
    result = s.const(1)
    for op, f in factors:
        result = s.node(op, [result, f])
    return result


def _share(s: Scalars, x: int, terms: Sequence[int]) -> int:
    """x - log Σ e^t, where x is one of the terms: the logarithm of its share."""
    others = list(terms)
    others.remove(x)
    return s.node("logp", [x, *others])


def _product(s: Scalars, args: tuple[int, ...], values: Sequence[Any]) -> int | None:
    for i in (0, 1):
        x, y = args[i], args[1 - i]
        op, inner = s.nodes[y]
        if values[i] == 0:
            return s.const(0)
        if values[i] == 1:
            return y
        if values[i] == -1:
            return s.node("neg", [y])
        if op == "neg":  # signs stand outside
            return s.node("neg", [s.node("mul", [x, inner[0]])])
        if op == "log" and inner[0] == x:
            return s.node("xlogx", [x])
        if op == "div" and inner[1] == x:
            return int(inner[0])
    left, right = _factors(s, args[0]), _factors(s, args[1])
    for f, g in ((f, g) for f in left for g in right):
        if f[1] == g[1] and f[0] != g[0]:  # x·a · b/x
            left.remove(f)
            right.remove(g)
            return _made_of(s, [*left, *right])
    every = [*left, *right]
    for f in every:
        op, inner = s.nodes[f[1]]
        if op == "log" and f[0] == "mul" and ("mul", inner[0]) in every:  # x·a · log x
            every.remove(f)
            every.remove(("mul", inner[0]))
            return _made_of(s, [*every, ("mul", s.node("xlogx", inner))])
    return None if args[0] <= args[1] else s.node("mul", args[::-1])


def _quotient(s: Scalars, args: tuple[int, ...], values: Sequence[Any]) -> int | None:
    x, y = args
    if values[1] == 1:
        return x
    if values[0] == 0:
        return s.const(0)
    if x == y:
        return s.const(1)
    op, inner = s.nodes[x]
    if op == "neg":
        return s.node("neg", [s.node("div", [inner[0], y])])
    factors = _factors(s, x)
    if len(factors) > 1 and ("mul", y) in factors:
        factors.remove(("mul", y))
        return _made_of(s, factors)
    if op == "expm1":  # (e^(q·L) - 1)/q is L·phi(q·L), also at q = 0
        exponent, factors = s.nodes[inner[0]]
        if inner[0] == y:
            return s.node("phi", [y])
        if exponent == "mul" and y in factors:
            rest = factors[0] if factors[1] == y else factors[1]
            return s.node("mul", [rest, s.node("phi", [inner[0]])])
    return None


def _logarithm(s: Scalars, op: str, args: tuple[int, ...], values: Sequence[Any]) -> int | None:
    first, inner = s.nodes[args[0]]
    if op == "exp":
        return (
            int(inner[0])
            if first == "log"
            else s.total([s.node("exp", [a]) for a in inner])
            if first == "lse"
            else None
        )
    if op == "expm1":
        return s.node("sub", [inner[0], s.const(1)]) if first == "log" else None
    if op == "log":
        return int(inner[0]) if first == "exp" else None
    kept = [a for a, v in zip(args, values, strict=True) if v != -inf]
    if len(kept) < len(args):
        return s.lse(kept)
    if len(args) == 1:
        return args[0]
    if all(s.nodes[a][0] == "log" for a in args):  # of probabilities
        return s.node("log", [s.total([s.nodes[a][1][0] for a in args])])
    return None


def _number(op: str, v: Sequence[Any]) -> Any:
    """The exact value of an operation on numbers; None where it has none."""
    if any(isinstance(x, float) for x in v) and op not in (
        "lt",
        "le",
        "gt",
        "ge",
        "eq",
        "ne",
        "maximum",
        "minimum",
        "exp",
        "neg",
        "select",
    ):
        return None
    match op:
        case "add":
            return v[0] + v[1]
        case "sub":
            return v[0] - v[1]
        case "mul" | "mulz":
            return v[0] * v[1]
        case "div":
            return Fraction(v[0]) / v[1] if v[1] else None
        case "neg":
            return -v[0]
        case "pow":
            whole = Fraction(v[1]).denominator == 1 and abs(v[1]) <= 64 and (v[0] or v[1] >= 0)
            return Fraction(v[0]) ** int(v[1]) if whole else None
        case "exp":
            return 1 if v[0] == 0 else 0 if v[0] == -inf else inf if v[0] == inf else None
        case "log":
            return 0 if v[0] == 1 else -inf if v[0] == 0 else None
        case "expm1" | "log1p":
            return 0 if v[0] == 0 else None
        case "sqrt" | "xlogx":
            return v[0] if v[0] == 0 or (op == "sqrt" and v[0] == 1) else 0 if v[0] == 1 else None
        case "abs":
            return abs(v[0])
        case "sign":
            return (v[0] > 0) - (v[0] < 0)
        case "relu":
            return max(v[0], 0)
        case "floor":
            return v[0].__floor__()
        case "mod":
            return v[0] % v[1] if v[1] else None
        case "maximum":
            return max(v)
        case "minimum":
            return min(v)
        case "select":
            return v[1] if v[0] else v[2]
        case "and" | "or":
            return bool(v[0] and v[1]) if op == "and" else bool(v[0] or v[1])
        case "not":
            return not v[0]
    compare: Mapping[str, Callable[[Any, Any], bool]] = {
        "lt": lambda x, y: x < y, "le": lambda x, y: x <= y, "gt": lambda x, y: x > y,
        "ge": lambda x, y: x >= y, "eq": lambda x, y: x == y, "ne": lambda x, y: x != y,
    }  # fmt: skip
    return bool(compare[op](*v)) if op in compare else None


# --- writing a Graph out ----------------------------------------------------------------------------------------------


def written(
    s: Scalars,
    graph: Graph,
    sizes: Mapping[str, int],
    entry: Entry,
    outputs: Sequence[str],
    known: Mapping[int, int] | None = None,
) -> dict[str, dict[Index, int]]:
    """The entries of some outputs, by index along the output's axes in canonical order. NotWrittenError.

    `sizes` gives the extent of every axis; `entry` the scalar of a leaf's entry at an index along `Leaf.axes`: a number
    for what isn't real; `known` scalars for some nodes, at every index.
    """
    writer = _Writer(s, graph, sizes, entry, {leaf.name: leaf for leaf in graph.leaves}, known or {})
    found: dict[str, dict[Index, int]] = {}
    for name in outputs:
        n = graph.output(name)
        axes = writer.axes(n)
        found[name] = {i: writer.at(n, dict(zip(axes, i, strict=True))) for i in writer.indices(axes)}
    return found


@dataclass(slots=True)
class _Writer:
    s: Scalars
    graph: Graph
    sizes: Mapping[str, int]
    entry: Entry
    leaves: Mapping[str, Leaf]
    known: Mapping[int, int]
    memo: dict[tuple[int, Index], int] = field(default_factory=dict)

    def axes(self, n: int) -> tuple[str, ...]:
        return tuple(a for a in self.graph.axes if a in self.graph.nodes[n].type.axes)

    def indices(self, axes: Sequence[str]) -> list[Index]:
        return list(product(*(range(self.sizes[a]) for a in axes)))

    def at(self, n: int, place: Place) -> int:
        if n in self.known:
            return self.known[n]
        key = (n, tuple(place[a] for a in self.axes(n)))
        if key not in self.memo:
            self.memo[key] = self.made(self.graph.nodes[n], place)
        return self.memo[key]

    def number(self, n: int, place: Place) -> Any:
        """What must be known: an index, a condition of a mask."""
        value = self.s.value(self.at(n, place))
        if value is None:
            raise NotWrittenError(f"{self.graph.nodes[n].op} that depends on reals")
        return value

    def inside(self, node: Node, axes: Any, place: Place) -> list[tuple[int, Any]]:
        """(entry, index) over the axes, where the mask holds."""
        found = []
        for index in self.indices(axes):
            here = {**place, **dict(zip(axes, index, strict=True))}
            if len(node.args) == 1 or self.number(node.args[1], here):
                found.append((self.at(node.args[0], here), index))
        return found

    def made(self, node: Node, place: Place) -> int:
        s, args = self.s, node.args
        match node.op:
            case "const":
                return s.const(node.attrs[0])  # type: ignore[arg-type]
            case "leaf":
                leaf = self.leaves[str(node.attrs[0])]
                return self.entry(s, leaf, tuple(place[a] for a in leaf.axes))
            case "index":
                return s.const(place[str(node.attrs[0])])
            case "size":
                return s.const(self.sizes[str(node.attrs[0])])
            case "reduce":
                return self.reduce(node, place)
            case "logp":
                whole = s.lse([x for x, _ in self.inside(node, node.attrs[0], place)])
                return s.node("sub", [self.at(args[0], place), whole])
            case "pick":
                axes = node.attrs[0]
                assert isinstance(axes, tuple)
                read = {a: int(self.number(i, place)) for a, i in zip(axes, args[1:], strict=True)}
                return self.at(args[0], {**place, **read})
            case "scatter":
                axis, over = str(node.attrs[0]), node.attrs[1]
                assert isinstance(over, tuple)
                places = [{**place, **dict(zip(over, i, strict=True))} for i in self.indices(over)]
                return s.total([self.at(args[0], p) for p in places if int(self.number(args[1], p)) == place[axis]])
            case "cumsum":
                axis, back = str(node.attrs[0]), len(node.attrs) > 1
                here = place[axis]
                inside = self.inside(node, (axis,), place)
                return s.total([x for x, (i,) in inside if (i >= here if back else i <= here)])
            case "select":  # the branch that isn't taken need not be written
                condition = s.value(self.at(args[0], place))
                if condition is not None:
                    return self.at(args[1] if condition else args[2], place)
            case "var" | "root" | "order" | "logdet" | "inverse" | "solve" | "eigvals" | "eigvecs":
                raise NotWrittenError(node.op)
        return s.node(node.op, [self.at(a, place) for a in args])

    def reduce(self, node: Node, place: Place) -> int:
        s = self.s
        inside = [x for x, _ in self.inside(node, node.attrs[1], place)]
        match node.attrs[0]:
            case "sum":
                return s.total(inside)
            case "count":
                return s.const(len(inside))
            case "logsumexp":
                return s.lse(inside)
            case "prod" | "max" | "min":
                name = str(node.attrs[0])
                op = {"prod": "mul", "max": "maximum", "min": "minimum"}[name]
                result = s.const({"prod": 1, "max": -inf, "min": inf}[name])
                for x in inside:
                    result = s.node(op, [result, x])
                return result
        raise NotWrittenError(f"reduce {node.attrs[0]}")
