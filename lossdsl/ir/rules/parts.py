"""Parts of a softmax: the probability of some of its classes, and its logarithm.

With S the classes and R the rest, log Σ_S p = -softplus(lse_R (z - lse_S z)). Both ends of it are exact, and so is its
gradient, σ(·) times the softmax of R less that of S: nothing in it is 1 - p, or p over another. As log(Σ p) it would be
0 of a part that is nearly all, and divided by nothing where the part is e^-88.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf
from typing import TYPE_CHECKING

from lossdsl.ir.graph import Attr
from lossdsl.ir.rewrite import Rule
from lossdsl.ir.rules.apart import is_an_index
from lossdsl.ir.rules.match import inside, is_const, rational

if TYPE_CHECKING:
    from lossdsl.ir.builder import Builder

_TERMS = 16  # of a sum that is looked into


@dataclass(frozen=True, slots=True)
class Part:
    """The sum of what `logp` gives the classes for which `mask` holds; they are among those that it is over.

    `places` are the classes, if they are named one by one; of those that are left when they are taken out, `others`.
    """

    logp: int
    mask: int
    places: tuple[int, ...] = ()
    others: bool = False


@dataclass(frozen=True, slots=True)
class _Term:
    """One class's probability with its sign; 0 where `same` holds."""

    part: Part
    sign: int
    same: int | None


def log_of(b: Builder, part: Part) -> int:
    """Its logarithm, from the log-sum-exp of the rest's logits less that of its own: no common offset is seen."""
    axes, rest = axes_of(b, part.logp), left_of(b, part)
    own = b.node(
        "logp", [b[part.logp].args[0], part.mask], (axes,)
    )  # for other classes, too: their logits less its sum
    if len(rest.places) == 1 and not rest.others:
        beyond = b.pick(own, {axes[0]: rest.places[0]})
    else:
        beyond = b.reduce("logsumexp", axes, own, rest.mask)
    log = b.node("neg", [b.node("softplus", [beyond])])
    if part.places and not part.others:
        return log
    some = b.node("lt", [b.const(0), b.reduce("count", axes, b.const(True), part.mask)])
    return b.node("select", [some, log, b.const(-inf)])  # log 0 of no class


def axes_of(b: Builder, logp: int) -> tuple[str, ...]:
    axes = b[logp].attrs[0]
    assert isinstance(axes, tuple)
    return axes


def left_of(b: Builder, part: Part) -> Part:
    """The classes of its softmax that it has not."""
    others, over = b.node("not", [part.mask]), b[part.logp].args[1:]
    return Part(part.logp, b.node("and", [*over, others]) if over else others, part.places, not part.others)


def part_of(b: Builder, n: int) -> Part | None:
    """n as a part of a softmax: some of its classes added up, or taken from 1; None of anything else."""
    node = b[n]
    if node.op == "reduce":
        return _summed(b, node.args[0], node.attrs[1], node.args[1:]) if node.attrs[0] == "sum" else None
    if node.op == "sub" and is_const(b, node.args[0], 1):
        less = part_of(b, node.args[1])
        if less is not None:
            return left_of(b, less)
    terms: list[_Term] = []
    whole = _collect(b, n, 1, None, terms)
    if whole is None or not terms or len({t.part.logp for t in terms}) > 1:
        return None
    if whole not in (0, 1) or any(t.sign != (-1 if whole else 1) for t in terms):
        return None
    first, *more = terms
    (axis,) = axes_of(b, first.part.logp)
    for k, one in enumerate(more, 1):
        if not all(_two(b, t, one, axis) for t in terms[:k]):
            return None
    if first.same is not None:
        return None
    mask = first.part.mask
    for t in more:
        mask = b.node("or", [mask, t.part.mask])
    found = Part(first.part.logp, mask, tuple(p for t in terms for p in t.part.places))
    return left_of(b, found) if whole else found


