"""How far down and up a loss goes: bounds that are proved, rays along which there is none, or what points have shown.

The extremes of every written-out case are looked for over its whole box, faces too; the number found is then put to
interval arithmetic. A loss that goes on growing along a ray, by as much with every further ten orders of magnitude, has
no bound: a logarithm does so, and nothing that tends to a limit.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from math import inf, isfinite, isinf, log, sqrt
from typing import Any

import numpy as np

from lossdsl.derive.claims import by_algebra
from lossdsl.derive.claims.at_points import SEED, beyond, draws, exact, negative
from lossdsl.derive.claims.boxes import Boxes
from lossdsl.derive.claims.by_intervals import never_negative as never_negative_on
from lossdsl.derive.claims.cases import CLASSES, Case, cases, class_axes
from lossdsl.derive.claims.comparisons import by_form
from lossdsl.derive.claims.enclose import enclose, variables
from lossdsl.derive.claims.everywhere import at_sizes, prob_sums, shifted, sizes_with
from lossdsl.derive.claims.scalars import NotWrittenError
from lossdsl.derive.claims.setting import Subject, place
from lossdsl.derive.prove import settle
from lossdsl.ir.graph import Graph, Leaf
from lossdsl.ir.interpret import evaluate
from lossdsl.source.diagnostic import InternalError

SCALES = (1.0, 10.0, 100.0, 700.0)
SLACKS = (1e-9, 1e-6, 1e-3)  # of a bound that has no simple form
SIMPLE = 1e-7  # how close an extreme must be to a simple number to be taken for it
SAME = 1e-5  # how close bounds for other numbers of classes are to be one
BOXES = 30_000  # looked at for one bound
TRIED = 2048  # points of a box
REFINED = 40  # steps from the best of them
TENS = (10, 20, 30, 40)  # powers of ten along a ray
STEADY = 0.99  # of the growth before, with the next ten orders of magnitude
SECONDS = 4.0  # for the rays
FEW = 3  # entries of a leaf that rays run along


@dataclass(frozen=True, slots=True)
class Bound:
    """The least or the greatest value.

    proved      `value` is one for all inputs (`by_classes`: for each number of classes its own, `value` then None)
    unbounded   there is none: `detail` says along what the loss goes on growing
    seen        none is known: `detail` tells between which values it was at the points that were tried
    unknown     the loss is defined at none of them
    """

    value: float | None
    status: str
    detail: str
    by_classes: Mapping[int, float] = field(default_factory=dict)


def bounds(about: Subject, timeout: float) -> tuple[Bound, Bound]:
    """(lower, upper) bounds of a row's loss; `timeout` is what sympy has for a proof."""
    graph = _alone(about)
    points = _values(about, graph)
    low, high = (_bound(about, graph, sign, points, timeout) for sign in (-1, 1))
    return low, high


def _bound(about: Subject, graph: Graph, sign: int, points: Any, timeout: float) -> Bound:
    own = graph.nodes[graph.output("aux.node")].type.interval
    end = own.high if sign > 0 else own.low
    ray = _ray(about, graph, sign) if isinf(end) else ""
    if ray:
        return Bound(None, "unbounded", ray)
    found = _extremes(about, sign)
    if not found and not points.size:
        return Bound(None, "unknown", "it is defined at none of the points tried")
    shown = _by_classes(about, found, sign)
    if shown and max(shown.values()) - min(shown.values()) > SAME * (1 + abs(next(iter(shown.values())))):
        return Bound(None, "proved", "by intervals over the whole domain", shown)
    every = [sign * float((sign * points).max())] if points.size else []
    seen = sign * max(sign * x for x in (*found.values(), *every))
    for value in [sign * min(sign * x for x in shown.values())] if shown else _candidates(seen, sign, end):
        how = _proof(about, value, sign, timeout)
        if how and _at_more(about, value, sign, how):
            return Bound(float(value), "proved", how)
    if shown:
        where = at_sizes(_alone(about), tuple(shown), sizes_with(about, CLASSES[0]))
        value, how = sign * max(sign * x for x in shown.values()), f"by intervals over the whole domain{where}"
        if _at_more(about, value, sign, how):
            return Bound(value, "proved", how)
    low, high = (float(points.min()) + 0.0, float(points.max()) + 0.0) if points.size else (seen, seen)
    return Bound(None, "seen", f"between {low:.6g} and {high:.6g} at {points.size} points")


def _at_more(about: Subject, value: float, sign: int, how: str) -> bool:
    """Whether a bound that was shown for a few sizes holds at points of larger ones, up to how it is rounded."""
    b = about.builder()
    rows = place(b, about.graph, {})["rows"]
    bound = b.const(value + sign * SAME * (1 + abs(value)))
    gap = b.node("sub", [bound, rows] if sign > 0 else [rows, bound])
    return beyond(about, b, gap, negative, None, how).status == "proved"


def _alone(about: Subject) -> Graph:
    """The graph of a row's loss and no more."""
    b = about.builder()
    return b.graph({"aux.node": place(b, about.graph, {})["rows"]})


