"""Whether a node is never negative for any input: by intervals over the whole domain.

For any number of classes where the logits are read through one class's probability alone, else for 2 and 3 classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from lossdsl.check.types import base_axis
from lossdsl.derive.claims import shifts
from lossdsl.derive.claims.boxes import Boxes
from lossdsl.derive.claims.by_intervals import MOST, never_negative
from lossdsl.derive.claims.cases import CLASSES, OTHERS, Case, cases, class_axes, probability
from lossdsl.derive.claims.enclose import enclose
from lossdsl.derive.claims.scalars import NotWrittenError, Scalars
from lossdsl.derive.claims.setting import Subject, file_sizes
from lossdsl.derive.examples import UnfitError
from lossdsl.ir.builder import Builder, bound_axes
from lossdsl.ir.graph import Graph, Leaf
from lossdsl.primitives.interval import Interval

STEPS = (1, 2, 4, 8, 16, 64)  # powers of ten by which a witness at an end that is no value keeps away from it
BY_ONE = "by intervals over all probabilities, for any number of classes"
OTHER = "@other "  # begins the name of a second input of the same kind
P = "@p"  # the probability through which alone the logits are read; no input has that name


@dataclass(frozen=True, slots=True)
class Everywhere:
    """How it was shown; or, where `points` are given, leaves at which it seems to be false (to be tried exactly)."""

    detail: str = ""
    points: tuple[Mapping[str, Any], ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)

    @property
    def first(self) -> list[tuple[Mapping[str, int], dict[str, Any]]]:
        """The points, each with the sizes."""
        return [(self.sizes, dict(point)) for point in self.points]


def prob_sums(about: Subject) -> dict[str, str]:
    """The inputs that are probabilities, each with the axis over which they sum to 1."""
    own = {i.name: i.kind.removeprefix("prob ") for i in about.checked.inputs if i.kind.startswith("prob ")}
    return own | {f"{OTHER}{name}": axis for name, axis in own.items()}


def rows_of(leaf: Leaf, graph: Graph) -> bool:
    """Whether it has a row: axes that are no batch's."""
    return leaf.role == "input" and leaf.type.kind == "real" and any(a not in graph.batch for a in leaf.axes)


def shifted(b: Builder, node: int, graph: Graph, sums: Mapping[str, str]) -> tuple[str, ...]:
    """The leaves that the node reads only up to a shift."""
    return tuple(
        leaf.name
        for leaf in graph.leaves
        if rows_of(leaf, graph)
        and leaf.name not in sums
        and leaf.type.interval.low == -np.inf
        and leaf.type.interval.high == np.inf
        and len([a for a in leaf.axes if a not in graph.batch]) == 1
        and leaf.axes[-1] not in graph.batch
        and shifts.invariant(b, node, b.leaf(leaf), graph.batch)
    )


def never_negative_everywhere(
    about: Subject, b: Builder, node: int, logs: Sequence[str] = (), most: int = MOST
) -> Everywhere | None:
    """None where nothing was shown. `logs` names leaves that are logarithms of probabilities."""
    graph = b.graph({"aux.node": node})
    try:
        own = sizes_with(about, CLASSES[0])
    except NotWrittenError:
        return None
    sums = prob_sums(about)
    names = [leaf.name for leaf in graph.leaves if rows_of(leaf, graph)]
    one = probability(graph, graph.output("aux.node"), names)
    if one is not None:
        given: dict[str, Any] = {"known": {one: P}, "extents": own}
        for alone, least in ((True, ""), (False, " from two on")):
            try:
                (case,) = cases(graph, ["aux.node"], CLASSES[0], **given, alone=alone)
            except (NotWrittenError, ValueError):
                break
            if all(never_negative(case.scalars, n, case.domain, most).status == "proved" for n in _scalars(case)):
                return Everywhere(f"{BY_ONE}{least}{_others(graph, case)}")
    counts = CLASSES if class_axes(graph) else CLASSES[:1]
    moved = shifted(b, node, graph, sums)
    try:
        for classes, extents in grids(about, graph, counts):
            for case in cases(graph, ["aux.node"], classes, moved, sums, logs=logs, extents=extents):
                for n in _scalars(case):
                    outcome = never_negative(case.scalars, n, case.domain, most)
                    if outcome.status == "refuted":
                        points = tuple(_point(case, outcome.witness or {}, k) for k in STEPS)
                        return Everywhere(points=points, sizes=case.sizes)
                    if outcome.status != "proved":
                        return None
    except NotWrittenError:
        return None
    return Everywhere(f"by intervals over the whole domain{at_sizes(graph, counts, own)}")


