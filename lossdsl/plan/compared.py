"""Two softmaxes that are compared: where `ratios` applies, and to what."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from lossdsl.ir.graph import Node
from lossdsl.ir.rules.match import centre, convex_weight
from lossdsl.plan import ratios, softmaxes
from lossdsl.plan.axes import axes_of
from lossdsl.primitives.interval import UNIT

if TYPE_CHECKING:
    from lossdsl.plan.expand import Table


Softmax = tuple[ratios.Side, tuple[str, ...], tuple[tuple[str, int], ...], tuple[str, int] | None]


def of_two_softmaxes(t: Table, node: Node) -> int | None:
    """log p - log q, p - q or an entry of their divergence, if p and q are softmaxes over the same axes, or one of
    them is a mixture of such with the other.
    """
    two = _two(t, node.args[0], node.args[1])
    if two is None:
        return None
    if node.op == "sub":
        return two.ratio
    return two.less if node.op == "expsub" else ratios.divergence(t, two.p, two.ratio, two.less)


def _two(t: Table, a: int, b: int) -> ratios.Two | None:
    """Two log-probabilities compared."""
    p, q = _softmax_entry(t, a), _softmax_entry(t, b)
    if p is not None and q is not None:
        if p[1:] != q[1:] or a == b:
            return None
        if _source(t, a) > _source(t, b):  # the same either way round: what both ways need is computed once
            return _turned(t, b, a)
        ratio = ratios.gap(t, p[0], q[0], p[1], p[3])
        less = ratios.expsub(t, p[0].probability, q[0].probability, ratio)
        return ratios.Two(p[0].probability, q[0].probability, ratio, less)
    found = _mixture(t, b, a)
    if found is None:
        return None if _mixture(t, a, b) is None else _turned(t, b, a)
    weight, other = found
    two = _two(t, a, other)
    if two is None:
        return None
    ratio = ratios.from_mixture(t, weight, two.ratio)
    mixed = t.raw("add", t.raw("mul", weight.rest, two.p), t.raw("mul", weight.share, two.q), interval=UNIT)
    return ratios.Two(two.p, mixed, ratio, t.raw("mul", weight.share, two.less))


def _source(t: Table, n: int) -> tuple[int, int]:
    """What orders log-probabilities: their softmaxes, wherever they are read."""
    node = t.graph.nodes[n]
    return (node.args[0] if node.op == "pick" else n), n


def _turned(t: Table, a: int, b: int) -> ratios.Two | None:
    """`_two` of b and a."""
    two = _two(t, a, b)
    return two and ratios.Two(two.q, two.p, t.raw("neg", two.ratio), t.raw("neg", two.less))


def _mixture(t: Table, mixed: int, part: int) -> tuple[ratios.Weight, int] | None:
    """(weight of the other, the other) if `mixed` is the log of a mixture of e^part and another distribution."""
    node = t.graph.nodes[mixed]
    if node.op != "logaddexp":
        return None
    for own, other in (node.args, node.args[::-1]):
        x, y = t.graph.nodes[own], t.graph.nodes[other]
        if x.op == y.op == "add" and x.args[1] == part:
            log_own, log_other = x.args[0], y.args[0]
            weight = convex_weight(t.graph, log_own, log_other)
            if weight is None:
                weight = convex_weight(t.graph, log_other, log_own)
                if weight is None:
                    continue
                share, rest = t.raw("sub", t.const(1), t.ids[weight]), t.ids[weight]
            else:  # log(1 - t) and log(t)
                share, rest = t.ids[weight], t.raw("sub", t.const(1), t.ids[weight])
            return ratios.Weight(share, t.ids[log_other], rest), y.args[1]
    return None


def _softmax_entry(t: Table, n: int) -> Softmax | None:
    """The softmax of which n is a log-probability, its axes, where it is read, and how its logits are scaled."""
    node, pairs = t.graph.nodes[n], dict[str, int]()
    if node.op == "pick":
        pairs = t.pairs(node, [t.ids[a] for a in node.args])
        node = t.graph.nodes[node.args[0]]
    if node.op != "logp" or len(node.args) != 1 or not set(pairs) <= set(axes_of(node.attrs[0])):
        return None
    axes, z = axes_of(node.attrs[0]), t.ids[node.args[0]]
    scale, unscaled = _unscaled(t, node.args[0])
    x = t.ids[unscaled]
    if scale is None:
        top = softmaxes.statistics(t, (z,), axes)[0]
    elif (found := centre(t.graph, unscaled, axes)) is not None:  # `tempered` has found the largest
        x, top = (t.ids[n] for n in found)
    else:
        top = t.raw("reduce", x, attrs=("max", axes))
        top = t.raw("select", t.raw("eq", top, t.number(-inf)), t.const(0), top)
    entries = []
    for place in ({}, pairs):
        below, rest = softmaxes.parts(t, t.pick(z, place), (z,), axes, place)
        entries.append(ratios.Entry(t.pick(x, place), top, below, t.raw("exp", below)))
    side = ratios.Side(entries[0], entries[1], rest, softmaxes.probability(t, (z,), axes, pairs))
    return side, axes, tuple(sorted(pairs.items())), scale


def _unscaled(t: Table, n: int) -> tuple[tuple[str, int] | None, int]:
    """(("div", t), x) for logits x/t, ("mul", s) for s·x, with a positive scale: its order is that of x. The scale is
    a node of the table, x one of the graph."""
    node = t.graph.nodes[n]
    if node.op == "div" and t.graph.nodes[node.args[1]].type.interval.low >= 0 and t.scalar(node.args[1]):
        return ("div", t.ids[node.args[1]]), node.args[0]
    if node.op == "mul" and t.graph.nodes[node.args[0]].type.interval.low >= 0 and t.scalar(node.args[0]):
        return ("mul", t.ids[node.args[0]]), node.args[1]
    return None, n
