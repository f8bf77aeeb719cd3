"""A loss and its gradient along one entry of one input: what `show` draws and the gallery shows.

The setting is the file's example; one entry moves. Where the loss has a target, the entry is the target's.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from lossdsl.check.typed import CheckedLoss, Input
from lossdsl.derive.examples import at_example, modes_of
from lossdsl.ir.graph import JointGraph
from lossdsl.ir.interpret import evaluate
from lossdsl.pipeline import Middle, middle
from lossdsl.registry import Registry

REACH = 5.0  # how far the entry moves to either side
TRIED = 12  # entries of an example's input, until one moves the loss


@dataclass(frozen=True, slots=True)
class Curve:
    """`value` and `slope` (the derivative by the entry) at the places `at`; NaN where there is none."""

    along: str  # logits[0, 2]
    at: tuple[float, ...]
    value: tuple[float, ...]
    slope: tuple[float, ...]
    here: float  # the entry in the example


def curve(made: Middle, registry: Registry, points: int = 121) -> Curve | None:
    """The curve of a loss's first example; None for a map, and for a loss without example or differentiable input."""
    checked = made.checked
    if checked.kind == "map" or not checked.examples:
        return None
    first: Curve | None = None
    for example in checked.examples:
        modes = modes_of(checked, example)
        chosen = middle(made.source, registry, modes) if modes else made
        moved = _moved(chosen.joint, checked)
        if moved is None:
            return None
        leaves, sizes = at_example(checked, registry, chosen.graph, example)
        for entry in _entries(checked, moved, leaves)[:TRIED]:
            drawn = _along(chosen, registry, leaves, sizes, moved, entry, points)
            if _moves(drawn):
                return drawn
            first = first or drawn
    return first


def _along(
    made: Middle,
    registry: Registry,
    leaves: dict[str, Any],
    sizes: dict[str, int],
    moved: Input,
    entry: tuple[int, ...],
    points: int,
) -> Curve:
    """The curve as one entry of an input moves."""
    here = float(leaves[moved.name][entry])
    found = []
    places = _places(moved, here, points)
    for x in places:
        array = leaves[moved.name].astype(float)
        array[entry] = x
        found.append(_at(made, registry, leaves | {moved.name: array}, sizes, moved.name, entry))
    along = f"{moved.name}[{', '.join(map(str, entry))}]" if entry else moved.name
    return Curve(along, tuple(places), tuple(v for v, _ in found), tuple(g for _, g in found), here)


def _moves(c: Curve) -> bool:
    """Whether there is something to see: the value varies, and in a good part of the curve smoothly."""
    seen = [v for v in c.value if isfinite(v)]
    steep = sum(abs(v) > 1e-6 for v in c.slope)
    return bool(seen) and max(seen) - min(seen) > 1e-9 and steep > len(c.slope) / 8


def _moved(joint: JointGraph, checked: CheckedLoss) -> Input | None:
    """The first input that has a gradient."""
    derived = {name.removeprefix("grad.") for name, _ in joint.graph.outputs if name.startswith("grad.")}
    return next((item for item in checked.inputs if item.name in derived), None)


def _entries(checked: CheckedLoss, moved: Input, leaves: dict[str, Any]) -> list[tuple[int, ...]]:
    """Every entry: first the first, or of the axis that a target names its first target."""
    first = [0] * len(moved.axes)
    for item in checked.inputs:
        axis = item.kind.removeprefix("index ")
        if axis != item.kind and axis in moved.axes and leaves[item.name].size:
            first[moved.axes.index(axis)] = max(int(leaves[item.name].flat[0]), 0)
            break
    others = [tuple(map(int, entry)) for entry in np.ndindex(leaves[moved.name].shape)]
    return list(dict.fromkeys([tuple(first), *others]))


def _places(moved: Input, here: float, points: int) -> list[float]:
    """Evenly spaced places around 0, or around the entry where that is far; inside the input's interval."""
    middle_ = 0.0 if abs(here) <= REACH else here
    low, high = middle_ - REACH, middle_ + REACH
    if moved.bounds is not None:
        bounds = moved.bounds
        low, high = max(low, float(bounds.low)), min(high, float(bounds.high))
        inset = (high - low) / (points - 1) / 2
        low += inset * (low == bounds.low)
        high -= inset * (high == bounds.high)
    return [float(x) for x in np.linspace(low, high, points)]


def _at(
    made: Middle, registry: Registry, leaves: dict[str, Any], sizes: dict[str, int], name: str, entry: tuple[int, ...]
) -> tuple[float, float]:
    """The loss and its derivative by one entry; NaN where a matrix has no inverse."""
    try:
        return _value_and_slope(made, registry, leaves, sizes, name, entry)
    except np.linalg.LinAlgError:
        return float("nan"), float("nan")


def _value_and_slope(
    made: Middle, registry: Registry, leaves: dict[str, Any], sizes: dict[str, int], name: str, entry: tuple[int, ...]
) -> tuple[float, float]:
    outputs = [output for output, _ in made.graph.outputs if output in ("rows", "weight")]
    values = evaluate(made.joint, registry, leaves, outputs, sizes=sizes)
    rows = np.asarray(values["rows"], float)
    total = float(rows.sum())
    weight = 1.0
    if made.checked.reduction == "mean":
        weight = float(np.broadcast_to(values["weight"], rows.shape).sum()) if "weight" in values else float(rows.size)
    if not weight:
        return 0.0, 0.0
    seeds = {"@rows": np.full(rows.shape, 1 / weight)}
    if "weight" in values:
        seeds["@weight"] = np.full(np.shape(values["weight"]), -total / weight**2)
    gradient = np.asarray(evaluate(made.joint, registry, leaves | seeds, [f"grad.{name}"], sizes=sizes)[f"grad.{name}"])
    return _real(total / weight), _real(float(gradient[entry]))


def _real(x: float) -> float:
    return x if isfinite(x) else float("nan")