def _by_classes(about: Subject, found: Mapping[int, float], sign: int) -> dict[int, float]:
    """A proved bound for each number of classes, near the extreme found for it; empty unless each has one."""
    shown: dict[int, float] = {}
    for classes, x in found.items():
        value = _at_classes(about, classes, x, sign)
        if value is None:
            return {}
        shown[classes] = value
    return shown


def _proof(about: Subject, value: Any, sign: int, timeout: float) -> str:
    """By what no row goes beyond the value, for any number of classes; nothing where that isn't shown."""
    b = about.builder()
    rows = place(b, about.graph, {})["rows"]
    node = b.node("sub", [b.const(value), rows] if sign > 0 else [rows, b.const(value)])
    how = by_form(about, b, node)
    if how:
        return how
    question = by_algebra.request(about, b, node, "sign") if timeout > 0 else None
    return by_algebra.said(question) if question is not None and settle([question], timeout)[0] else ""


def _candidates(x: float, sign: int, end: float) -> Iterator[Any]:
    """Numbers that may bound what comes as far as x: the simple one that it is near, then ever looser ones; none beyond
    the `end` of what it may be."""
    near = Fraction(x).limit_denominator(24)
    named = [log(2), log(3), sqrt(2), 1 / log(2)]
    if abs(float(near) - x) <= SIMPLE * (1 + abs(x)):
        yield near
    for c in (s * c for c in named for s in (1, -1) if abs(s * c - x) <= SIMPLE):
        yield float(np.nextafter(c, sign * np.inf))
    for slack in SLACKS:
        loose = float(f"{x + sign * slack * (1 + abs(x)):.12g}")
        yield end if sign * loose > sign * end else loose


# --- the extremes of the written-out cases ----------------------------------------------------------------------------


def _cases(about: Subject, classes: int) -> list[Case]:
    b = about.builder()
    node = place(b, about.graph, {})["rows"]
    graph = b.graph({"aux.node": node})
    sums = prob_sums(about)
    moved = shifted(b, node, graph, sums)
    return list(cases(graph, ["aux.node"], classes, moved, sums, extents=sizes_with(about, classes)))


def _extremes(about: Subject, sign: int) -> dict[int, float]:
    """The extreme that was found for each number of classes; empty where there's no written form."""
    counts = CLASSES if class_axes(about.graph) else CLASSES[:1]
    found: dict[int, float] = {}
    for classes in counts:
        try:
            best = [
                _best(case, n, sign) for case in _cases(about, classes) for n in set(case.outputs["aux.node"].values())
            ]
        except NotWrittenError:
            return {}
        if not best or not all(isfinite(x) for x in best):
            return {}
        found[classes] = sign * max(best)
    return found


def _best(case: Case, n: int, sign: int) -> float:
    """The largest sign·value over the box, at random points and faces, and up from the best of them."""
    names = sorted(variables(case.scalars, n))
    rng = np.random.default_rng(SEED)

    def placed(u: Any) -> Any:
        """Points of the unit cube in the box; its faces are the faces."""
        columns = []
        for v, x in zip(names, u, strict=True):
            low, high = case.domain[v].low, case.domain[v].high
            with np.errstate(all="ignore"):
                if isfinite(low) and isfinite(high):
                    columns.append(low + (high - low) * x)
                elif isfinite(low):
                    columns.append(low + x / (1 - x))
                elif isfinite(high):
                    columns.append(high - (1 - x) / x)
                else:
                    columns.append((2 * x - 1) / (x * (1 - x)))
        return columns

    def values(u: Any) -> Any:
        given = {v: Boxes(x, x) for v, x in zip(names, placed(u), strict=True)}
        found = enclose(case.scalars, n, given, slopes=False).value
        low, high = (np.broadcast_to(x, u.shape[1]) for x in (found.low, found.high))
        with np.errstate(all="ignore"):
            thin = high - low <= 1e-9 * (1 + np.abs(low))
            return np.where(thin, sign * (low + high) / 2, -np.inf)

    u = rng.random((len(names), TRIED))
    # on a face a value may be a limit, which no box is thin at: points just within it are tried, too
    u = np.where(rng.random(u.shape) < 0.2, rng.choice([0.0, 1e-300, 0.5, 1 - 2.0**-53, 1.0], u.shape), u)
    found = values(u)
    top = np.argsort(found)[-8:]
    at, best = u[:, top], found[top]
    for k in range(REFINED if names else 0):
        near = np.clip(at[:, :, None] + 0.3 * 0.7**k * rng.normal(size=(*at.shape, 32)), 0, 1)
        again = values(near.reshape(len(names), -1)).reshape(len(top), 32)
        which = again.argmax(1)
        better = again[np.arange(len(top)), which] > best
        at = np.where(better, near[:, np.arange(len(top)), which], at)
        best = np.maximum(best, again.max(1))
    return float(best.max())


def _at_classes(about: Subject, classes: int, x: float, sign: int) -> float | None:
    """The tightest bound for so many classes near the extreme x that intervals show; the loosest is tried first."""
    tried = list(_candidates(x, sign, sign * inf))
    for value in (tried[-1], *tried):
        held = all(_beyond(case, n, value, sign) for case in _cases(about, classes) for n in _entries(case))
        if held and value != tried[-1]:
            return float(value)
        if not held and value == tried[-1]:
            return None
    return float(tried[-1])