def _others(graph: Graph, case: Case) -> str:
    """ ", for D = 2": the sizes of the axes that the node has beside the classes."""
    over = class_axes(graph)
    told = [a for a in axes_of(graph) if base_axis(a) not in over]
    return f", for {'; '.join(f'{a} = {case.sizes[a]}' for a in told)}" if told else ""


def axes_of(graph: Graph) -> list[str]:
    """The axes that its nodes vary along, work along or count, but the batch's and copies."""
    axes = {a for n in graph.nodes for a in (*n.type.axes, *bound_axes(n))}
    axes |= {str(n.attrs[0]) for n in graph.nodes if n.op in ("size", "index")}
    return [a for a in graph.axes if a in axes and a not in graph.batch and "'" not in a]


def grids(about: Subject, graph: Graph, counts: Sequence[int]) -> list[tuple[int, dict[str, int]]]:
    """Numbers of classes, with the extents of all axes that aren't as many: several kinds of classes at every pair."""
    over = class_axes(graph)
    found = []
    for chosen in product(counts, repeat=max(len(over), 1)):
        told = dict(zip(over, chosen, strict=False))
        found.append((chosen[0], told | sizes_with(about, chosen[0], told)))
    return found


def sizes_with(about: Subject, classes: int, told: Mapping[str, int] | None = None) -> dict[str, int]:
    """The extents of axes that the file sizes, where a claim is written out for so many classes.

    `told` has those of axes that have another number, by base axis.
    """
    graph = about.graph
    over = class_axes(graph)
    sizes = {a: 1 if a in graph.batch else classes if base_axis(a) in over else OTHERS for a in graph.axes}
    sizes |= {a: (told or {})[base_axis(a)] for a in sizes if base_axis(a) in (told or {})}
    try:
        found, more = (file_sizes(about, sizes | dict.fromkeys(graph.batch, rows)) for rows in (1, 2))
        if found != more:
            raise NotWrittenError("an axis as long as there are rows")
        return found
    except UnfitError as error:
        raise NotWrittenError(str(error)) from None


def at_sizes(graph: Graph, counts: Sequence[int] = CLASSES, sized: Mapping[str, int] | None = None) -> str:
    """ ", for C = 2, 3": the sizes for which something was written out."""
    over = class_axes(graph)
    own = sized or {}
    others = [a for a in graph.axes if a not in graph.batch and "'" not in a and a not in over]
    parts = [f"{a} = {own[a] if a in own else ', '.join(map(str, counts))}" for a in over]
    parts += [f"{a} = {own.get(a, OTHERS)}" for a in others]
    return f", for {'; '.join(parts)}" if parts else ""


def _scalars(case: Case) -> list[int]:
    return sorted(set(case.outputs["aux.node"].values()))


def _point(case: Case, witness: Mapping[str, float], away: int) -> dict[str, Any]:
    """The leaves' values at a point of the domain; variables that don't matter are in the middle of theirs.

    An end that is no value (excluded, infinite, or a probability of 0 or 1) is kept away from by 10^-away.
    """
    shares = {v for v in case.domain if v.startswith("p.")}

    def value(s: Scalars, n: int) -> float:
        given = {
            v: Boxes(*2 * [np.asarray(_near(witness.get(v), i, away, v in shares))]) for v, i in case.domain.items()
        }
        found = enclose(s, n, given, slopes=False).value
        return float((found.low + found.high) / 2) if np.isfinite(found.low + found.high) else float(found.low)

    found: dict[str, Any] = {}
    for name, entries in case.leaves.items():
        if name in case.fixed:
            found[name] = case.fixed[name]
            continue
        shape = tuple(max(i[d] for i in entries) + 1 for d in range(len(next(iter(entries)))))
        found[name] = np.array([value(case.scalars, entries[i]) for i in np.ndindex(shape)]).reshape(shape)
    return found


def _near(x: float | None, within: Interval, away: int, open_: bool) -> float:
    """A value that the variable may take, near the witness's, which may be a limit."""
    low, high = within.low, within.high
    if x is None:
        return _middle(low, high)
    if x in within and not np.isinf(x) and not (open_ and x in (low, high)):
        return x
    step = 10.0**-away
    if np.isinf(x):
        return float(np.sign(x)) / step
    step = min(step, (high - low) / 4)
    return low + step if x == low else high - step


def _middle(low: float, high: float) -> float:
    if np.isinf(low) and np.isinf(high):
        return 0.0
    return low + 1 if np.isinf(high) else high - 1 if np.isinf(low) else (low + high) / 2
