"""log p - log q of two distributions, and what is made of it, without losing the digits that p and q share.

A student near its teacher differs from it in the last digits of each log-probability. For softmaxes of x/T and y/T
the log-ratio is d_j - log(Σ e^a / Σ e^b) with a = (x - max x)/T, b likewise, and d = a - b. Both parts are made of
exact things: d from the logits themselves, with what rounding drops of the two subtractions added again, and the
ratio of sums as 1 + Σ (e^a - e^b) / Σ e^b, whose terms come from d. Where the sums are far apart their logarithms are
subtracted.

The mixture m = (1 - t) p + t q has log p - log m = -log(1 - t + t·e^u), u = log q - log p.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf
from typing import Protocol

from lossdsl.ir.graph import Attr

ZERO, HALF, ONE, MOST = Fraction(0), Fraction(1, 2), Fraction(1), Fraction(64)


class Table(Protocol):
    """What `plan/expand.py` offers: raw nodes and guarded products."""

    def raw(self, op: str, *args: int, attrs: tuple[Attr, ...] = ()) -> int: ...
    def number(self, value: Fraction | float) -> int: ...
    def product(self, a: int, b: int) -> int: ...


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a softmax: its logit x and the largest one, unscaled; z - m, scaled; and e^(z - m)."""

    x: int
    top: int
    below: int
    exponential: int


@dataclass(frozen=True, slots=True)
class Side:
    """One softmax: an entry along the axes and the one that is read, Σ e^(z - m) - 1, and the probability read."""

    along: Entry
    here: Entry
    rest: int
    probability: int


@dataclass(frozen=True, slots=True)
class Two:
    """Two distributions where they are read: p, q, log p - log q and p - q."""

    p: int
    q: int
    ratio: int
    less: int


def _apart(t: Table, p: Entry, q: Entry, scale: tuple[str, int] | None) -> int:
    """a - b for z - m of both: rounded once, whatever their common size; 0 where both are -inf."""
    coarse = t.raw("sub", t.raw("sub", p.x, p.top), t.raw("sub", q.x, q.top))
    fine = t.raw("sub", t.raw("sub_error", p.x, p.top), t.raw("sub_error", q.x, q.top))
    d = t.raw("add", coarse, fine)
    if scale is not None:
        d = t.raw(scale[0], d, scale[1])
    nothing = t.raw("eq", t.raw("maximum", p.below, q.below), t.number(-inf))
    return t.raw("select", nothing, t.number(ZERO), d)


def _less(t: Table, larger: int, smaller: int, d: int) -> int:
    """v - w of two positive numbers whose log-ratio is d: the larger one times 1 - e^-|d|."""
    negative = t.raw("lt", d, t.number(ZERO))
    size = t.raw("neg", t.raw("expm1", t.raw("neg", t.raw("abs", d))))
    part = t.raw("mul", t.raw("select", negative, smaller, larger), size)
    return t.raw("select", negative, t.raw("neg", part), part)


def gap(t: Table, p: Side, q: Side, axes: tuple[str, ...], scale: tuple[str, int] | None) -> int:
    """log p - log q where both are read."""
    d = _apart(t, p.along, q.along, scale)
    moved = t.raw("reduce", _less(t, p.along.exponential, q.along.exponential, d), attrs=("sum", axes))
    x = t.raw("div", moved, t.raw("add", t.number(ONE), q.rest))
    near = t.raw("log1p", t.raw("clip", x, t.number(-HALF), t.number(HALF)))
    far = t.raw("sub", t.raw("log1p", p.rest), t.raw("log1p", q.rest))
    shift = t.raw("select", t.raw("lt", t.raw("abs", x), t.number(HALF)), near, far)
    here = d if p.here == p.along and q.here == q.along else _apart(t, p.here, q.here, scale)
    return t.raw("sub", here, shift)


def expsub(t: Table, p: int, q: int, d: int) -> int:
    """p - q from the two and their log-ratio d."""
    return _less(t, p, q, d)


def divergence(t: Table, p: int, d: int, less: int) -> int:
    """p·log(p/q) - p + q >= 0 from their log-ratio d and less = p - q, by the series of e^u - 1 - u, u = -d, where
    |d| < 1/2."""
    u = t.raw("neg", t.raw("clip", d, t.number(-HALF), t.number(HALF)))
    near = t.raw("mul", p, t.raw("expm1mx", u))
    far = t.raw("sub", t.product(p, d), less)
    return t.raw("select", t.raw("lt", t.raw("abs", d), t.number(HALF)), near, far)


@dataclass(frozen=True, slots=True)
class Weight:
    """The share of a distribution in a mixture, its logarithm, and the share of the other."""

    share: int
    log: int
    rest: int


def from_mixture(t: Table, weight: Weight, d: int) -> int:
    """log p - log((1 - w) p + w q) with w the weight of q and d = log p - log q.

    With u = -d it is -log(1 + w (e^u - 1)), by e^-|u| - 1 and e^min(|u|, 64) - 1, which the same for the other part of
    the mixture shares. Where u > 64 the logarithm is u + log w + log1p((1 - w)/w e^-u), whose last term is nothing but
    for a weight below 1e-20.
    """
    size = t.raw("abs", d)
    down = t.raw("expm1", t.raw("neg", size))
    up = t.raw("expm1", t.raw("minimum", size, t.number(MOST)))
    less = t.raw("lt", t.number(ZERO), d)  # u < 0
    near = t.raw("mul", weight.share, t.raw("select", less, down, up))
    odds = t.raw("div", weight.rest, weight.share)
    small = t.raw("mul", odds, t.raw("div", t.number(ONE), t.raw("add", t.number(ONE), up)))
    far = t.raw("lt", d, t.number(-MOST))
    whole = t.raw("select", far, t.raw("sub", d, weight.log), t.number(ZERO))
    return t.raw("sub", whole, t.raw("log1p", t.raw("select", far, small, near)))
