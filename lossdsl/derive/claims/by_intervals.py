"""Branch and bound: whether a scalar is never negative on a whole box of its variables.

A box is given up to a face where the enclosed slope has one sign (Hansen and Walster, Global Optimization Using
Interval Analysis, 2003), bounded by the mean value form, and halved. What is left after `MOST` boxes or
`STEPS` steps, or at boxes as small as `SMALLEST`, is not decided: that says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import inf
from typing import Any, Literal

import numpy as np

from lossdsl.derive.claims import boxes
from lossdsl.derive.claims.boxes import Boxes
from lossdsl.derive.claims.enclose import enclose, needed, variables
from lossdsl.derive.claims.known import known
from lossdsl.derive.claims.scalars import NotWrittenError, Scalars
from lossdsl.primitives.interval import Interval

Array = np.ndarray[Any, Any]
MOST = 60_000  # boxes looked at
STEPS = 2_000  # of all boxes at once: a step of one box takes as long as one of a hundred
SMALLEST = 1e-7  # width on the line bent into (-1, 1)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the search; `witness` is a point where the scalar is negative; `boxes` were looked at."""

    status: Literal["proved", "refuted", "open"]
    boxes: int = 0
    witness: Mapping[str, float] | None = None


def never_negative(s: Scalars, n: int, domain: Mapping[str, Interval], most: int = MOST) -> Outcome:
    """Whether n >= 0 for all values of its variables in the domain; an open end is treated as if it were closed."""
    n, ends = _presolved(s, n, domain)
    names = sorted(variables(s, n))
    low = np.array([[domain[v].low] for v in names]).reshape(len(names), 1)
    high = np.array([[domain[v].high] for v in names]).reshape(len(names), 1)
    seen = steps = 0
    while low.shape[1]:
        seen, steps = seen + low.shape[1], steps + 1
        if seen > most or steps > STEPS:
            return Outcome("open", seen)
        try:
            low, high, found = _step(s, n, names, low, high)
        except NotWrittenError:
            return Outcome("open", seen)
        if found is not None:
            return Outcome(found.status, seen, {**ends, **(found.witness or {})})
    return Outcome("proved", seen)


def _presolved(s: Scalars, n: int, domain: Mapping[str, Interval]) -> tuple[int, dict[str, float]]:
    """n at the face where it is least, for each variable in which it is monotone everywhere: things cancel there."""
    taken: dict[str, float] = {}
    for _ in range(len(domain)):
        names = sorted(variables(s, n))
        try:
            found = enclose(s, n, {v: Boxes(np.array([domain[v].low]), np.array([domain[v].high])) for v in names})
        except NotWrittenError:
            break
        ends: dict[str, float] = {}
        for v, slope in found.slopes.items():
            low, high = slope.low.min(), slope.high.max()
            end = domain[v].low if low >= 0 else domain[v].high if high <= 0 else inf
            there = None if ends or np.isinf(end) else _approached(s, n, {v: s.const(end)})
            if there is not None:
                ends, n = {v: end}, there
        if not ends:
            break
        taken |= ends
    return n, taken


def _approached(s: Scalars, n: int, values: Mapping[str, int]) -> int | None:
    """What n tends to where variables tend to these ends, which may be excluded: a test that holds on all of the domain
    holds on the way there. None where a scalar goes elsewhere: 1/x is +inf at 0, and below it goes to -inf."""
    made: dict[int, int] = {}
    for m in needed(s, n):
        op, args = s.nodes[m]
        within = known(s, m) if op != "const" else None
        if op == "var":
            made[m] = values.get(args[0], m)
        elif within is None:
            made[m] = m
        elif within.low == within.high and not np.isinf(within.low):
            made[m] = s.const(Fraction(within.low))
        else:
            made[m] = s.node(op, [made[a] for a in args])
        reached = s.value(made[m])
        if within is not None and reached is not None and not within.low <= reached <= within.high:
            return None
    return made[n]


