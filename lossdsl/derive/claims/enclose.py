"""Scalars on boxes: an enclosure of each value and of its derivative in each variable, by forward differentiation.

Where a function has a kink, its derivative is enclosed by the slopes of both sides, which the mean value theorem and
monotonicity need; where it may jump, by everything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from math import inf, pi
from typing import Any

import numpy as np

from lossdsl.derive.claims import boxes
from lossdsl.derive.claims.boxes import EVERYTHING, ONE, ZERO, Boxes
from lossdsl.derive.claims.known import known
from lossdsl.derive.claims.scalars import NotWrittenError, Scalars

BEGINS = {"log": 0.0, "log1p": -1.0, "sqrt": 0.0, "xlogx": 0.0}
Slopes = dict[str, Boxes]  # variable -> derivative; missing: 0


@dataclass(frozen=True, slots=True)
class Enclosed:
    """What is known of a scalar on each box."""

    value: Boxes
    slopes: Slopes


def needed(s: Scalars, n: int) -> list[int]:
    """The scalars below n, in order."""
    seen: set[int] = set()
    stack = [n]
    while stack:
        m = stack.pop()
        if m not in seen:
            seen.add(m)
            op, args = s.nodes[m]
            if op not in ("const", "var"):
                stack.extend(args)
    return sorted(seen)


def variables(s: Scalars, n: int) -> set[str]:
    """The names of the variables below n."""
    return {str(s.nodes[m][1][0]) for m in needed(s, n) if s.nodes[m][0] == "var"}


def enclose(s: Scalars, n: int, domain: Mapping[str, Boxes], slopes: bool = True) -> Enclosed:
    """n on boxes of its variables. NotWrittenError for an operation without an enclosure."""
    found: dict[int, Enclosed] = {}
    with np.errstate(all="ignore"):
        for m in needed(s, n):
            op, args = s.nodes[m]
            if op == "const":
                found[m] = Enclosed(_constant(args[0]), {})
            elif op == "var":
                found[m] = Enclosed(domain[args[0]], {args[0]: ONE} if slopes else {})
            else:
                exponent = s.value(args[1]) if op == "pow" else None
                apart = op in ("div", "pow") and 0.0 not in known(s, args[op == "div"])
                found[m] = _operation(op, [found[a] for a in args], exponent, apart)
                if m in s.ranges:
                    found[m] = replace(found[m], value=boxes.within(found[m].value, s.ranges[m].low, s.ranges[m].high))
    return found[n]


def _constant(value: Any) -> Boxes:
    if value == Fraction(pi):  # no other number of a file is this double
        return Boxes(np.asarray(pi), np.asarray(np.nextafter(pi, inf)))
    return boxes.constant(value)


def _scaled(slopes: Slopes, by: Boxes) -> Slopes:
    return {v: boxes.mul(by, d) for v, d in slopes.items()}


def _together(*parts: Slopes) -> Slopes:
    total: Slopes = {}
    for part in parts:
        for v, d in part.items():
            total[v] = boxes.add(total[v], d) if v in total else d
    return total


def _chosen(yes: Slopes, no: Slopes, sure: Any, never: Any, otherwise: Callable[[Boxes, Boxes], Boxes]) -> Slopes:
    """The slopes of the branch that is taken; `otherwise` where that isn't known."""
    total: Slopes = {}
    for v in {**yes, **no}:
        a, c = yes.get(v, ZERO), no.get(v, ZERO)
        open_ = otherwise(a, c)
        low = np.where(sure, a.low, np.where(never, c.low, open_.low))
        total[v] = Boxes(low, np.where(sure, a.high, np.where(never, c.high, open_.high)))
    return total


def _jump(a: Boxes, c: Boxes) -> Boxes:
    return EVERYTHING


def _steps(value: Boxes, inner: Slopes) -> Enclosed:
    """What is constant but for jumps: its slope is 0 where its value is one, else anything."""
    flat = value.low == value.high
    return Enclosed(value, {v: Boxes(np.where(flat, 0.0, -inf), np.where(flat, 0.0, inf)) for v in inner})


def _select(c: Boxes, x: Enclosed, y: Enclosed, otherwise: Callable[[Boxes, Boxes], Boxes]) -> Enclosed:
    sure, never = c.low >= 1, c.high <= 0
    both = boxes.hull(x.value, y.value)
    low = np.where(sure, x.value.low, np.where(never, y.value.low, both.low))
    high = np.where(sure, x.value.high, np.where(never, y.value.high, both.high))
    return Enclosed(Boxes(low, high), _chosen(x.slopes, y.slopes, sure, never, otherwise))