def _collect(b: Builder, n: int, sign: int, same: int | None, into: list[_Term]) -> int | None:
    """n as a whole number, which is given, and single classes' probabilities; None if it is not made of these."""
    node = b[n]
    if len(into) >= _TERMS:
        return None
    match node.op:
        case "const":
            value = rational(b, n)
            return sign * int(value) if value is not None and value.denominator == 1 else None
        case "neg":
            return _collect(b, node.args[0], -sign, same, into)
        case "add" | "sub":
            x = _collect(b, node.args[0], sign, same, into)
            y = None if x is None else _collect(b, node.args[1], sign if node.op == "add" else -sign, same, into)
            return None if x is None or y is None else x + y
        case "select" if same is None and is_const(b, node.args[1], 0):  # added where it is another class alone
            return _collect(b, node.args[2], sign, node.args[0], into)
        case "exp" | "expm1":
            part = entry(b, node.args[0])
            if part is None or (node.op == "expm1" and same is not None):
                return None
            into.append(_Term(part, sign, same))
            return 0 if node.op == "exp" else -sign
    return None


def entry(b: Builder, u: int) -> Part | None:
    """e^u of one class of a softmax."""
    node = b[u]
    if node.op != "pick" or len(node.args) != 2:
        return None
    source, y = node.args
    logp = b[source]
    if logp.op != "logp" or logp.attrs[0] != node.attrs[0]:
        return None
    (axis,) = axes_of(b, source)
    return Part(source, b.node("eq", [b.index(axis), y]), (y,)) if axis not in b.type(y).axes else None


def _summed(b: Builder, e: int, axes: Attr, masks: tuple[int, ...]) -> Part | None:
    """Σ p under a mask, be it that p is chosen or 0."""
    node = b[e]
    if node.op == "select" and is_const(b, node.args[2], 0):
        e, masks = node.args[1], (*masks, node.args[0])
    elif node.op == "select" and is_const(b, node.args[1], 0):
        e, masks = node.args[2], (*masks, b.node("not", [node.args[0]]))
    u = inside(b, e, "exp")
    if u is not None and b[u].op == "select" and b.value(b[u].args[2]) == -inf:  # as a softmax under a mask is said
        u, masks = b[u].args[1], (*masks, *(c for c in b[u].args[:1] if c not in masks))
    if u is None or b[u].op != "logp" or b[u].attrs[0] != axes or not masks:
        return None
    mask = masks[0] if len(masks) == 1 else b.node("and", list(masks))
    over = set(b[u].args[1:])
    return Part(u, mask) if mask not in over and over <= _conjuncts(b, mask) else None


def _conjuncts(b: Builder, mask: int) -> set[int]:
    found, stack = set(), [mask]
    while stack:
        n = stack.pop()
        found.add(n)
        if b[n].op == "and":
            stack += b[n].args
    return found


def _two(b: Builder, one: _Term, other: _Term, axis: str) -> bool:
    """Whether they surely are two classes: by their numbers, or since one is nothing where they are the same."""
    (j,), (k,) = one.part.places, other.part.places
    x, y = (_number(b, n, axis) for n in (j, k))
    if x is not None and y is not None:
        return x != y
    apart = b.node("eq", [j, k]) in (one.same, other.same)
    return apart and is_an_index(b, j, axis) and is_an_index(b, k, axis)


def _number(b: Builder, n: int, axis: str) -> Fraction | None:
    """The class that is named by its number. Where that may be more than there are, rows without it are left out."""
    node = b[n]
    if node.op == "select" and is_const(b, node.args[2], 0):
        n = node.args[1]
        if node.args[0] != b.node("lt", [n, b.size(axis)]):
            return None
    return rational(b, n)


def _log(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    part = part_of(b, args[0])
    return None if part is None or len(part.places) == 1 else log_of(b, part)


def _log1p(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    less = inside(b, args[0], "neg")
    part = None if less is None else part_of(b, less)
    return None if part is None or len(part.places) == 1 else log_of(b, left_of(b, part))


RULES = (
    Rule(
        "log of a part", ("log",), "log Σ_S p = -softplus(lse_R (z - lse_S z)), exact of nearly all and of e^-88", _log
    ),
    Rule("log of what a part leaves", ("log1p",), "1 - Σ_S p = Σ_R p, and its logarithm as that of a part", _log1p),
)