def _step(s: Scalars, n: int, names: list[str], low: Array, high: Array) -> tuple[Array, Array, Outcome | None]:
    """What is left of the boxes, halved; an outcome where one of them decides."""
    given = {v: Boxes(low[i], high[i]) for i, v in enumerate(names)}
    whole = enclose(s, n, given)
    count = low.shape[1]
    value = Boxes(np.broadcast_to(whole.value.low, count), np.broadcast_to(whole.value.high, count))
    shape = (len(names), count)  # of no variables, too: a slope that is infinite at an edge is a constant
    slope_low = np.array([np.broadcast_to(whole.slopes[v].low if v in whole.slopes else 0.0, count) for v in names])
    slope_high = np.array([np.broadcast_to(whole.slopes[v].high if v in whole.slopes else 0.0, count) for v in names])
    slope_low, slope_high = slope_low.reshape(shape), slope_high.reshape(shape)
    worst = np.flatnonzero(value.high < 0)
    if worst.size:
        k = int(worst[0])
        return low, high, Outcome("refuted", 0, {v: _inside(low[i, k], high[i, k]) for i, v in enumerate(names)})
    bound = np.maximum(value.low, _mean_value(s, n, names, low, high, slope_low, slope_high))
    left = bound < 0
    if not left.any():
        return low[:, :0], high[:, :0], None
    low, high = low[:, left].copy(), high[:, left].copy()
    slope_low, slope_high = slope_low[:, left], slope_high[:, left]
    rising, falling = (slope_low >= 0) & (low < high), (slope_high <= 0) & (low < high)
    fixed = rising | falling
    high = np.where(rising, low, high)
    low = np.where(falling & ~rising, high, low)
    bent = _bent(high) - _bent(low)
    again = fixed.any(axis=0)  # looked at once more before it is halved
    if np.any((bent.max(axis=0, initial=0.0) <= SMALLEST) & ~again):
        return low, high, Outcome("open")
    kept_low, kept_high = low[:, again], high[:, again]
    low, high, bent = low[:, ~again], high[:, ~again], bent[:, ~again]
    steep = np.maximum(np.abs(slope_low[:, ~again]), np.abs(slope_high[:, ~again]))
    across = np.argmax(np.where(np.isfinite(steep), bent * np.minimum(steep + 1e-3, 1e3), bent * 1e3), axis=0)
    places = np.arange(low.shape[1])
    middle = _middle(low[across, places], high[across, places])
    first, second = high.copy(), low.copy()
    first[across, places] = middle
    second[across, places] = middle
    return np.hstack([kept_low, low, second]), np.hstack([kept_high, first, high]), None


def _mean_value(
    s: Scalars, n: int, names: list[str], low: Array, high: Array, slope_low: Array, slope_high: Array
) -> Array:
    """f(c) + Σ f'(box)·(x - c), from below."""
    centre = np.where(low == high, low, _middle(low, high))
    at = enclose(s, n, {v: Boxes(centre[i], centre[i]) for i, v in enumerate(names)}, slopes=False).value.low
    with np.errstate(all="ignore"):
        total = Boxes(np.broadcast_to(at, low.shape[1]), np.broadcast_to(at, low.shape[1]))
        for i in range(len(names)):
            away = boxes.sub(Boxes(low[i], high[i]), Boxes(centre[i], centre[i]))
            total = boxes.add(total, boxes.mul(Boxes(slope_low[i], slope_high[i]), away))
    return np.where(np.isnan(total.low), -inf, total.low)


def _bent(x: Array) -> Array:
    """The line bent into [-1, 1]."""
    with np.errstate(all="ignore"):
        return np.where(np.isinf(x), np.sign(x), x / (1 + np.abs(x)))


def _middle(low: Array, high: Array) -> Array:
    """Between the ends: the mean, or on a half line twice the end that is there."""
    with np.errstate(all="ignore"):
        up = np.where(low >= 1, 2 * low, np.where(low >= 0, low + 1, np.where(low <= -1, low / 2, 0.0)))
        down = np.where(high <= -1, 2 * high, np.where(high <= 0, high - 1, np.where(high >= 1, high / 2, 0.0)))
        both = np.where(np.isinf(low) & np.isinf(high), 0.0, (low + high) / 2)
    return np.where(np.isinf(high) & ~np.isinf(low), up, np.where(np.isinf(low) & ~np.isinf(high), down, both))


def _inside(low: float, high: float) -> float:
    return float(_middle(np.asarray(low), np.asarray(high)))