def _larger(x: Enclosed, y: Enclosed) -> Enclosed:
    both = _select(boxes.less(y.value, x.value), x, y, boxes.hull)
    return Enclosed(boxes.maximum(x.value, y.value), both.slopes)


def _beyond(x: Enclosed, low: float) -> Enclosed:
    """x where it is at least `low`, else that: a function that begins there goes on as a constant."""
    return _larger(x, Enclosed(boxes.constant(low), {})) if np.any(x.value.low < low) else x


def _negated(x: Enclosed) -> Enclosed:
    return Enclosed(boxes.neg(x.value), {v: boxes.neg(d) for v, d in x.slopes.items()})


def _smooth(value: Boxes, *parts: tuple[Slopes, Callable[[], Boxes]]) -> Enclosed:
    return Enclosed(value, _together(*(_scaled(slopes, by()) for slopes, by in parts if slopes)))


def _operation(op: str, xs: Sequence[Enclosed], exponent: Any = None, apart: bool = False) -> Enclosed:
    b = boxes
    x = _beyond(xs[0], BEGINS[op]) if op in BEGINS else xs[0]
    u, d = x.value, x.slopes
    y = xs[1] if len(xs) > 1 else x
    w, e = y.value, y.slopes
    match op:
        case "add":
            return Enclosed(b.add(u, w), _together(d, e))
        case "sub":
            return Enclosed(b.sub(u, w), _together(d, _negated(y).slopes))
        case "neg":
            return _negated(x)
        case "mul" | "mulz":
            return _smooth(b.mul(u, w), (d, lambda: w), (e, lambda: u))
        case "div":
            value = b.div(u, w, apart)
            return _smooth(value, (d, lambda: b.reciprocal(w, apart)), (e, lambda: b.neg(b.div(value, w, apart))))
        case "pow":
            return _power(x, y, exponent, apart)
        case "exp":
            value = b.exp(u)
            return _smooth(value, (d, lambda: value))
        case "expm1":
            return _smooth(b.expm1(u), (d, lambda: b.exp(u)))
        case "log":
            return _smooth(b.log(u), (d, lambda: b.reciprocal(u, True)))
        case "log1p":
            return _smooth(b.log1p(u), (d, lambda: b.reciprocal(_positive(b.add(ONE, u)), True)))
        case "xlogx":
            return _smooth(b.xlogx(u), (d, lambda: b.add(b.log(u), ONE)))
        case "sqrt":
            value = b.sqrt(u)
            return _smooth(value, (d, lambda: b.reciprocal(b.add(value, value), True)))
        case "sigmoid":
            value = b.sigmoid(u)
            return _smooth(value, (d, lambda: b.mul(value, b.sigmoid(b.neg(u)))))
        case "softplus":
            return _smooth(b.softplus(u), (d, lambda: b.sigmoid(u)))
        case "tanh":
            value = b.tanh(u)
            return _smooth(value, (d, lambda: b.within(b.sub(ONE, b.power(value, value, Fraction(2))), 0.0, 1.0)))
        case "atan":
            return _smooth(b.atan(u), (d, lambda: b.reciprocal(b.add(ONE, b.power(u, u, Fraction(2))))))
        case "phi":
            return _smooth(b.phi(u), (d, lambda: Boxes(np.zeros_like(b.phi(u).low), b.exp(b.maximum(u, ZERO)).high)))
        case "lse":
            return _log_sum_exp(xs)
        case "logp":
            return _share(xs)
        case "maximum":
            return _larger(x, y)
        case "minimum":
            return _negated(_larger(_negated(x), _negated(y)))
        case "clip":
            low = _larger(x, y)
            return _negated(_larger(_negated(low), _negated(xs[2])))
        case "relu":
            return _larger(x, Enclosed(ZERO, {}))
        case "abs":
            return Enclosed(b.absolute(u), _larger(x, _negated(x)).slopes)
        case "sign":
            value = Boxes(np.sign(u.low), np.sign(u.high))
            return _steps(value, d)
        case "select":  # the condition's variables too: between two constants nothing else tells of the jump
            chosen = _select(u, y, xs[2], _jump)
            return Enclosed(chosen.value, _together(chosen.slopes, _steps(u, d).slopes))
        case "lt" | "gt" | "le" | "ge" | "eq" | "ne" | "and" | "or" | "not":
            return _steps(_truth(op, u, w), {**d, **e})
        case "divergence":  # p·log(p/q) - p + q, of logarithms
            p, q, gap = b.exp(u), b.exp(w), b.sub(u, w)
            value = b.within(b.add(b.sub(b.mul(p, gap), p), q), 0.0, inf)
            return _smooth(value, (d, lambda: b.mul(p, gap)), (e, lambda: b.sub(q, p)))
        case "log1mexp":
            below = _negated(_beyond(_negated(x), 0.0))
            u, d = below.value, below.slopes
            rest = b.neg(b.expm1(u))
            return _smooth(b.log(rest), (d, lambda: b.neg(b.div(b.exp(u), _positive(rest), True))))
        case "expsub":  # e^x - e^y
            p, q = b.exp(u), b.exp(w)
            return _smooth(b.sub(p, q), (d, lambda: p), (e, lambda: b.neg(q)))
    raise NotWrittenError(op)


