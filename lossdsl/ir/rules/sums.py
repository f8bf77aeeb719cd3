"""Sums that need no sweep, and sums split where a one-hot condition singles out an entry.

The rules keep the gradient at the value's reductions: a sum gives out factors that lack its axes, the sum of an axis-
free value is count × value, the sum of a put is its value. Sums are not distributed over terms: that could cancel.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from lossdsl.ir.graph import Attr
from lossdsl.ir.rewrite import Rule
from lossdsl.ir.rules.match import convex_weight, inside, is_const, is_place, may_be_none

if TYPE_CHECKING:
    from lossdsl.ir.builder import Builder


def _axes(attrs: tuple[Attr, ...]) -> tuple[str, ...]:
    assert isinstance(attrs[1], tuple)
    return attrs[1]


def _lacks(b: Builder, n: int, axes: tuple[str, ...]) -> bool:
    return not b.type(n).axes & set(axes)


def _sum(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    if attrs[0] != "sum":
        return None
    e, axes = args[0], _axes(attrs)
    mask = args[1] if len(args) == 2 else None
    if is_const(b, e, 0) or not axes:
        return e
    if mask is not None and _lacks(b, mask, axes):
        return b.node("select", [mask, b.reduce("sum", axes, e), b.const(0)])
    free = tuple(a for a in axes if _lacks(b, e, (a,)) and (mask is None or _lacks(b, mask, (a,))))
    if free:
        rest = b.reduce("sum", tuple(a for a in axes if a not in free), e, mask)
        for axis in free:
            rest = b.node("mul", [b.size(axis), rest])
        return rest
    if mask is not None and _lacks(b, e, axes) and b.value(e) != 1:
        return b.node("mul", [b.reduce("count", axes, b.const(True), mask), e])
    for rule in (_factor, _probabilities, _divergence, _split):
        found = rule(b, e, axes, mask)
        if found is not None:
            return found
    return None


def _factor(b: Builder, e: int, axes: tuple[str, ...], mask: int | None) -> int | None:
    node = b[e]
    if node.op == "neg":
        return b.node("neg", [b.reduce("sum", axes, node.args[0], mask)])
    if node.op == "mul":
        for x, y in (node.args, node.args[::-1]):
            if _lacks(b, x, axes):
                return b.node("mul", [x, b.reduce("sum", axes, y, mask)])
    if node.op == "div" and _lacks(b, node.args[1], axes):
        return b.node("div", [b.reduce("sum", axes, node.args[0], mask), node.args[1]])
    if node.op == "select" and mask is None and _lacks(b, node.args[0], axes) and is_const(b, node.args[2], 0):
        return b.node("select", [node.args[0], b.reduce("sum", axes, node.args[1]), node.args[2]])
    return None


def _probabilities(b: Builder, e: int, axes: tuple[str, ...], mask: int | None) -> int | None:
    """Σ softmax is 1, and without one entry it is 1 less that entry."""
    if b[e].op == "expsub" and all(_is_distribution(b, a, axes, mask) for a in b[e].args):
        return b.const(0)
    less = inside(b, e, "expm1")
    if mask is None and less is not None and _is_logp(b, less, axes):
        size = b.reduce("count", axes, b.const(True))
        return b.node("sub", [_one(b, less, axes), size])
    u = inside(b, e, "exp")
    there = None if u is None else _there(b, u, axes, mask)
    if u is not None and there is not None:
        logp = b[u].args[1] if b[u].op == "select" else u
        some = b.node("lt", [b.const(0), b.reduce("count", axes, b.const(True), there)])
        return b.node("select", [some, _one(b, logp, axes), b.const(0)])
    if u is None or not _is_logp(b, u, axes):
        return None
    if mask is None:
        return _one(b, u, axes)
    y = _picked(b, inside(b, mask, "not"), axes)
    if y is None or may_be_none(b, b[u].args[0]):
        return None
    return b.node("neg", [b.node("expm1", [b.pick(u, {axes[0]: y})])])


def _one(b: Builder, logp: int, axes: tuple[str, ...]) -> int:
    """The sum of a softmax: 1, or 0 where every logit may be the logarithm of 0, and is."""
    z, *masks = b[logp].args
    if not may_be_none(b, z):
        return b.const(1)
    some = b.node("lt", [b.const(-inf), b.node("reduce", [z, *masks], ("max", axes))])
    return b.node("select", [some, b.const(1), b.const(0)])


def _there(b: Builder, u: int, axes: tuple[str, ...], mask: int | None) -> int | None:
    """The mask m of a softmax under m, where the sum of e^u takes in just what is there: it is 1, or 0 of nothing."""
    if mask is not None:
        return mask if _is_logp(b, u, axes, mask) else None
    node = b[u]
    if node.op != "select" or b.value(node.args[2]) != -inf:
        return None
    return node.args[0] if _is_logp(b, node.args[1], axes, node.args[0]) else None


def _is_logp(b: Builder, n: int, axes: tuple[str, ...], mask: int | None = None) -> bool:
    """Whether e^n sums to one along the axes, or where a mask holds somewhere, under it."""
    return b[n].op == "logp" and b[n].attrs[0] == axes and b[n].args[1:] == (() if mask is None else (mask,))


def _is_distribution(b: Builder, n: int, axes: tuple[str, ...], mask: int | None = None) -> bool:
    """Whether e^n sums to one: a softmax, or a mixture of two distributions."""
    if b[n].op != "logaddexp":
        return _is_logp(b, n, axes, mask)
    x, y = (b[a] for a in b[n].args)
    if not x.op == y.op == "add":
        return False
    weights, parts = zip(x.args, y.args, strict=True)
    convex = convex_weight(b, *weights) is not None or convex_weight(b, *weights[::-1]) is not None
    return convex and all(_is_distribution(b, p, axes, mask) for p in parts)


def _divergence(b: Builder, e: int, axes: tuple[str, ...], mask: int | None) -> int | None:
    """Σ p·(log p - log q) as a sum of terms that are never negative: Σ (q - p) = 0 is added."""
    if b[e].op != "mul":
        return None
    for p, gap in (b[e].args, b[e].args[::-1]):
        ratio = b[gap].op == "sub" and inside(b, p, "exp") == b[gap].args[0]
        # `kl` leaves out entries of probability 0, which this form needs not.
        if not ratio or (mask is not None and b[mask].op == "lt" and not _positive(b, mask, p)):
            continue
        kept = None if mask is None or _positive(b, mask, p) else mask
        logs = [b[a].args[1] if kept is not None and _absent_beyond(b, a, kept) else a for a in b[gap].args]
        if all(_is_distribution(b, a, axes, kept) for a in logs):
            return b.reduce("sum", axes, b.node("divergence", logs), kept)
    return None


def _positive(b: Builder, condition: int, p: int) -> bool:
    """Whether the condition is 0 < p."""
    return b[condition].op == "lt" and is_const(b, b[condition].args[0], 0) and b[condition].args[1] == p


def _absent_beyond(b: Builder, n: int, mask: int) -> bool:
    """Whether n is (x where the mask holds, else -inf)."""
    return b[n].op == "select" and b[n].args[0] == mask and b.value(b[n].args[2]) == -inf


def _picked(b: Builder, condition: int | None, axes: tuple[str, ...]) -> int | None:
    """y, if the condition is A == y for the one axis A, with y the same all along A, and surely an index of A."""
    if condition is None or len(axes) != 1 or b[condition].op != "eq":
        return None
    index, y = b[condition].args
    same = b[index].op == "index" and b[index].attrs == axes and _lacks(b, y, axes)
    return y if same and is_place(b, y, axes[0]) else None


def _conditions(b: Builder, e: int, axes: tuple[str, ...]) -> list[int]:
    """Conditions A == y in the pointwise part of e, oldest first."""
    found, seen, stack = set(), set(), [e]
    while stack:
        n = stack.pop()
        if n in seen or _lacks(b, n, axes):
            continue
        seen.add(n)
        if _picked(b, n, axes) is not None:
            found.add(n)
        elif b.is_pointwise(b[n].op) or b[n].op == "detach":
            stack.extend(b[n].args)
    return sorted(found)


def _split(b: Builder, e: int, axes: tuple[str, ...], mask: int | None) -> int | None:
    """Σ e = e at y + Σ of e elsewhere, for an e that treats the entry y otherwise: both parts fold, and neither hides
    digits."""
    for condition in _conditions(b, e, axes):
        y = _picked(b, condition, axes)
        assert y is not None
        there = b.pick(b.rebuild(e, {condition: b.const(True)}), {axes[0]: y})
        if mask is not None:
            there = b.node("select", [b.pick(mask, {axes[0]: y}), there, b.const(0)])
        others = b.node("not", [condition])
        if mask is not None:
            others = b.node("and", [mask, others])
        elsewhere = b.rebuild(e, {condition: b.const(False)})
        return b.node("add", [there, b.reduce("sum", axes, elsewhere, others)])
    return None


def _count(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    if attrs[0] != "count":
        return None
    axes = _axes(attrs)
    if len(args) == 1:
        total = b.const(1)
        for axis in axes:
            total = b.node("mul", [total, b.size(axis)])
        return total
    mask = args[1]
    if _lacks(b, mask, axes):
        return b.node("select", [mask, b.node("reduce", args[:1], attrs), b.const(0)])
    if _picked(b, mask, axes) is not None:
        return b.const(1)
    if _picked(b, inside(b, mask, "not"), axes) is not None:
        return b.node("sub", [b.size(axes[0]), b.const(1)])
    if b.value(args[0]) is not True:
        return b.reduce("count", axes, b.const(True), mask)
    return None


def _constant(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    """A reduction of what is the same all along its axes needs only how often it is there."""
    name, e = attrs[0], args[0]
    axes = _axes(attrs) if isinstance(name, str) else name
    assert isinstance(axes, tuple)
    if name in ("sum", "count", "argmax") or not _lacks(b, e, axes):
        return None
    times = b.node("reduce", (b.const(True), *args[1:]), ("count", axes))
    some = b.node("lt", [b.const(0), times])
    match name:
        case "max" | "min":
            return b.node("select", [some, e, b.const(-inf if name == "max" else inf)])
        case "prod":
            return b.node("pow", [e, times])
        case "logsumexp":
            return b.node("add", [e, b.node("log", [times])])
        case tuple():
            return b.node("neg", [b.node("log", [times])])
    return None


RULES = (
    Rule("sum", ("reduce",), "factors leave, known sums are known, one-hot entries stand apart", _sum),
    Rule(
        "constant", ("reduce", "logp"), "a constant's maximum is itself, its sum of exponentials a multiple", _constant
    ),
    Rule("count", ("reduce",), "counting is a size where the mask is none or one-hot", _count),
)