def _entries(case: Case) -> Sequence[int]:
    return sorted(set(case.outputs["aux.node"].values()))


def _beyond(case: Case, n: int, value: Any, sign: int) -> bool:
    s = case.scalars
    c = s.const(value)
    gap = s.node("sub", [c, n] if sign > 0 else [n, c])
    return never_negative_on(s, gap, case.domain, BOXES).status == "proved"


# --- points and rays --------------------------------------------------------------------------------------------------


def _values(about: Subject, graph: Graph) -> Any:
    """The loss at points whose unbounded inputs are scaled up."""
    wide = {leaf.name for leaf in _moving(about, graph) if leaf.type.interval.high == np.inf}
    found = []
    for scale in SCALES:
        for sizes, leaves in draws(graph, prob_sums(about)):
            given = {n: np.asarray(x) * scale if n in wide else x for n, x in leaves.items()}
            try:
                row = np.asarray(
                    evaluate(graph, about.registry, given, ["aux.node"], sizes=sizes)["aux.node"], dtype=float
                )
            except InternalError:
                continue
            row = np.asarray(row)
            found.append(row[np.isfinite(row)].ravel().astype(float))
    return np.concatenate(found) if found else np.zeros(0)


def _moving(about: Subject, graph: Graph) -> list[Leaf]:
    """The inputs that are real, probabilities aside."""
    sums = prob_sums(about)
    return [
        leaf for leaf in graph.leaves if leaf.role == "input" and leaf.type.kind == "real" and leaf.name not in sums
    ]


def _ray(about: Subject, graph: Graph, sign: int) -> str:
    """Along what the loss goes on growing, or nothing."""
    until = time.process_time() + SECONDS
    moving = _moving(about, graph)
    for sizes, leaves in _bases(about, graph, moving):
        for told, points in _rays(moving, leaves):
            if time.process_time() > until:
                return ""
            values = _along(about, graph, sizes, leaves, points)
            if values is not None and _grows([sign * v for v in values]):
                return f"as {told}: {_few(values)}, … at steps of ten orders of magnitude"
    return ""


def _few(values: Sequence[Any]) -> str:
    import mpmath

    return ", ".join(str(mpmath.nstr(v, 4)) for v in values[:2])


def _bases(about: Subject, graph: Graph, moving: Sequence[Leaf]) -> Iterator[tuple[dict[str, int], dict[str, Any]]]:
    """Where rays begin: at zero, or at what each input has next to it, and at two drawn points."""
    drawn = iter(draws(graph, prob_sums(about)))
    sizes, leaves = next(drawn)
    zeros = {leaf.name: np.full(np.shape(leaves[leaf.name]), _nearest_to_zero(leaf)) for leaf in moving}
    yield sizes, {**leaves, **zeros}
    yield sizes, leaves
    yield next(drawn)


def _nearest_to_zero(leaf: Leaf) -> float:
    within = leaf.type.interval
    if 0.0 in within:
        return 0.0
    if isfinite(within.low) and isfinite(within.high):
        return (within.low + within.high) / 2
    return within.low + 1 if isfinite(within.low) else within.high - 1


def _rays(moving: Sequence[Leaf], leaves: Mapping[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """(what moves, the leaf's values at each step)."""
    import mpmath

    for leaf in moving:
        base = exact(np.asarray(leaves[leaf.name], dtype=float))
        places = list(np.ndindex(base.shape))
        groups = [(leaf.name + (str(list(p)) if p else ""), [p]) for p in places[:FEW]]
        if len(places) > 1:
            groups.append((leaf.name, places))
        low, high = leaf.type.interval.low, leaf.type.interval.high
        for name, group in groups:
            for end, to in ((low, 1), (high, -1)):
                points = []
                for k in TENS:
                    moved = base.copy()
                    for p in group:
                        far = mpmath.mpf(10) ** k
                        moved[p] = base[p] - to * far if not isfinite(end) else mpmath.mpf(end) + to / far
                    points.append({leaf.name: moved})
                yield f"{name} -> {end:g}", points


def _along(
    about: Subject,
    graph: Graph,
    sizes: Mapping[str, int],
    leaves: Mapping[str, Any],
    points: Sequence[Mapping[str, Any]],
) -> list[Any] | None:
    """The first row's loss at each point; None where it is none."""
    found = []
    for moved in points:
        given = {**{n: exact(v) for n, v in leaves.items()}, **moved}
        try:
            row = np.asarray(
                evaluate(graph, about.registry, given, ["aux.node"], "mpmath", sizes)["aux.node"], dtype=object
            )
        except (InternalError, ArithmeticError, ValueError, MemoryError):
            return None
        value = np.asarray(row, dtype=object).ravel()[0]
        if not (value == value and abs(value) != np.inf):
            return None
        found.append(value)
    return found


def _grows(values: Sequence[Any]) -> bool:
    steps = [b - a for a, b in pairwise(values)]
    return steps[0] > 1e-6 and all(b >= STEADY * a for a, b in pairwise(steps))
