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
from lossdsl.ir.rules.match import convex_weight
from lossdsl.plan import ratios
from lossdsl.primitives.interval import FINITE, UNIT, Interval
from lossdsl.registry import Registry
from lossdsl.source.diagnostic import InternalError

_NONPOSITIVE = Interval(-inf, 0.0)


def expand(graph: Graph, registry: Registry, precise: bool = False) -> tuple[Graph, dict[int, str]]:
    """The same outputs in the operations that kernels have, and what some of the nodes may be called.

    With `precise`, what rounding drops of z - max z goes into a softmax's exponentials again, those of its sum too.
    """
    table = _Table(graph, registry, precise)
    for n, node in enumerate(graph.nodes):
        table.ids[n] = table.expanded(node)
    outputs = {name: table.ids[n] for name, n in graph.outputs}
    needed = reachable(table.builder.nodes, list(outputs.values()))
    names = {i: table.names[n] for i, n in enumerate(needed) if n in table.names}
    # All leaves are arguments of the kernels, used or not.
    return replace(table.builder.graph(outputs), leaves=tuple(table.leaves.values())), names


_FACTORS = 16  # of a product that is looked at for a matrix product


class _Table:
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
            decided = signs(self, op, args)
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
        self.builder._from = node.origin  # what is made here comes from the same text
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
                return self.log_probability(node, args)
            case "softmax":
                return self.probability(args, _axes(node.attrs[0]))
            case "exp":
                return self.exponential(node, args[0])
            case "expm1" if self.graph.nodes[node.args[0]].op == "logp" and not self.precise:
                return self.less_than_all(self.graph.nodes[node.args[0]])
            case "pick":
                return self.picked(node, args)
            case "sub" | "expsub" | "divergence" if (found := self.of_two_softmaxes(node)) is not None:
                return found
            case "reduce" if node.attrs[0] == "logsumexp":
                m, rest = self.statistics(args, _axes(node.attrs[1]))
                return self.raw("add", m, self.raw("log1p", rest, name="log_total"), name="lse")
            case "reduce" if node.attrs[0] == "sum":
                return self.contraction(args, _axes(node.attrs[1])) or self.raw("reduce", *args, attrs=node.attrs)
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
        condition, yes, no = (self.graph.nodes[self._held(a)] for a in node.args)
        if condition.op != "eq" or yes.op != "const" or no.op != "reduce" or no.attrs[0] != "max" or yes.attrs[0] != 0:
            return None
        maximum = self._held(node.args[2])
        other = [self.graph.nodes[a].attrs for a in condition.args if self._held(a) != maximum]
        if other != [(-inf,)] or (no.args, no.attrs[1]) not in self.summed:
            return None
        return self.statistics([self.ids[a] for a in no.args], _axes(no.attrs[1]))[0]

    def _held(self, n: int) -> int:
        """The node without a `detach` around it."""
        node = self.graph.nodes[n]
        return self._held(node.args[0]) if node.op == "detach" else n

    # --- the softmax family -----------------------------------------------------------------------------------------

    def statistics(self, args: Sequence[int], axes: tuple[str, ...]) -> tuple[int, int]:
        """(m, rest) of a row: m its maximum, rest the sum of exp(z - m) less the maximum's own term; -1 over
        nothing.
        """
        if self.precise and len(axes) == 1:
            return self._precise_statistics(args, axes)
        kept = frozenset().union(*(self.type(a).axes for a in args)) - set(axes)
        m = self.builder.raw("statistic", args, ("logsumexp", 0, axes), Type(kept, "real"))
        rest = Type(kept, "real", Interval(-1.0, inf, high_open=True))
        return m, self.builder.raw("statistic", args, ("logsumexp", 1, axes), rest)

    def _precise_statistics(self, args: Sequence[int], axes: tuple[str, ...]) -> tuple[int, int]:
        """The same with each z - m in two floats: a small sum of exponentials is as exact as a large one."""
        z, *mask = args
        top = self.raw("reduce", *args, attrs=("max", axes))
        nothing = self.raw("eq", top, self.number(-inf))
        m = self.raw("select", nothing, self.const(0), top)
        leads = self.raw("eq", self.builder.index(axes[0]), self.raw("reduce", *args, attrs=("argmax", axes)))
        others = self.raw("select", leads, self.const(0), self.exp(self._below(z, m, None if mask else _NONPOSITIVE)))
        rest = self.raw("reduce", others, *mask, attrs=("sum", axes))
        return m, self.raw("select", nothing, self.const(-1), rest, interval=Interval(-1.0, inf, high_open=True))

    def _below(self, z: int, m: int, interval: Interval | None) -> int:
        """z - m; what rounding drops of it is kept in `dropped`, if that is asked for."""
        below = self.raw("sub", z, m, interval=interval, name="gap")
        if self.precise:
            self.dropped[below] = self.raw("sub_error", z, m)
        return below

    def exp(self, below: int) -> int:
        """e^(z - m), with what rounding has dropped of z - m."""
        e = self.raw("exp", below, name="e")
        low = self.dropped.get(below)
        return e if low is None else self.raw("add", e, self.raw("mul", e, low))

    def _parts(self, z: int, args: Sequence[int], axes: tuple[str, ...], pairs: dict[str, int]) -> tuple[int, int]:
        """(z - m, max(rest, 0)): over nothing, m is 0 and the second 0, so that neither is NaN."""
        m, rest = self.statistics(args, axes)
        outer = {a: i for a, i in pairs.items() if a not in axes}
        m, rest = self.pick(m, outer), self.pick(rest, outer)
        below = _NONPOSITIVE if len(args) == 1 else None
        return self._below(z, m, below), self.raw("maximum", rest, self.const(0), name="others")

    def log_probability(self, node: Node, args: tuple[int, ...], pairs: dict[str, int] | None = None) -> int:
        z = self.pick(args[0], pairs or {})
        below, rest = self._parts(z, args, _axes(node.attrs[0]), pairs or {})
        log = self.raw("log1p", rest, name="log_total")
        logp = self.raw("sub", below, log, interval=node.type.interval, name="logp")
        if below in self.dropped:
            logp = self.raw("add", logp, self.dropped[below], interval=node.type.interval)
        if node.op == "log_softmax" and len(args) == 2:
            mask = self.pick(args[1], pairs or {})
            return self.raw("select", mask, logp, self.builder.raw("const", (), (-inf,)))
        return logp if len(args) == 1 else self._over_nothing(logp, z, args, _axes(node.attrs[0]), pairs or {})

    def _over_nothing(
        self, logp: int, z: int, args: tuple[int, ...], axes: tuple[str, ...], pairs: dict[str, int]
    ) -> int:
        """An entry outside a mask that holds nowhere: z less -inf is inf."""
        rest = self.pick(self.statistics(args, axes)[1], {a: i for a, i in pairs.items() if a not in axes})
        nothing = self.raw("le", rest, self.const(-1))
        there = self.raw("lt", self.number(-inf), z)
        return self.raw("select", self.raw("and", nothing, there), self.number(inf), logp)

    def probability(self, args: tuple[int, ...], axes: tuple[str, ...], pairs: dict[str, int] | None = None) -> int:
        z = self.pick(args[0], pairs or {})
        below, rest = self._parts(z, args, axes, pairs or {})
        p = self.share(below, rest, UNIT if len(args) == 1 else None)
        return p if len(args) == 1 else self.raw("select", self.pick(args[1], pairs or {}), p, self.const(0))

    def exponential(self, node: Node, x: int) -> int:
        """exp(logp) as exp(z - m) / (1 + rest), whose error does not grow with the logarithm."""
        source = self.graph.nodes[node.args[0]]
        if self.precise and source.op == "mul" and (found := self._scaled_power(source)) is not None:
            return found
        pairs: dict[str, int] = {}
        if source.op == "pick":
            pairs = self._pairs(source, [self.ids[a] for a in source.args])
            source = self.graph.nodes[source.args[0]]
        if source.op != "logp":
            return self.raw("exp", x)
        below, rest = self._read_parts(source, pairs)
        return self.share(below, rest, UNIT if len(source.args) == 1 else None)

    def less_than_all(self, logp: Node) -> int:
        """p - 1 as -((1 - e) + rest) / (1 + rest), e = exp(z - m): two terms of one sign, and no exponential more."""
        below, rest = self._read_parts(logp, {})
        less = self.raw("add", self.raw("sub", self.const(1), self.exp(below)), rest)
        share = self.raw("div", less, self.raw("add", self.const(1), rest, name="total"))
        return self.raw("neg", share, interval=Interval(-1.0, 0.0) if len(logp.args) == 1 else None)

    def _read_parts(self, logp: Node, pairs: dict[str, int]) -> tuple[int, int]:
        """(z - m, rest) of a log-softmax that is read at indices."""
        args = tuple(self.ids[a] for a in logp.args)
        return self._parts(self.pick(args[0], pairs), args, _axes(logp.attrs[0]), pairs)

    def _scaled_power(self, product: Node) -> int | None:
        """exp(c·logp), a power of a probability, as e^(c·(z - m)) / (1 + rest)^c, c·(z - m) not rounded at its size.

        c is c' + c'' with c' of eleven bits behind the point, z - m is b' + b'' with b' whole: c'·b' is exact, and
        c'·b'' + c''·(z - m) is small.
        """
        for own, other in (product.args, product.args[::-1]):
            source, pairs = self.graph.nodes[other], dict[str, int]()
            if source.op == "pick":
                pairs = self._pairs(source, [self.ids[a] for a in source.args])
                source = self.graph.nodes[source.args[0]]
            if source.op == "logp" and self._scalar(own) and self.graph.nodes[own].type.interval.low >= 0:
                break
        else:
            return None
        c, (below, rest) = self.ids[own], self._read_parts(source, pairs)
        bits = self.number(Fraction(2**11))
        coarse = self.raw("div", self.raw("round", self.raw("mul", c, bits)), bits)
        finite = self.raw("maximum", below, self.number(Fraction(-(2**30))), interval=Interval(-(2.0**30), 0.0))
        whole = self.raw("round", finite)
        exact = self.raw("mul", coarse, whole)
        small = self.raw(
            "add",
            self.product(coarse, self.raw("sub", below, whole)),
            self.raw("mul", self.raw("sub", c, coarse), finite),
        )
        if below in self.dropped:
            small = self.raw("add", small, self.raw("mul", c, self.dropped[below]))
        e = self.raw("mul", self.raw("exp", exact), self.raw("exp", small))
        total = self.raw("pow", self.raw("add", self.const(1), rest, name="total"), c)
        return self.raw("div", e, total, interval=UNIT if len(source.args) == 1 else None)

    def share(self, below: int, rest: int, interval: Interval | None) -> int:
        """exp(z - m) / (1 + rest)."""
        return self.raw(
            "div", self.exp(below), self.raw("add", self.const(1), rest, name="total"), interval=interval, name="p"
        )

    def of_two_softmaxes(self, node: Node) -> int | None:
        """log p - log q, p - q or an entry of their divergence, if p and q are softmaxes over the same axes, or one of
        them is a mixture of such with the other.
        """
        two = self._two(node.args[0], node.args[1])
        if two is None:
            return None
        if node.op == "sub":
            return two.ratio
        return two.less if node.op == "expsub" else ratios.divergence(self, two.p, two.ratio, two.less)

    def _two(self, a: int, b: int) -> ratios.Two | None:
        """Two log-probabilities compared."""
        p, q = self._softmax_entry(a), self._softmax_entry(b)
        if p is not None and q is not None:
            if p[1:] != q[1:] or a == b:
                return None
            if self._source(a) > self._source(b):  # the same either way round: what both ways need is computed once
                return self._turned(b, a)
            ratio = ratios.gap(self, p[0], q[0], p[1], p[3])
            less = ratios.expsub(self, p[0].probability, q[0].probability, ratio)
            return ratios.Two(p[0].probability, q[0].probability, ratio, less)
        found = self._mixture(b, a)
        if found is None:
            return None if self._mixture(a, b) is None else self._turned(b, a)
        weight, other = found
        two = self._two(a, other)
        if two is None:
            return None
        ratio = ratios.from_mixture(self, weight, two.ratio)
        mixed = self.raw(
            "add", self.raw("mul", weight.rest, two.p), self.raw("mul", weight.share, two.q), interval=UNIT
        )
        return ratios.Two(two.p, mixed, ratio, self.raw("mul", weight.share, two.less))

    def _source(self, n: int) -> tuple[int, int]:
        """What orders log-probabilities: their softmaxes, wherever they are read."""
        node = self.graph.nodes[n]
        return (node.args[0] if node.op == "pick" else n), n

    def _turned(self, a: int, b: int) -> ratios.Two | None:
        """`_two` of b and a."""
        two = self._two(a, b)
        return two and ratios.Two(two.q, two.p, self.raw("neg", two.ratio), self.raw("neg", two.less))

    def _mixture(self, mixed: int, part: int) -> tuple[ratios.Weight, int] | None:
        """(weight of the other, the other) if `mixed` is the log of a mixture of e^part and another distribution."""
        node = self.graph.nodes[mixed]
        if node.op != "logaddexp":
            return None
        for own, other in (node.args, node.args[::-1]):
            x, y = self.graph.nodes[own], self.graph.nodes[other]
            if x.op == y.op == "add" and x.args[1] == part:
                log_own, log_other = x.args[0], y.args[0]
                weight = convex_weight(self.graph, log_own, log_other)
                if weight is None:
                    weight = convex_weight(self.graph, log_other, log_own)
                    if weight is None:
                        continue
                    share, rest = self.raw("sub", self.const(1), self.ids[weight]), self.ids[weight]
                else:  # log(1 - t) and log(t)
                    share, rest = self.ids[weight], self.raw("sub", self.const(1), self.ids[weight])
                return ratios.Weight(share, self.ids[log_other], rest), y.args[1]
        return None

    def _softmax_entry(self, n: int) -> Softmax | None:
        """The softmax of which n is a log-probability, its axes, where it is read, and how its logits are scaled."""
        node, pairs = self.graph.nodes[n], dict[str, int]()
        if node.op == "pick":
            pairs = self._pairs(node, [self.ids[a] for a in node.args])
            node = self.graph.nodes[node.args[0]]
        if node.op != "logp" or len(node.args) != 1 or not set(pairs) <= set(_axes(node.attrs[0])):
            return None
        axes, z = _axes(node.attrs[0]), self.ids[node.args[0]]
        scale, x = self._unscaled(node.args[0])
        if scale is None:
            top = self.statistics((z,), axes)[0]
        else:
            top = self.raw("reduce", x, attrs=("max", axes))
            top = self.raw("select", self.raw("eq", top, self.number(-inf)), self.const(0), top)
        entries = []
        for place in ({}, pairs):
            below, rest = self._parts(self.pick(z, place), (z,), axes, place)
            entries.append(ratios.Entry(self.pick(x, place), top, below, self.raw("exp", below)))
        side = ratios.Side(entries[0], entries[1], rest, self.probability((z,), axes, pairs))
        return side, axes, tuple(sorted(pairs.items())), scale

    def _unscaled(self, n: int) -> tuple[tuple[str, int] | None, int]:
        """(("div", t), x) for logits x/t, ("mul", s) for s·x, with a positive scale: its order is that of x."""
        node = self.graph.nodes[n]
        if node.op == "div" and self.graph.nodes[node.args[1]].type.interval.low >= 0 and self._scalar(node.args[1]):
            return ("div", self.ids[node.args[1]]), self.ids[node.args[0]]
        if node.op == "mul" and self.graph.nodes[node.args[0]].type.interval.low >= 0 and self._scalar(node.args[0]):
            return ("mul", self.ids[node.args[0]]), self.ids[node.args[1]]
        return None, self.ids[n]

    def _scalar(self, n: int) -> bool:
        return not self.graph.nodes[n].type.axes

    def number(self, value: Fraction | float) -> int:
        return self.builder.raw("const", (), (value,))

    # --- reading at an index ----------------------------------------------------------------------------------------

    def _pairs(self, node: Node, args: Sequence[int]) -> dict[str, int]:
        return dict(zip(_axes(node.attrs[0]), args[1:], strict=True))

    def picked(self, node: Node, args: tuple[int, ...]) -> int:
        source = self.graph.nodes[node.args[0]]
        pairs = self._pairs(node, args)
        inner = tuple(self.ids[a] for a in source.args)
        if source.op in ("logp", "log_softmax"):
            return self.log_probability(source, inner, pairs)
        if source.op == "softmax":
            return self.probability(inner, _axes(source.attrs[0]), pairs)
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
            inner = {a: self.pick(i, live) for a, i in self._pairs(node, node.args).items()}
            source = self.type(node.args[0]).axes
            through = {a: i for a, i in live.items() if a in source and a not in inner}
            return self.pick(node.args[0], {**through, **inner})
        axes = tuple(a for a in self.builder.axes if a in live)
        return self.raw("pick", e, *(live[a] for a in axes), attrs=(axes,))

    def _is_index(self, n: int, axis: str) -> bool:
        node = self.builder.nodes[n]
        return node.op == "index" and node.attrs == (axis,)

    # --- matrix products --------------------------------------------------------------------------------------------

    def contraction(self, args: tuple[int, ...], axes: tuple[str, ...]) -> int | None:
        """Σ a·b as `contract`, if either factor has an axis that the other lacks: no product of all axes is formed."""
        factors = self._factors(args[0]) if len(args) == 1 else []
        if len(factors) < 2 or any(self.type(f).kind != "real" for f in factors):
            return None
        widest = max(factors, key=lambda f: (len(self.type(f).axes), -f))
        left = [f for f in factors if self.type(f).axes <= self.type(widest).axes]
        right = [f for f in factors if f not in left]
        over = set(axes)
        if not right:
            return None
        a, b = self._multiplied(left), self._multiplied(right)
        x, y = self.type(a).axes, self.type(b).axes
        if not (x - y and y - x and over <= x and over <= y and x - y - over and y - x - over):
            return None
        return self.builder.raw("contract", (a, b), (axes,), Type((x | y) - over, "real"))

    def _factors(self, n: int) -> list[int]:
        found = [n]
        while len(found) < _FACTORS:
            at = next((i for i, f in enumerate(found) if self.builder.nodes[f].op in ("mul", "mulz")), None)
            if at is None:
                break
            found[at : at + 1] = self.builder.nodes[found[at]].args
        return found

    def _multiplied(self, factors: Sequence[int]) -> int:
        total = factors[0]
        for f in factors[1:]:
            total = self.product(total, f)
        return total


