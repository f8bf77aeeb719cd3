"""The softmax family as one node: logp[A](z; m) = z - logsumexp[A](z; m).

Whatever way a file says it, -log(softmax(z)[y]), logsumexp(z) - z[y] and -log_softmax(z)[y] become -pick(logp(z), y),
which is computed as (z[y] - max) - log1p(rest): no common offset and no confident row loses digits in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import inf
from typing import TYPE_CHECKING

from lossdsl.ir.graph import Attr
from lossdsl.ir.rewrite import Rule
from lossdsl.ir.rules.match import may_be_none, rational

if TYPE_CHECKING:
    from lossdsl.ir.builder import Builder

_SUMS = 2  # log-sum-exps of a sum whose logit is looked for
_TERMS = 12  # of a sum that is searched for a log-sum-exp and its logit


def _log_softmax(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    axes = attrs[0] if isinstance(attrs[0], tuple) else (str(attrs[0]),)
    logp = b.node("logp", args, (axes,))
    return logp if len(args) == 1 else b.node("select", [args[1], logp, b.const(-inf)])


def _softmax(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    return b.node("exp", [b.node("log_softmax", args, attrs)])


Terms = list[tuple[int, Fraction]]


def _terms(b: Builder, n: int, scale: Fraction, whole: Mapping[int, int], into: Terms) -> None:
    """n · scale as a sum of nodes times rationals, in their order; nodes of `whole` are not taken apart."""
    stack = [(n, scale)]
    while stack:
        n, scale = stack.pop()
        node = b[n]
        if len(into) + len(stack) > _TERMS:  # too many to look for a pair among
            into.extend([(n, scale), *stack])
            return
        if n in whole:
            into.append((n, scale))
        elif node.op in ("add", "sub"):
            stack += [(node.args[1], scale if node.op == "add" else -scale), (node.args[0], scale)]
        elif node.op == "neg":
            stack.append((node.args[0], -scale))
        elif node.op == "mul" and (c := rational(b, node.args[0])) is not None:
            stack.append((node.args[1], scale * c))
        elif node.op == "div" and (c := rational(b, node.args[1])):
            stack.append((node.args[0], scale / c))
        else:
            into.append((n, scale))


def _entries(b: Builder, lse: int) -> dict[int, int]:
    """From what lse may be subtracted, its operand whole or where it was picked, and the entry of logp that this is."""
    node = b[lse]
    z, axes = node.args[0], node.attrs[1]
    logp = b.node("logp", node.args, (axes,))
    found = {z: logp}
    if isinstance(axes, tuple) and len(axes) == 1:
        for y in tuple(b.picked.get(axes[0], ())):
            place = {axes[0]: y}
            found.setdefault(b.pick(z, place), b.pick(logp, place))
    return found


def _pair(op: str) -> Rule:
    def apply(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
        def flat(whole: Mapping[int, int]) -> Terms:
            terms: Terms = []
            _terms(b, args[0], Fraction(1), whole, terms)
            _terms(b, args[1], Fraction(1 if op == "add" else -1), whole, terms)
            return terms

        sums = [n for n, _ in flat({}) if b[n].op == "reduce" and b[n].attrs[0] == "logsumexp"]
        for lse in sums[:_SUMS]:
            entries = _entries(b, lse)
            terms = flat(entries)
            k = sum((c for n, c in terms if n == lse), Fraction(0))
            for j, (x, h) in enumerate(terms):
                if x in entries and k * h < 0 and len(terms) <= _TERMS:
                    amount = min(abs(k), abs(h)) * (1 if h > 0 else -1)
                    rest = [t for i, t in enumerate(terms) if i != j and t[0] != lse]
                    return _add_up(b, [(entries[x], amount), (lse, k + amount), (x, h - amount), *rest])
        return None

    reason = "z[y] - lse(z) by way of z[y] - max, whatever stands between"
    return Rule(f"logit less log-sum-exp ({op})", (op,), reason, apply)


def _add_up(b: Builder, terms: Terms) -> int:
    total: int | None = None
    for n, k in terms:
        if k == 0:
            continue
        if total is None:
            total = b.node("mul", [b.const(k), n])
        elif k > 0:
            total = b.node("add", [total, b.node("mul", [b.const(k), n])])
        else:
            total = b.node("sub", [total, b.node("mul", [b.const(-k), n])])
    return b.const(0) if total is None else total


def _log_odds(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    """log p_j - log p_k = z_j - z_k, for one entry or all against one of the same softmax."""
    logits = two_logits(b, *args)
    return None if logits is None else b.node("sub", list(logits))


def two_logits(b: Builder, *args: int) -> tuple[int, int] | None:
    """The logits of two log-probabilities of one softmax, of which one at least is an entry."""
    x, y = (_picked_whole(b, n) for n in args)
    if x is None or y is None or x[0] != y[0] or x[1] == y[1] is None:
        return None
    z = b[x[0]].args[0]
    first, second = (z if place is None else b.pick(z, place) for _, place in (x, y))
    return first, second


def _picked_whole(b: Builder, n: int) -> tuple[int, dict[str, int] | None] | None:
    """The log-softmax over one axis that n is, or an entry of; where that is."""
    node = b[n]
    if node.op == "pick" and len(node.args) == 2 and isinstance(node.attrs[0], tuple):
        inner, (axis,) = node.args[0], node.attrs[0]
        if b[inner].op == "logp" and b[inner].attrs[0] == (axis,) and len(b[inner].args) == 1:
            return inner, {axis: node.args[1]}
        return None
    alone = node.op == "logp" and len(node.args) == 1 and isinstance(node.attrs[0], tuple) and len(node.attrs[0]) == 1
    return (n, None) if alone else None


def _lse_of_logp(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    """log Σ softmax = 0."""
    if attrs[0] == "logsumexp" and b[args[0]].op == "logp" and b[args[0]].attrs[0] == attrs[1]:
        same = b[args[0]].args[1:] == args[1:] == ()
        return b.const(0) if same and not may_be_none(b, b[args[0]].args[0]) else None
    return None


def _logp_of_shifted(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    """logp does not see what is added along all of its axes: logp(z + c) = logp(z)."""
    node = b[args[0]]
    axes = attrs[0]
    if not isinstance(axes, tuple):
        return None
    if node.op == "logp" and node.attrs[0] == axes and (len(node.args) == 1 or len(args) == 2):
        return b.node("logp", (node.args[0], *args[1:]), attrs)
    if node.op in ("add", "sub"):
        x, y = node.args
        if not b.type(y).axes & set(axes) and b.type(y).interval.finite:
            return b.node("logp", (x, *args[1:]), attrs)
        if node.op == "add" and not b.type(x).axes & set(axes) and b.type(x).interval.finite:
            return b.node("logp", (y, *args[1:]), attrs)
    return None


def _has(b: Builder, z: int, axes: tuple[str, ...]) -> bool:
    return b.type(z).axes >= set(axes)


DEFINITIONS = (
    Rule("log_softmax", ("log_softmax",), "one node for the family", _log_softmax),
    Rule(
        "softmax", ("softmax",), "softmax = exp(log_softmax), so that its logarithm and complement are exact", _softmax
    ),
)
RULES = (
    *DEFINITIONS,
    _pair("sub"),
    _pair("add"),
    Rule("log-odds", ("sub",), "the normaliser is no part of a difference of log-probabilities", _log_odds),
    Rule("lse of logp", ("reduce",), "probabilities sum to one", _lse_of_logp),
    Rule("logp of shifted", ("logp",), "shift invariance", _logp_of_shifted),
)
