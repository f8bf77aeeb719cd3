"""Which properties a loss has: every claim that could be made of its inputs, decided; its bounds; its calibration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import product
from math import isfinite
from typing import Any

import numpy as np

from lossdsl.derive.claims import by_algebra, properties, shifts
from lossdsl.derive.claims.at_points import CLASSES
from lossdsl.derive.claims.cases import class_axes
from lossdsl.derive.claims.caveats import caveats
from lossdsl.derive.claims.everywhere import rows_of
from lossdsl.derive.claims.setting import Subject, place
from lossdsl.derive.claims.verdict import Found
from lossdsl.derive.errors import NotDifferentiableError
from lossdsl.derive.prove import settle
from lossdsl.ir.builder import Builder
from lossdsl.ir.interpret import evaluate
from lossdsl.source.diagnostic import InternalError

GRID = 0.02  # what a grid may miss of the least risk
APART = 0.049  # of the two likeliest classes


@dataclass(frozen=True, slots=True)
class Property:
    """A claim and what became of it; `at` says for which params, or is empty for all."""

    claim: str
    status: str
    detail: str
    at: str = ""


def found_properties(about: Subject, at: Subject, settings: str, timeout: float) -> list[Property]:
    """The properties of every input: for all params, else for those of `at`, which are told as `settings`."""
    tasks = list(_tasks(about))
    found: list[tuple[str, Found, str]] = []
    for claim, decide in tasks:
        result, where = _safely(partial(decide, about)), ""
        if result.status == "refuted" and settings:
            result, where = _safely(partial(decide, at)), settings
        found.append((claim, result, where))
    questions = [f.question for _, f, _ in found if f.question is not None]
    answers = iter(settle(questions, timeout) if timeout > 0 else [False] * len(questions))
    told = []
    for claim, result, where in found:
        if result.question is not None and next(answers):
            result = Found("proved", by_algebra.said(result.question))
        if result.status != "undecided":
            told.append(Property(claim, result.status, _detail(about, result), where))
    return told


def _detail(about: Subject, found: Found) -> str:
    if found.status != "held":
        return found.detail + (caveats(about) if found.status == "proved" else "")
    sizes = f" of {', '.join(map(str, CLASSES))} classes" if class_axes(about.graph) else ""
    return f"held at {found.points} points{sizes}"


def _safely(decide: Callable[[], Found]) -> Found:
    try:
        return decide()
    except NotDifferentiableError as error:
        return Found("undecided", str(error))


def _tasks(about: Subject) -> list[tuple[str, Callable[[Subject], Found]]]:
    tasks: list[tuple[str, Callable[[Subject], Found]]] = []
    for leaf in about.graph.leaves:
        if leaf.role != "input" or leaf.name.startswith("@"):
            continue
        if rows_of(leaf, about.graph) and leaf.differentiable:
            tasks.append((f"shift_invariant({leaf.name})", partial(_one, properties.shift_invariant, leaf.name)))
        if leaf.type.kind.startswith("index "):
            tasks.append((f"symmetric({leaf.name})", partial(_one, properties.symmetric, leaf.name)))
        elif leaf.name in properties.yes_or_no(about):
            tasks.append((f"symmetric({leaf.name})", partial(_one, properties.symmetric_in_two, leaf.name)))
        if leaf.differentiable:
            tasks.append((f"convex({leaf.name})", partial(_one, properties.convex, leaf.name)))
    tasks.append(("proper", properties.proper))
    return tasks


def _one(decide: Callable[[Subject, str], Found], name: str, about: Subject) -> Found:
    return decide(about, name)


def rows_apart(about: Subject) -> bool:
    """Whether each row has a loss of its own."""
    b = about.builder()
    rows = place(b, about.graph, {})["rows"]
    return bool(b.type(rows).axes & set(about.graph.batch))


# --- calibration ------------------------------------------------------------------------------------------------------


def calibrated(about: Subject, classes: int) -> Property | None:
    """Whether whoever minimises the expected loss also predicts the likeliest class (Bartlett, Jordan, McAuliffe, 2006;
    Zhang, 2004), tried on a grid of distributions and of predictions; None for losses of another kind."""
    told = properties.scores(about)
    if told is None or classes not in told.classes or not rows_apart(about):
        return None
    b = told.builder
    graph = b.graph({"aux.node": told.losses(None)})
    others = [
        x.name for x in graph.leaves if x.role == "input" and x.type.kind == "real" and x.name != told.logits.name
    ]
    if (
        told.copy not in b.type(told.losses(None)).axes
        or others
        or any(  # or it doesn't read its target
            leaf.role == "param" and leaf.name != "@ignore_index" for leaf in graph.leaves if leaf.type.kind == "real"
        )
    ):
        return None
    rows = told.losses(None)
    free = not shifts.invariant(b, rows, b.leaf(told.logits), graph.batch)
    z = _grid(classes, free)

    def losses_at(z: Any) -> Any:
        sizes = {a: len(z) if a in graph.batch else classes for a in graph.axes}
        leaves = {leaf.name: np.array(-100) for leaf in graph.leaves} | {told.logits.name: z}
        return evaluate(graph, about.registry, leaves, ["aux.node"], sizes=sizes)["aux.node"].reshape(len(z), classes)

    try:
        losses = losses_at(z)
    except InternalError:
        return None
    predicted = z.argmax(1)
    apart = np.sort(z, 1)[:, -1] > np.sort(z, 1)[:, -2]
    wrong, tried = None, 0
    for q in product(np.arange(1, 20) / 20, repeat=classes - 1):
        full = np.array([*q, 1 - sum(q)])
        top = np.sort(full)
        if full[-1] <= 0 or top[-1] - top[-2] < APART:
            continue
        tried += 1
        risk = losses @ full
        right = apart & (predicted == full.argmax())
        rival, start = risk[~right].min(), z[right][risk[right].argmin()]
        if rival <= risk[right].min() + GRID and rival <= _refined(losses_at, full, start):
            wrong = full
            break
    claim = f"calibrated for {classes} classes"
    if wrong is not None:
        return Property(
            claim, "refuted", f"the least expected loss under {np.round(wrong, 2).tolist()} predicts another"
        )
    return Property(claim, "held", f"held at {tried} distributions")


def _grid(classes: int, free: bool) -> Any:
    """Logits around 0 and far out; the last one 0 where only differences are seen."""
    line = np.linspace(-6, 6, 121 if classes == 2 else 25 if free else 49)
    line = np.concatenate([line, [-30.0, -15.0, 15.0, 30.0]])
    last = line if free else [0.0]
    return np.array(list(product(*[line] * (classes - 1), last)))


def _refined(losses_at: Callable[[Any], Any], q: Any, z: Any) -> float:
    """The least risk near a prediction with the same likeliest class: steps along each logit, ever shorter."""
    first, best, step = z.argmax(), float((losses_at(z[None]) @ q)[0]), 0.5
    for _ in range(40):
        moves = np.concatenate([np.eye(len(z)), -np.eye(len(z))]) * step
        near = z + moves
        others = np.delete(near, first, axis=1)
        near = near[near[:, first] > others.max(axis=1)]
        values = losses_at(near) @ q if len(near) else np.array([np.inf])
        if values.min() < best:
            z, best = near[values.argmin()], float(values.min())
        else:
            step /= 2
    return best


def at_values(about: Subject, values: Mapping[str, Any]) -> Subject:
    """The loss with numbers for some params (a list for one along an axis)."""
    axes = {leaf.name: leaf.axes for leaf in about.graph.leaves}
    replaced = {
        name: partial(_constant, value=value, axes=axes[name]) for name, value in values.items() if name in axes
    }
    b = about.builder()
    return replace(about, graph=b.graph(place(b, about.graph, replaced)))


def _constant(b: Builder, value: Any, axes: tuple[str, ...]) -> int:
    if not isinstance(value, tuple | list):
        return b.const(_decimal(value))
    found = b.const(_decimal(value[-1]))
    for k, entry in enumerate(value[:-1]):
        found = b.node("select", [b.node("eq", [b.index(axes[0]), b.const(k)]), b.const(_decimal(entry)), found])
    return found


def _decimal(value: Any) -> Any:
    """The number as it is written: 0.7 is seven tenths."""
    return Fraction(repr(value)) if isinstance(value, float) and isfinite(value) else value
