"""Graph → Graph in the operations that kernels have: the softmax family through two statistics, bare products where
they are safe.

New operations of the result:

    statistic [reduction, i, (A, …)](e[, m])   result i of a reduction with several: "logsumexp" gives m and rest, so
                                               that lse = m + log1p(rest) is exact for a row that one class leads
    contract [(A, …)](a, b)                    sum of a·b over A as a matrix product
    mulz(a, b)                                 the product where 0 · inf is 0; `mul` is the bare one

`detach` is gone (derivatives have been taken). Nothing here is rewritten by rule: these are the forms that run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import inf

from lossdsl.check.types import Type
from lossdsl.ir.builder import Builder
from lossdsl.ir.graph import Attr, Graph, Leaf, Node, reachable
from lossdsl.plan import compared, products, signs, softmaxes
from lossdsl.plan.axes import axes_of
from lossdsl.plan.tilted import tilted
from lossdsl.primitives.interval import FINITE, Interval
from lossdsl.registry import Registry


def expand(graph: Graph, registry: Registry, precise: bool = False) -> tuple[Graph, dict[int, str]]:
    """The same outputs in the operations that kernels have, and what some of the nodes may be called.

    With `precise`, what rounding drops of z - max z goes into a softmax's exponentials again, those of its sum too.
    """
    table = Table(graph, registry, precise)
    for n, node in enumerate(graph.nodes):
        table.ids[n] = table.expanded(node)
    outputs = {name: table.ids[n] for name, n in graph.outputs}
    needed = reachable(table.builder.nodes, list(outputs.values()))
    names = {i: table.names[n] for i, n in enumerate(needed) if n in table.names}
    # All leaves are arguments of the kernels, used or not.
    return replace(table.builder.graph(outputs), leaves=tuple(table.leaves.values())), names


class Table:
    """The expanded nodes of a graph; `ids` maps the graph's own to them."""

    def __init__(self, graph: Graph, registry: Registry, precise: bool) -> None:
        self.graph = graph
        self.precise = precise
        self.dropped: dict[int, int] = {}  # z - m -> what rounding drops of it
        self.builder = Builder(registry, graph.name, graph.axes, graph.batch)
        self.leaves = {leaf.name: _finite_seed(leaf) for leaf in graph.leaves}
        for leaf in self.leaves.values():  # all of them are arguments of the kernel, used or not
            self.builder.leaf(leaf)
        self.ids: dict[int, int] = {}
        self.names: dict[int, str] = {}
        self.picks: dict[tuple[int, tuple[tuple[str, int], ...]], int] = {}
        # What log-sum-exps run over: their arguments and axes.
        self.summed = {(n.args, n.attrs[0]) for n in graph.nodes if n.op == "logp"}
        self.summed |= {(n.args, n.attrs[1]) for n in graph.nodes if n.op == "reduce" and n.attrs[0] == "logsumexp"}

    def raw(
        self, op: str, *args: int, attrs: tuple[Attr, ...] = (), interval: Interval | None = None, name: str = ""
    ) -> int:
        """The node as said, but for conditions that are decided; with what is known of its range, and a name."""
        decided = self._decided(op, args)
        if decided is None:
            decided = signs.outside(self, op, args)
        if decided is not None:
            return decided
        n = self.builder.raw(op, args, attrs)
        if name:
            self.names.setdefault(n, name)
        return n if interval is None else self.bounded(n, interval)

    def _decided(self, op: str, args: Sequence[int]) -> int | None:
        """Picks make an index meet itself: y == y, and what hangs on it."""
        if op == "eq" and args[0] == args[1] and self.type(args[0]).kind != "real":
            return self.builder.raw("const", (), (True,))
        first = self.builder.nodes[args[0]] if args else None
        if op == "select" and self.builder.nodes[args[2]].op == "select":
            inner = self.builder.nodes[args[2]].args
            if inner[0] == args[0]:
                return self.raw("select", args[0], args[1], inner[2])
        if first is None or first.op != "const" or not isinstance(first.attrs[0], bool):
            return None
        if op == "select":
            return args[1] if first.attrs[0] else args[2]
        if op == "not":
            return self.builder.raw("const", (), (not first.attrs[0],))
        if op in ("and", "or"):
            return args[1] if first.attrs[0] == (op == "and") else args[0]
        return None

    def bounded(self, n: int, interval: Interval) -> int:
        """The node, with what is known of its range."""
        node = self.builder.nodes[n]
        known = replace(node.type, interval=interval)
        self.builder.nodes[n] = Node(node.op, node.args, node.attrs, known, node.origin)
        return n

    def const(self, value: int) -> int:
        return self.builder.raw("const", (), (Fraction(value),))

    def type(self, n: int) -> Type:
        return self.builder.nodes[n].type

    # --- one node ---------------------------------------------------------------------------------------------------

    def expanded(self, node: Node) -> int:
        self.builder.origin = node.origin  # what is made here comes from the same text
        args = tuple(self.ids[a] for a in node.args)
        match node.op:
            case "leaf":
                leaf = self.leaves[str(node.attrs[0])]
                return self.builder.leaf(leaf, node.origin)
            case "var":
                return self.builder.raw("var", (), node.attrs, node.type)
            case "detach":
                return args[0]
            case "mul":
                return self.product(*args)
            case "pow":
                return self.power(*args) or self.raw("pow", *args)
            case "select":
                return self.shift(node) or self.raw("select", *args)
            case "logp" | "log_softmax":
                return softmaxes.log_probability(self, node, args)
            case "softmax":
                return softmaxes.probability(self, args, axes_of(node.attrs[0]))
            case "exp":
                return softmaxes.exponential(self, node, args[0])
            case "expm1" if self.graph.nodes[node.args[0]].op == "logp" and not self.precise:
                return softmaxes.less_than_all(self, self.graph.nodes[node.args[0]])
            case "pick":
                return self.picked(node, args)
            case "sub" | "expsub" | "divergence" if (found := compared.of_two_softmaxes(self, node)) is not None:
                return found
            case "reduce" if node.attrs[0] == "logsumexp":
                m, rest = softmaxes.statistics(self, args, axes_of(node.attrs[1]))
                return self.raw("add", m, self.raw("log1p", rest, name="log_total"), name="lse")
            case "reduce" if node.attrs[0] == "sum":
                axes = axes_of(node.attrs[1])
                found = tilted(self, args, axes) or products.contraction(self, args, axes)
                return found or self.raw("reduce", *args, attrs=node.attrs)
        return self.raw(node.op, *args, attrs=node.attrs)

    def product(self, a: int, b: int) -> int:
        """`mul` where the intervals rule 0 · inf out, else `mulz`."""
        x, y = self.type(a).interval, self.type(b).interval
        first, second = 0.0 in x and not y.finite, 0.0 in y and not x.finite
        if a == b or not (first or second):
            return self.raw("mul", a, b)
        if first and second:
            return self.raw("mulz", a, b)
        zero, known = self.const(0), self.builder.raw("mulz", (a, b))  # one test is enough
        nothing = self.raw("eq", a if first else b, zero, name="nothing")
        plain = self.raw("select", nothing, zero, self.raw("mul", a, b), name="product")
        return self.bounded(plain, self.type(known).interval)

    def power(self, x: int, exponent: int) -> int | None:
        """Small powers without the function: x² is x·x, whose rounding is one."""
        node = self.builder.nodes[exponent]
        known = self.type(x).interval
        match node.attrs[0] if node.op == "const" else None:
            case Fraction(numerator=2, denominator=1):
                return self.raw("mul", x, x, interval=Interval(0.0, inf))
            case Fraction(numerator=3, denominator=1):
                return self.raw("mul", self.raw("mul", x, x, interval=Interval(0.0, inf)), x)
            case Fraction(numerator=-1, denominator=1):
                return self.raw("div", self.const(1), x)
            case Fraction(numerator=1, denominator=2) if known.low >= 0:
                return self.raw("sqrt", x)
        return None

    def shift(self, node: Node) -> int | None:
        """max(z), or 0 where that is -inf, is the m that a log-sum-exp of the same z has anyway."""
        condition, yes, no = (self.graph.nodes[self.held(a)] for a in node.args)
        if condition.op != "eq" or yes.op != "const" or no.op != "reduce" or no.attrs[0] != "max" or yes.attrs[0] != 0:
            return None
        maximum = self.held(node.args[2])
        other = [self.graph.nodes[a].attrs for a in condition.args if self.held(a) != maximum]
        if other != [(-inf,)] or (no.args, no.attrs[1]) not in self.summed:
            return None
        return softmaxes.statistics(self, [self.ids[a] for a in no.args], axes_of(no.attrs[1]))[0]

    def held(self, n: int) -> int:
        """The node without a `detach` around it."""
        node = self.graph.nodes[n]
        return self.held(node.args[0]) if node.op == "detach" else n

    def scalar(self, n: int) -> bool:
        return not self.graph.nodes[n].type.axes

    def number(self, value: Fraction | float) -> int:
        return self.builder.raw("const", (), (value,))

    # --- reading at an index ----------------------------------------------------------------------------------------

    def pairs(self, node: Node, args: Sequence[int]) -> dict[str, int]:
        return dict(zip(axes_of(node.attrs[0]), args[1:], strict=True))

    def picked(self, node: Node, args: tuple[int, ...]) -> int:
        source = self.graph.nodes[node.args[0]]
        pairs = self.pairs(node, args)
        inner = tuple(self.ids[a] for a in source.args)
        if source.op in ("logp", "log_softmax"):
            return softmaxes.log_probability(self, source, inner, pairs)
        if source.op == "softmax":
            return softmaxes.probability(self, inner, axes_of(source.attrs[0]), pairs)
        return self.pick(args[0], pairs)

    def pick(self, e: int, pairs: dict[str, int]) -> int:
        """e with axes' indices replaced, taken through pointwise operations to leaves and reductions."""
        live = {a: i for a, i in pairs.items() if a in self.type(e).axes and not self._is_index(i, a)}
        if not live:
            return e
        key = (e, tuple(sorted(live.items())))
        if key not in self.picks:
            self.picks[key] = self._picked(e, live)
        return self.picks[key]

    def _picked(self, e: int, live: dict[str, int]) -> int:
        node = self.builder.nodes[e]
        if node.op == "index":
            return live[str(node.attrs[0])]
        if node.op in self.builder.registry.primitives:
            return self.raw(node.op, *(self.pick(a, live) for a in node.args), interval=node.type.interval)
        if node.op == "pick":
            inner = {a: self.pick(i, live) for a, i in self.pairs(node, node.args).items()}
            source = self.type(node.args[0]).axes
            through = {a: i for a, i in live.items() if a in source and a not in inner}
            return self.pick(node.args[0], {**through, **inner})
        axes = tuple(a for a in self.builder.axes if a in live)
        return self.raw("pick", e, *(live[a] for a in axes), attrs=(axes,))

    def _is_index(self, n: int, axis: str) -> bool:
        node = self.builder.nodes[n]
        return node.op == "index" and node.attrs == (axis,)


def _finite_seed(leaf: Leaf) -> Leaf:
    """An infinite cotangent may make NaN; a zero one must not."""
    if leaf.role != "seed":
        return leaf
    return replace(leaf, type=replace(leaf.type, interval=FINITE))
