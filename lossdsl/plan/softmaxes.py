"""The softmax family in the operations that kernels have: through the two statistics of a log-sum-exp."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import inf
from typing import TYPE_CHECKING

from lossdsl.check.types import Type
from lossdsl.ir.graph import Node
from lossdsl.plan.axes import axes_of
from lossdsl.primitives.interval import UNIT, Interval

if TYPE_CHECKING:
    from lossdsl.plan.expand import Table

_NONPOSITIVE = Interval(-inf, 0.0)


def statistics(t: Table, args: Sequence[int], axes: tuple[str, ...]) -> tuple[int, int]:
    """(m, rest) of a row: m its maximum, rest the sum of exp(z - m) less the maximum's own term; -1 over
    nothing.
    """
    if t.precise and len(axes) == 1:
        return _precise_statistics(t, args, axes)
    kept = frozenset().union(*(t.type(a).axes for a in args)) - set(axes)
    m = t.builder.raw("statistic", args, ("logsumexp", 0, axes), Type(kept, "real"))
    rest = Type(kept, "real", Interval(-1.0, inf, high_open=True))
    return m, t.builder.raw("statistic", args, ("logsumexp", 1, axes), rest)


def _precise_statistics(t: Table, args: Sequence[int], axes: tuple[str, ...]) -> tuple[int, int]:
    """The same with each z - m in two floats: a small sum of exponentials is as exact as a large one."""
    z, *mask = args
    top = t.raw("reduce", *args, attrs=("max", axes))
    nothing = t.raw("eq", top, t.number(-inf))
    m = t.raw("select", nothing, t.const(0), top)
    leads = t.raw("eq", t.builder.index(axes[0]), t.raw("reduce", *args, attrs=("argmax", axes)))
    others = t.raw("select", leads, t.const(0), exponential_of(t, _below(t, z, m, None if mask else _NONPOSITIVE)))
    rest = t.raw("reduce", others, *mask, attrs=("sum", axes))
    return m, t.raw("select", nothing, t.const(-1), rest, interval=Interval(-1.0, inf, high_open=True))


def _below(t: Table, z: int, m: int, interval: Interval | None) -> int:
    """z - m; what rounding drops of it is kept in `dropped`, if that is asked for."""
    below = t.raw("sub", z, m, interval=interval, name="gap")
    if t.precise:
        t.dropped[below] = t.raw("sub_error", z, m)
    return below


def exponential_of(t: Table, below: int) -> int:
    """e^(z - m), with what rounding has dropped of z - m."""
    e = t.raw("exp", below, name="e")
    low = t.dropped.get(below)
    return e if low is None else t.raw("add", e, t.raw("mul", e, low))


def parts(t: Table, z: int, args: Sequence[int], axes: tuple[str, ...], pairs: dict[str, int]) -> tuple[int, int]:
    """(z - m, max(rest, 0)): over nothing, m is 0 and the second 0, so that neither is NaN."""
    m, rest = statistics(t, args, axes)
    outer = {a: i for a, i in pairs.items() if a not in axes}
    m, rest = t.pick(m, outer), t.pick(rest, outer)
    below = _NONPOSITIVE if len(args) == 1 else None
    return _below(t, z, m, below), t.raw("maximum", rest, t.const(0), name="others")


def log_probability(t: Table, node: Node, args: tuple[int, ...], pairs: dict[str, int] | None = None) -> int:
    z = t.pick(args[0], pairs or {})
    below, rest = parts(t, z, args, axes_of(node.attrs[0]), pairs or {})
    log = t.raw("log1p", rest, name="log_total")
    logp = t.raw("sub", below, log, interval=node.type.interval, name="logp")
    if below in t.dropped:
        logp = t.raw("add", logp, t.dropped[below], interval=node.type.interval)
    if node.op == "log_softmax" and len(args) == 2:
        mask = t.pick(args[1], pairs or {})
        return t.raw("select", mask, logp, t.builder.raw("const", (), (-inf,)))
    return logp if len(args) == 1 else _over_nothing(t, logp, z, args, axes_of(node.attrs[0]), pairs or {})


def _over_nothing(
    t: Table, logp: int, z: int, args: tuple[int, ...], axes: tuple[str, ...], pairs: dict[str, int]
) -> int:
    """An entry outside a mask that holds nowhere: z less -inf is inf."""
    rest = t.pick(statistics(t, args, axes)[1], {a: i for a, i in pairs.items() if a not in axes})
    nothing = t.raw("le", rest, t.const(-1))
    there = t.raw("lt", t.number(-inf), z)
    return t.raw("select", t.raw("and", nothing, there), t.number(inf), logp)


def probability(t: Table, args: tuple[int, ...], axes: tuple[str, ...], pairs: dict[str, int] | None = None) -> int:
    z = t.pick(args[0], pairs or {})
    below, rest = parts(t, z, args, axes, pairs or {})
    p = share(t, below, rest, UNIT if len(args) == 1 else None)
    return p if len(args) == 1 else t.raw("select", t.pick(args[1], pairs or {}), p, t.const(0))


def exponential(t: Table, node: Node, x: int) -> int:
    """exp(logp) as exp(z - m) / (1 + rest), whose error does not grow with the logarithm."""
    source = t.graph.nodes[node.args[0]]
    if t.precise and source.op == "mul" and (found := _scaled_power(t, source)) is not None:
        return found
    pairs: dict[str, int] = {}
    if source.op == "pick":
        pairs = t.pairs(source, [t.ids[a] for a in source.args])
        source = t.graph.nodes[source.args[0]]
    if source.op != "logp":
        return t.raw("exp", x)
    below, rest = _read_parts(t, source, pairs)
    return share(t, below, rest, UNIT if len(source.args) == 1 else None)


def less_than_all(t: Table, logp: Node) -> int:
    """p - 1 as -((1 - e) + rest) / (1 + rest), e = exp(z - m): two terms of one sign, and no exponential more."""
    below, rest = _read_parts(t, logp, {})
    less = t.raw("add", t.raw("sub", t.const(1), exponential_of(t, below)), rest)
    share = t.raw("div", less, t.raw("add", t.const(1), rest, name="total"))
    return t.raw("neg", share, interval=Interval(-1.0, 0.0) if len(logp.args) == 1 else None)


def _read_parts(t: Table, logp: Node, pairs: dict[str, int]) -> tuple[int, int]:
    """(z - m, rest) of a log-softmax that is read at indices."""
    args = tuple(t.ids[a] for a in logp.args)
    return parts(t, t.pick(args[0], pairs), args, axes_of(logp.attrs[0]), pairs)


def _scaled_power(t: Table, product: Node) -> int | None:
    """exp(c·logp), a power of a probability, as e^(c·(z - m)) / (1 + rest)^c, c·(z - m) not rounded at its size.

    c is c' + c'' with c' of eleven bits behind the point, z - m is b' + b'' with b' whole: c'·b' is exact, and
    c'·b'' + c''·(z - m) is small.
    """
    for own, other in (product.args, product.args[::-1]):
        source, pairs = t.graph.nodes[other], dict[str, int]()
        if source.op == "pick":
            pairs = t.pairs(source, [t.ids[a] for a in source.args])
            source = t.graph.nodes[source.args[0]]
        if source.op == "logp" and t.scalar(own) and t.graph.nodes[own].type.interval.low >= 0:
            break
    else:
        return None
    c, (below, rest) = t.ids[own], _read_parts(t, source, pairs)
    bits = t.number(Fraction(2**11))
    coarse = t.raw("div", t.raw("round", t.raw("mul", c, bits)), bits)
    finite = t.raw("maximum", below, t.number(Fraction(-(2**30))), interval=Interval(-(2.0**30), 0.0))
    whole = t.raw("round", finite)
    exact = t.raw("mul", coarse, whole)
    small = t.raw(
        "add",
        t.product(coarse, t.raw("sub", below, whole)),
        t.raw("mul", t.raw("sub", c, coarse), finite),
    )
    if below in t.dropped:
        small = t.raw("add", small, t.raw("mul", c, t.dropped[below]))
    e = t.raw("mul", t.raw("exp", exact), t.raw("exp", small))
    total = t.raw("pow", t.raw("add", t.const(1), rest, name="total"), c)
    return t.raw("div", e, total, interval=UNIT if len(source.args) == 1 else None)


def share(t: Table, below: int, rest: int, interval: Interval | None) -> int:
    """exp(z - m) / (1 + rest)."""
    return t.raw(
        "div", exponential_of(t, below), t.raw("add", t.const(1), rest, name="total"), interval=interval, name="p"
    )
