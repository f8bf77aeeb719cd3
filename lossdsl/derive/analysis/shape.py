"""The shape of a loss in one number: the probability of the target, or its margin.

In the probability p, for any number of classes where the loss reads its logits through p alone, else for two classes:
the other has 1 - p. In the margin: the target's logit against zeros, or the one number that a row has.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import inf, isfinite, pi
from typing import Any

import numpy as np

from lossdsl.derive.analysis.series import DIGITS, Series, series
from lossdsl.derive.claims.cases import CLASSES, Case, cases
from lossdsl.derive.claims.everywhere import prob_sums, rows_of, shifted
from lossdsl.derive.claims.scalars import NotWrittenError, Scalars
from lossdsl.derive.claims.setting import Subject, place
from lossdsl.derive.claims.weight import LOG, by_one
from lossdsl.derive.errors import NotDifferentiableError
from lossdsl.ir.graph import Graph

TERMS = 8  # Taylor coefficients that are told
WINDOW = 8
FAR = 128  # coefficients from which the radius of convergence is read
ENTIRE = 25.0  # an estimate above this is taken for infinite: that of e^x is about 40 at FAR terms
NEAR = 0.03  # how close the estimate must be to a multiple of π to be called one
PLACES = (0.001, 0.01, 0.05, *(k / 20 for k in range(2, 20)), 0.97, 0.99, 0.999)


@dataclass(frozen=True, slots=True)
class Curve:
    """A scalar in one variable; `others` has the values of variables that stay fixed."""

    scalars: Scalars
    node: int
    variable: str
    others: Mapping[str, Any]

    def at(self, x: Any, count: int, sign: int = 1) -> Series:
        """Its series at x, in ±(variable - x)."""
        return series(self.scalars, self.node, self.variable, x, self.others, count, sign)

    def value(self, x: Any) -> Any:
        """Its value at x, 60 digits; NotWrittenError where an operation has no series."""
        found = self.at(x, 1)
        return found.terms[0] if found.terms and found.order == 0 else 0


@dataclass(frozen=True, slots=True)
class Shape:
    """What is known: the loss in p (`weight` its gradient's factor of (softmax - e)), and in the margin."""

    in_p: Curve | None
    any_classes: bool
    weight: Curve | None
    in_margin: Curve | None


def shape(about: Subject, extents: Mapping[str, int]) -> Shape:
    """The curves of a loss whose params are numbers; `extents` are those of axes that no input has."""
    in_p = weight = None
    any_classes = False
    try:
        one = by_one(about)
    except NotDifferentiableError:
        one = None
    if one is not None:
        in_p = _curve(cases_of(one.graph, "rows", extents))
        weight = _curve(cases_of(one.graph, "aux.weight", extents))
        any_classes = in_p is not None
    b = about.builder()
    rows = place(b, about.graph, {})["rows"]
    graph = b.graph({"aux.node": rows})
    sums = prob_sums(about)
    if in_p is None:
        moved = shifted(b, rows, graph, sums)
        in_p = _curve(_first(graph, moved, sums, extents)) if len(moved) == 1 else None
    raw = _first(graph, (), sums, extents)
    return Shape(in_p, any_classes, weight, _margin(about, raw))


def cases_of(graph: Graph, output: str, extents: Mapping[str, int]) -> Case | None:
    """The first case of an output of the loss as a function of log p."""
    try:
        return next(cases(graph, [output], CLASSES[0], logs=[LOG], extents=extents))
    except NotWrittenError:
        return None


def _first(graph: Graph, moved: Collection[str], sums: Mapping[str, str], extents: Mapping[str, int]) -> Case | None:
    """The case of two classes whose target is the first (of a binary loss: true)."""
    try:
        found = list(cases(graph, ["aux.node"], CLASSES[0], moved, sums, extents=extents))
    except NotWrittenError:
        return None
    binary = any(leaf.type.kind == "bool" and leaf.role == "input" for leaf in graph.leaves)
    return found[-1 if binary else 0]


def _entry(case: Case) -> int | None:
    (entries,) = case.outputs.values()
    return next(iter(entries.values())) if len(set(entries.values())) == 1 else None


def _curve(case: Case | None) -> Curve | None:
    """The case's scalar, if it has one variable."""
    from lossdsl.derive.claims.enclose import variables

    node = _entry(case) if case is not None else None
    if case is None or node is None:
        return None
    names = variables(case.scalars, node)
    return Curve(case.scalars, node, next(iter(names), ""), {}) if len(names) <= 1 else None


def _margin(about: Subject, case: Case | None) -> Curve | None:
    """Along the target's logit, the others 0; along the number of a row that has one."""
    node = _entry(case) if case is not None else None
    if case is None or node is None:
        return None
    from lossdsl.derive.claims.enclose import variables

    names = variables(case.scalars, node)
    real = [leaf for leaf in about.graph.leaves if leaf.differentiable and leaf.role == "input"]
    if len(real) != 1 or not names or any(not n.startswith(f"{real[0].name}[") for n in names):
        return None
    first = f"{real[0].name}[0, 0]" if rows_of(real[0], about.graph) else f"{real[0].name}[0]"
    return Curve(case.scalars, node, first, dict.fromkeys(names - {first}, 0)) if first in names else None


# --- what the curves say ----------------------------------------------------------------------------------------------


def polynomial(curve: Curve) -> list[tuple[float, float]] | None:
    """(exponent, coefficient) of the powers of 1 - p in the loss around p = 1; None where it has no such series."""
    try:
        found = curve.at(1, TERMS + 1, -1)
    except NotWrittenError:
        return None
    terms = [(float(found.order) + k, float(c)) for k, c in enumerate(found.terms)]
    return [(e, c) for e, c in terms if abs(c) > 1e-30][:TERMS]


def towards(curve: Curve, of: str) -> dict[str, Any] | None:
    """How the curve goes as its variable tends to 0 ("p -> 0") or to ∓∞ ("margin -> ∓inf")."""
    import mpmath

    steps = {"p -> 0": [mpmath.mpf(10) ** -k for k in (15, 30, 45)]}
    far = [250, 500, 1000]
    steps |= {"margin -> -inf": [-k for k in far], "margin -> inf": far}
    try:
        with mpmath.workdps(DIGITS):
            x, y, z = (mpmath.mpf(curve.value(mpmath.mpf(v))) for v in steps[of])
    except (NotWrittenError, ZeroDivisionError, OverflowError):
        return None
    per = 15 * mpmath.log(10) if of == "p -> 0" else mpmath.mpf(250)
    if abs(z - y) <= 1e-6 * (1 + abs(z)):
        vanishes = abs(z) <= 1e-12 and (z == 0 or abs(z) < abs(y))
        return {"kind": "bounded", "limit": 0.0 if vanishes else float(z)}
    if of != "p -> 0" and abs((z - y) / 2 - (y - x)) <= 1e-3 * abs(z - y):
        return {"kind": "linear", "slope": float((z - y) / (2 * per))}
    if of == "p -> 0" and abs((z - y) - (y - x)) <= 1e-3 * abs(z - y):
        return {"kind": "logarithmic", "slope": float((z - y) / per)}
    if x == 0 or y / x <= 0 or z / y <= 0:
        return {"kind": "unbounded"}
    first, second = mpmath.log(y / x), mpmath.log(z / y)
    if of == "p -> 0":
        return {"kind": "power", "exponent": float(second / per)}
    if abs(first - second) <= 0.05 * abs(second):
        return {"kind": "power", "exponent": float(second / mpmath.log(2))}
    return {"kind": "exponential", "rate": float(second / (2 * per))}


def weights(curve: Curve) -> list[tuple[float, float]]:
    """(p, weight) at some probabilities."""
    found = []
    for p in PLACES:
        try:
            found.append((p, float(curve.value(p))))
        except NotWrittenError:
            return []
    return found


def radius(curve: Curve) -> float | None:
    """The radius of convergence of the loss along a step of length 1 of the target's logit, from a tie of all.

    None where it isn't analytic there. By the decay of 128 coefficients (Cauchy and Hadamard), the largest of every
    eight (a pair of complex singularities makes them swing); an estimate within 3 % of a simple multiple of π is that.
    """
    import mpmath

    try:
        found = curve.at(0, FAR)
    except NotWrittenError:
        return None
    whole = [0] * round(float(found.order)) + list(found.terms)
    with mpmath.workdps(30):
        logs = [float(mpmath.log(abs(c))) if abs(c) > 1e-150 else -inf for c in whole]
    tops = [max((logs[k], k) for k in range(low, low + WINDOW)) for low in range(WINDOW, FAR - WINDOW, WINDOW)]
    if any(value == -inf for value, _ in tops):
        return inf
    height, place = (np.array(column, dtype=float) for column in zip(*tops, strict=True))
    rows = np.stack([np.ones_like(place), -place, np.log(place)], axis=1)
    (_, decay, _), *_ = np.linalg.lstsq(rows, height, rcond=None)  # log|c_k| is about a - k·log r + b·log k
    estimate = float(np.exp(decay))
    if estimate > ENTIRE or not isfinite(estimate):
        return inf
    for multiple in (0.25, 0.5, 1.0, 2.0, 4.0):
        if abs(estimate / (multiple * pi) - 1) < NEAR:
            return multiple * pi
    return estimate