Softmax = tuple[ratios.Side, tuple[str, ...], tuple[tuple[str, int], ...], tuple[str, int] | None]


_COMMUTATIVE = frozenset({"add", "mul", "mulz", "maximum", "minimum", "eq", "ne", "and", "or"})


def signs(table: _Table, op: str, args: Sequence[int]) -> int | None:
    """The same value with its sign outside, where that makes it one that is there already: b - a is -(a - b).

    Exact, signs of zeros apart. What two halves of a symmetric loss compute is then computed once.
    """
    known = table.builder._ids
    turned = known.get((op, (args[1], args[0]), (), False)) if len(args) == 2 else None
    if turned is not None and op in _COMMUTATIVE:
        return turned
    if turned is not None and op in ("sub", "sub_error"):
        return table.raw("neg", turned)
    inner = [_negated(table, a) for a in args]
    match op, inner:
        case (("neg" | "abs"), [int() as x]):
            return x if op == "neg" else table.raw("abs", x)
        case (("add" | "sub"), [int() as x, int() as y]):
            return table.raw("neg", table.raw(op, x, y))
        case "clip", [int() as x, None, None] if _opposite(table, args[1], args[2]):
            return table.raw("neg", table.raw("clip", x, args[1], args[2]))
        case "select", [_, None, int() as x] if _is_zero(table, args[1]):
            return table.raw("neg", table.raw("select", args[0], args[1], x))
        case "select", [_, int() as x, None] if _is_zero(table, args[2]):
            return table.raw("neg", table.raw("select", args[0], x, args[2]))
        case "lt", [int() as x, None] if _is_zero(table, args[1]):
            return table.raw("lt", args[1], x)
        case "lt", [None, int() as x] if _is_zero(table, args[0]):
            return table.raw("lt", x, args[0])
    return None


def _opposite(table: _Table, a: int, b: int) -> bool:
    """Whether two constants differ in nothing but their sign."""
    x, y = (table.builder.nodes[n] for n in (a, b))
    values = [n.attrs[0] for n in (x, y) if n.op == "const"]
    rationals = [v for v in values if isinstance(v, Fraction)]
    return len(rationals) == 2 and rationals[0] == -rationals[1]


def _negated(table: _Table, n: int) -> int | None:
    node = table.builder.nodes[n]
    return node.args[0] if node.op == "neg" else None


def _is_zero(table: _Table, n: int) -> bool:
    node = table.builder.nodes[n]
    return node.op == "const" and not isinstance(node.attrs[0], bool) and node.attrs[0] == 0


def _finite_seed(leaf: Leaf) -> Leaf:
    """An infinite cotangent may make NaN; a zero one must not."""
    if leaf.role != "seed":
        return leaf
    return replace(leaf, type=replace(leaf.type, interval=FINITE))


def _axes(attr: Attr) -> tuple[str, ...]:
    if isinstance(attr, tuple):
        return attr
    if isinstance(attr, str):
        return (attr,)
    raise InternalError(f"{attr!r} should name axes")
