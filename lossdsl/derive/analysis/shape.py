"""The shape of a loss in one number: the probability of the target, or its margin.

In the probability p, for any number of classes where the loss reads its logits through p alone, else for two classes:
the other has 1 - p. In the margin: the target's logit against zeros, or the one number that a row has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import inf, isfinite, isinf, pi
from typing import Any

import numpy as np

from lossdsl.derive.analysis.properties import rows_apart
from lossdsl.derive.analysis.series import DIGITS, KinkError, Series, series
from lossdsl.derive.claims.cases import CLASSES, Case, cases
from lossdsl.derive.claims.everywhere import prob_sums, rows_of, shifted
from lossdsl.derive.claims.properties import Scores, scores, yes_or_no
from lossdsl.derive.claims.scalars import NotWrittenError, Scalars
from lossdsl.derive.claims.setting import Replacement, Subject, place
from lossdsl.derive.claims.weight import LOG, by_one
from lossdsl.derive.errors import NotDifferentiableError
from lossdsl.ir.builder import Builder
from lossdsl.ir.graph import Graph, Leaf

SOFT = ("logp", "softmax", "softplus", "sigmoid", "pick", "neg")
TERMS = 8  # Taylor coefficients that are told
WINDOW = 8
LONG = 260  # digits of these coefficients: those of e^x are as small as 1e-216
FAR = 128  # coefficients from which the radius of convergence is read
ENTIRE = 25.0  # an estimate above this is taken for infinite: that of e^x is about 40 at FAR terms
NEAR = 0.03  # how close to π the estimate for a function of softmaxes must be
FAR_OFF = (10**6, 30)  # the nearest margin at which growth is read off; nearer where 60 digits don't suffice
MARGINS = tuple(k / 4 for k in range(-24, 25))
PLACES = (0.001, 0.01, 0.05, *(k / 20 for k in range(2, 20)), 0.97, 0.99, 0.999)


@dataclass(frozen=True, slots=True)
class Curve:
    """A scalar in one variable; `others` has the values of variables that stay fixed."""

    scalars: Scalars
    node: int
    variable: str
    others: Mapping[str, Any]
    of_softmax: bool = False

    def at(self, x: Any, count: int, sign: int = 1, sided: bool = False, digits: int = DIGITS) -> Series:
        """Its series at x, in ±(variable - x); `sided` on that side alone."""
        return series(self.scalars, self.node, self.variable, x, self.others, count, sign, sided, digits)

    def value(self, x: Any) -> Any:
        """Its value at x, 60 digits; NotWrittenError where an operation has no series."""
        found = self.at(x, 1, sided=True)
        return found.terms[0] if found.terms and found.order == 0 else 0


@dataclass(frozen=True, slots=True)
class Shape:
    """What is known: the loss in p (`weight` its gradient's factor of (softmax - e)), and in the margin.

    `of` says what p is the probability of, and by which softmax.
    """

    in_p: Curve | None
    any_classes: bool
    of: str
    weight: Curve | None
    in_margin: Curve | None
    side: str = ""  # for which target the margin's is told, where it isn't for all


TARGET, FIRST = "the target", "the first class; there is no target"


def shape(about: Subject, extents: Mapping[str, int]) -> Shape:
    """The curves of a loss whose params are numbers; `extents` are those of axes that no input has."""
    in_p = weight = None
    if not rows_apart(about):
        return Shape(None, False, TARGET, None, None)
    of = TARGET
    any_classes = False
    try:
        one = by_one(about)
    except NotDifferentiableError:
        one = None
    if one is not None:
        in_p = _curve(cases_of(one.graph, "rows", extents))
        weight = _curve(cases_of(one.graph, "aux.weight", extents))
        any_classes = in_p is not None
        if in_p is not None and not one.own:
            of = f"{TARGET}, by the softmax that the loss takes, not of {one.leaf} itself"
    if in_p is None:
        in_p, of = _of_two(about, extents)
    return Shape(in_p, any_classes, of, weight, *_margin(about, extents))


def _of_two(about: Subject, extents: Mapping[str, int]) -> tuple[Curve | None, str]:
    """The loss of two classes in the probability of the target, the other's being the rest."""
    told = scores(about)
    if told is None:
        b = about.builder()
        rows = place(b, about.graph, {})["rows"]
        labels = any(leaf.type.kind.startswith("index ") for leaf in about.graph.leaves)
        return _in_share(about, b, rows, extents), TARGET if labels else FIRST
    b, single = told.builder, told.classes == CLASSES[:1]  # of a single logit, the first class is the one that is true
    logits = _swapped(told) if single else None
    first, second = (b.pick(told.losses(logits), {told.copy: b.const(k)}) for k in ((1, 0) if single else (0, 1)))
    curve, other = (_in_share(about, b, n, extents) for n in (first, second))
    alike = curve is not None and other is not None and _meet(curve, other, SHARES, [1 - p for p in SHARES])
    return curve, TARGET if alike else f"{TARGET}, where it is {'true' if single else FIRST_CLASS}"


SHARES = (Fraction(1, 7), Fraction(2, 5), Fraction(9, 11))
FIRST_CLASS = "the first class"


def _in_share(about: Subject, b: Builder, rows: int, extents: Mapping[str, int]) -> Curve | None:
    """A row in the probability of its target, or of the first class; None where its choices or bools matter, too."""
    graph = b.graph({"aux.node": rows})
    sums = prob_sums(about)
    moved = shifted(b, rows, graph, sums)
    if len(moved) != 1:
        return None
    try:
        curves = [_curve(case) for case in cases(graph, ["aux.node"], CLASSES[0], moved, sums, extents=extents)]
    except NotWrittenError:
        return None
    first = curves[0] if curves else None
    return first if first is not None and all(c and _meet(first, c, SHARES, SHARES) for c in curves[1:]) else None


def _meet(x: Curve, y: Curve, at: Sequence[Any], there: Sequence[Any]) -> bool:
    """Whether two curves have the same values at some places, each at its own."""
    import mpmath

    try:
        with mpmath.workdps(DIGITS):
            pairs = [(x.value(mpmath.mpf(p)), y.value(mpmath.mpf(q))) for p, q in _numbers(at, there)]
            return all(abs(u - v) <= mpmath.mpf(10) ** -30 * (1 + abs(u)) for u, v in pairs)
    except (NotWrittenError, ZeroDivisionError, OverflowError):
        return False


def _numbers(*places: Sequence[Any]) -> list[tuple[Any, ...]]:
    import mpmath

    exact = ([mpmath.mpf(p.numerator) / p.denominator for p in map(Fraction, along)] for along in places)
    return list(zip(*exact, strict=True))


def _swapped(told: Scores) -> Replacement:
    """The two logits that stand for one, the other way round."""

    def of(b: Builder) -> int:
        axis = told.axis
        return b.pick(b.leaf(told.logits), {axis: b.node("sub", [b.const(1), b.index(axis)])})

    return of


def cases_of(graph: Graph, output: str, extents: Mapping[str, int]) -> Case | None:
    """An output of the loss as a function of log p; None where it is another one for another target."""
    try:
        found = list(cases(graph, [output], CLASSES[0], logs=[LOG], extents=extents))
    except NotWrittenError:
        return None
    return found[0] if len({_written(case) for case in found}) == 1 else None


def _written(case: Case) -> str:
    """The case's value as a text: the same for the same expression."""
    from lossdsl.derive.claims.enclose import needed

    (entries,) = case.outputs.values()
    places: dict[int, int] = {}
    lines = []
    for n in sorted({m for entry in entries.values() for m in needed(case.scalars, entry)}):
        op, args = case.scalars.nodes[n]
        lines.append(f"{op} {args if op in ('const', 'var') else [places[a] for a in args]}")
        places[n] = len(places)
    return "\n".join([*lines, str([places[n] for n in entries.values()])])


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


def _margin(about: Subject, extents: Mapping[str, int]) -> tuple[Curve | None, str]:
    """Along the target's logit, the others 0; along the number of a row that has one. Logits may be any reals.

    With the target for which it is so, where another's is another; None where more than the target is chosen.
    """
    told, flags = scores(about), yes_or_no(about)
    reals = [leaf for leaf in about.graph.leaves if leaf.differentiable and leaf.role == "input"]
    index = any(leaf.type.kind.startswith("index ") for leaf in about.graph.leaves)
    free = len(reals) == 1 and isinf(reals[0].type.interval.low) and isinf(reals[0].type.interval.high)
    if not free or not (told or flags or index):
        return None, ""
    (real,), row = reals, rows_of(reals[0], about.graph)
    if told is not None and row:
        b = told.builder
        nodes = [b.pick(told.losses(None), {told.copy: b.const(k)}) for k in (0, 1)]
        sides = [_along(about, b, n, real, extents, k) for k, n in enumerate(nodes)]
    else:
        b = about.builder()
        values = [dict.fromkeys(flags, partial(Builder.const, value=v)) for v in ((True, False) if flags else (True,))]
        sides = [_along(about, b, place(b, about.graph, v)["rows"], real, extents) for v in values]
    if any(not curves for curves in sides) or (flags and len(sides[0]) > 1 and not _one(sides[0])):
        return None, ""
    first, alike = sides[0][0], _one([curves[0] for curves in sides] if row else sides[0]) and _one(sides[0])
    if not row and len(sides) > 1:
        alike &= _meet(first, sides[1][0], MARGINS_TRIED, [-m for m in MARGINS_TRIED])
    if not alike and (told is None and len(flags) + index > 1):
        return None, ""
    return first, "" if alike else f"where the target is {FIRST_CLASS if row or index else 'true'}"


MARGINS_TRIED = (Fraction(-7, 3), Fraction(-2, 5), Fraction(1, 3), Fraction(9, 4))


def _one(curves: Sequence[Curve]) -> bool:
    """Whether they have the same values."""
    return all(_meet(curves[0], c, MARGINS_TRIED, MARGINS_TRIED) for c in curves[1:])


def _along(
    about: Subject, b: Builder, rows: int, real: Leaf, extents: Mapping[str, int], target: int = 0
) -> list[Curve]:
    """A row along the target's logit, for every choice of what isn't real (then its index is the target)."""
    from lossdsl.derive.claims.enclose import variables

    graph = b.graph({"aux.node": rows})
    kinds = {leaf.name: leaf.type.kind for leaf in graph.leaves}
    found = []
    try:
        for case in cases(graph, ["aux.node"], CLASSES[0], (), prob_sums(about), extents=extents):
            node = _entry(case)
            chosen = [int(v.flat[0]) for n, v in case.fixed.items() if kinds[n].startswith("index ")]
            names = variables(case.scalars, node) if node is not None else set()
            first = real.name + (f"[0, {(chosen or [target])[0]}]" if rows_of(real, about.graph) else "[0]")
            if node is None or first not in names or any(not n.startswith(f"{real.name}[") for n in names):
                return []
            others = dict.fromkeys(names - {first}, 0)
            found.append(Curve(case.scalars, node, first, others, _of_softmax(graph, real.name)))
    except NotWrittenError:
        return []
    return found


def _of_softmax(graph: Graph, name: str) -> bool:
    """Whether what takes the input's entries is a softmax or a sigmoid of them, or entire."""
    taking = [
        (node.op, node.attrs)
        for node in graph.nodes
        if any(graph.nodes[a].op == "leaf" and graph.nodes[a].attrs[0] == name for a in node.args)
    ]
    known = [op in SOFT or (op == "reduce" and attrs[0] in ("logsumexp", "sum")) for op, attrs in taking]
    return bool(known) and all(known)


# --- what the curves say ----------------------------------------------------------------------------------------------


def polynomial(curve: Curve) -> list[tuple[float, float]] | None:
    """(exponent, coefficient) of the powers of 1 - p in the loss around p = 1; None where it has no such series."""
    try:
        found = curve.at(1, TERMS + 1, -1, sided=True)
    except NotWrittenError:
        return None
    terms = [(float(found.order) + k, float(c)) for k, c in enumerate(found.terms)]
    return [(e, c) for e, c in terms if abs(c) > 1e-30][:TERMS]


def towards(curve: Curve, of: str) -> dict[str, Any] | None:
    """How the curve goes as its variable tends to 0 ("p -> 0") or to ∓∞ ("margin -> ∓inf").

    Read off three values, each step as long as all before it (in p: as many more powers of ten).
    """
    for nearest in FAR_OFF:
        found = _towards(curve, of, nearest)
        if found is not None:
            return found
    return None


def _towards(curve: Curve, of: str, nearest: int) -> dict[str, Any] | None:
    import mpmath

    steps = {"p -> 0": [mpmath.mpf(10) ** -k for k in (15, 30, 45)]}
    far = [nearest, 2 * nearest, 4 * nearest]
    steps |= {"margin -> -inf": [-k for k in far], "margin -> inf": far}
    try:
        with mpmath.workdps(DIGITS):
            x, y, z = (mpmath.mpf(curve.value(mpmath.mpf(v))) for v in steps[of])
    except (NotWrittenError, ZeroDivisionError, OverflowError):
        return None
    in_p = of == "p -> 0"
    per = 15 * mpmath.log(10) if in_p else mpmath.mpf(nearest)
    first, second = y - x, z - y
    if abs(second) <= 1e-5 * (1 + abs(z)) and abs(second) <= 0.9 * abs(first) + 1e-30:
        limit = z - second**2 / (second - first) if second not in (0, first) else z  # Aitken's
        return {"kind": "bounded", "limit": 0.0 if abs(limit) <= 1e-9 else float(limit)}
    if in_p and abs(second - first) <= 1e-3 * abs(second):
        return {"kind": "logarithmic", "slope": float(second / per)}
    if not in_p and abs(second - first) <= 1e-3 * abs(second):
        return {"kind": "logarithmic", "slope": float(second / mpmath.log(2))}
    if not in_p and abs(second / 2 - first) <= 1e-3 * abs(second):
        return {"kind": "linear", "slope": float(second / (2 * per))}
    if x == 0 or y / x <= 0 or z / y <= 0:
        return {"kind": "unbounded"}
    first, second = mpmath.log(y / x), mpmath.log(z / y)
    if in_p and abs(first - second) <= 0.05 * abs(second):
        return {"kind": "power", "exponent": float(second / per)}
    if not in_p and abs(first - second) <= 0.05 * abs(second):
        return {"kind": "power", "exponent": float(second / mpmath.log(2))}
    if not in_p and abs(second / 2 - first) <= 0.05 * abs(second):
        return {"kind": "exponential", "rate": float(second / (2 * per))}
    return {"kind": "unbounded"}


def values(curve: Curve, places: Iterable[float]) -> list[tuple[float, float]]:
    """(x, value) at some places; none where an operation has no value."""
    found = []
    for x in places:
        try:
            found.append((x, float(curve.value(x))))
        except NotWrittenError:
            return []
    return found


def radius(curve: Curve) -> float | None:
    """The radius of convergence of the loss along a step of length 1 of the target's logit, from a tie of all.

    0 where it isn't analytic there, None where no series is known. By the decay of 128 coefficients (Cauchy and
    Hadamard), the largest of every eight (a pair of complex singularities makes them swing). Where the logits are read
    through softmaxes of themselves, which are singular at a distance of π, an estimate within 3 % of π is that.
    """
    import mpmath

    try:
        found = curve.at(0, FAR, digits=LONG)
    except KinkError:
        return 0.0
    except NotWrittenError:
        return None
    whole = [0] * round(float(found.order)) + list(found.terms)
    with mpmath.workdps(30):
        logs = [float(mpmath.log(abs(c))) if abs(c) > mpmath.mpf(10) ** (20 - LONG) else -inf for c in whole]
    tops = [max((logs[k], k) for k in range(low, low + WINDOW)) for low in range(WINDOW, FAR - WINDOW, WINDOW)]
    if any(value == -inf for value, _ in tops):
        return inf
    height, place = (np.array(column, dtype=float) for column in zip(*tops, strict=True))
    rows = np.stack([np.ones_like(place), -place, np.log(place)], axis=1)
    (_, decay, _), *_ = np.linalg.lstsq(rows, height, rcond=None)  # log|c_k| is about a - k·log r + b·log k
    estimate = float(np.exp(decay))
    if estimate > ENTIRE or not isfinite(estimate):
        return inf
    if curve.of_softmax and abs(estimate / pi - 1) < NEAR:
        return pi
    return estimate