def _positive(u: Boxes) -> Boxes:
    return Boxes(np.maximum(u.low, 0.0), np.maximum(u.high, 0.0))


def _power(x: Enclosed, y: Enclosed, exponent: Any, apart: bool) -> Enclosed:
    b = boxes
    whole = exponent if isinstance(exponent, Fraction) else None
    value = b.power(x.value, y.value, whole, apart)
    less = None if whole is None else whole - 1

    def in_base() -> Boxes:
        slope = b.mul(y.value, b.power(x.value, b.sub(y.value, ONE), less, apart))
        jumps = (x.value.low < 0) & (x.value.high >= 0) & (y.value.low < 0) & (not apart)  # from -inf to inf
        return Boxes(np.where(jumps, -inf, slope.low), np.where(jumps, inf, slope.high))

    return _smooth(value, (x.slopes, in_base), (y.slopes, lambda: b.mul(value, b.log(_positive(x.value)))))


def _log_sum_exp(xs: Sequence[Enclosed]) -> Enclosed:
    """Grows in each argument; the slope in x_i is 1/Σ_j e^(x_j - x_i)."""
    b = boxes

    def end(values: Sequence[Any]) -> Boxes:
        top = np.maximum.reduce(np.broadcast_arrays(*values))
        base = np.where(np.isfinite(top), top, 0.0)
        total = ZERO
        for v in values:
            total = b.add(total, b.exp(b.sub(Boxes(v, v), Boxes(base, base))))
        found = b.add(Boxes(base, base), b.log(total))
        infinite = np.isinf(top)
        return Boxes(np.where(infinite, top, found.low), np.where(infinite, top, found.high))

    value = Boxes(end([x.value.low for x in xs]).low, end([x.value.high for x in xs]).high)

    def share(i: int) -> Boxes:
        total = ONE
        for j, x in enumerate(xs):
            if j != i:
                total = b.add(total, b.exp(b.sub(x.value, xs[i].value)))
        return b.reciprocal(total)

    return _smooth(value, *((x.slopes, partial(share, i)) for i, x in enumerate(xs)))


def _share(xs: Sequence[Enclosed]) -> Enclosed:
    """x_0 - log Σ e^x_j: grows in x_0 with slope 1 less its share, falls in the others with theirs."""
    b = boxes

    def others(i: int, first: Boxes) -> Boxes:
        total = ZERO
        for j, x in enumerate(xs):
            if j != i:
                total = b.add(total, b.exp(b.sub(x.value, first)))
        return total

    rest = others(0, xs[0].value)
    value = b.within(b.neg(b.log(b.add(ONE, rest))), -inf, 0.0)
    parts = [(xs[0].slopes, lambda: b.within(b.sub(ONE, b.reciprocal(b.add(ONE, rest))), 0.0, 1.0))]
    for i, x in enumerate(xs[1:], 1):
        share = b.reciprocal(b.add(ONE, others(i, x.value)))
        parts.append((x.slopes, partial(b.neg, share)))
    return _smooth(value, *parts)


def _truth(op: str, u: Boxes, w: Boxes) -> Boxes:
    b = boxes
    match op:
        case "lt":
            return b.less(u, w)
        case "gt":
            return b.less(w, u)
        case "le":
            return b.less(u, w, strict=False)
        case "ge":
            return b.less(w, u, strict=False)
        case "and":
            return b.minimum(u, w)
        case "or":
            return b.maximum(u, w)
        case "not":
            return b.sub(ONE, u)
    both = b.minimum(b.less(u, w, strict=False), b.less(w, u, strict=False))
    same = Boxes(((u.low == u.high) & (w.low == w.high) & (u.low == w.low)).astype(float), both.high)
    return same if op == "eq" else b.sub(ONE, same)
