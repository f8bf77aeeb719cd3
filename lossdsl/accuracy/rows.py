"""Inputs on which losses lose digits, made for any loss from the kinds and intervals of its inputs.

Logits get gaps, offsets, ties, absent classes and a single class; a second tensor of the same axes comes near the
first; probabilities come near 0, 1/2 and 1; numbers with bounds come near these. All are float32 numbers, so that what
is measured is the loss alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf, isinf, nan
from typing import Any

import numpy as np

from lossdsl.check.typed import CheckedLoss
from lossdsl.check.types import base_axis
from lossdsl.derive.examples import extents
from lossdsl.derive.points import IGNORE_INDEX
from lossdsl.ir.graph import Graph, Leaf
from lossdsl.primitives.interval import Interval
from lossdsl.registry import base_registry

Array = Any
GAPS = (0.0, 1e-3, 0.5, 5.0, 17.0, 40.0, 60.0, 90.0)
OFFSETS = (1e2, -1e2, 1e4, -1e4, 1e6, -1e6)
NEAR = (0.0, 1e-6, 1e-3, 0.3)  # of a second tensor from the first
WIDE = 50_000
CLASSES, SAMPLES = 5, 2
ROOTED = 8  # classes of a loss with a root: five of five best have none
EDGES = (0.0, 1e-40, 1e-30, 1e-6, 6e-8)  # distances from a bound
BESIDE = (0.0, 1e-6, 6e-8)  # distances from the middle of two bounds, 1/2 of a probability
DENORMAL = 1e-40


@dataclass(frozen=True, slots=True)
class Case:
    """`what` it tries; leaves of the graph by name (without seeds); extents of its axes by base."""

    what: str
    leaves: dict[str, Array]
    sizes: dict[str, int]


@dataclass(slots=True)
class _Draw:
    graph: Graph
    checked: CheckedLoss
    rng: np.random.Generator
    sizes: dict[str, int]
    logits: frozenset[str]
    targets: dict[str, Array] = field(default_factory=dict)

    def shape(self, leaf: Leaf) -> tuple[int, ...]:
        return tuple(self.sizes[base_axis(a)] for a in leaf.axes)


def cases(graph: Graph, checked: CheckedLoss, seed: int = 0) -> Iterator[Case]:
    """Every case that the loss's inputs allow, the same on every call."""
    logits = logit_leaves(graph)
    plans: list[tuple[str, dict[str, Any]]] = [("random", {}), ("random, wide", {"scale": 30.0})]
    for gap in GAPS:
        plans.append((f"one class ahead by {gap:g}", {"gap": gap}))
        plans.append((f"one class behind by {gap:g}", {"gap": -gap}))
    plans += [("tied", {"scale": 0.0, "shift": 0.25}), ("tied at the top", {"gap": 0.0, "second": True})]
    plans += [(f"offset {c:g}", {"shift": c}) for c in OFFSETS]
    plans += [("zeros", {"scale": 0.0}), ("tiny", {"scale": 1e-20}), ("denormal", {"scale": DENORMAL})]
    if _pairs(graph):
        plans += [(f"tensors apart by {e:g}", {"near": e}) for e in NEAR]
        plans += [("tensors apart by an offset", {"near": 0.0, "between": 64.0})]
        plans += [(f"the second tensor ahead by {g:g}", {"gap": g, "which": 1}) for g in (17.0, 60.0)]
    if logits:
        plans += [("a class of -inf", {"absent": True}), ("all but one of -inf", {"absent": True, "gap": 0.5})]
        plans += [("one class", {"classes": 1}), ("two classes, 17 apart", {"classes": 2, "gap": 17.0})]
    if any(isinf(leaf.type.interval.low) != isinf(leaf.type.interval.high) or _bounded(leaf) for leaf in graph.leaves):
        plans += [(f"{side} bound and {e:g}", {"edge": e, "side": side}) for side in ("low", "high") for e in EDGES]
    if any(_between(leaf) for leaf in graph.leaves):
        plans += [(f"the middle and {e:g}", {"edge": e, "side": "middle"}) for e in BESIDE]
    if logits:
        plans += [("two classes, 1e-06 apart", {"classes": 2, "gap": 1e-6})]
    classes = ROOTED if any(node.op == "root" for node in graph.nodes) else CLASSES
    for number, (what, plan) in enumerate(plans):
        sizes = _sizes(graph, checked, plan.get("classes", classes), logits)
        if sizes is not None:
            draw = _Draw(graph, checked, np.random.default_rng([seed, number]), sizes, logits)
            yield Case(what, _leaves(draw, plan), sizes)


def wide(
    graph: Graph, checked: CheckedLoss, seed: int = 0, classes: int = WIDE, rewritten: Graph | None = None
) -> Case | None:
    """One row of very many classes; None for a loss without logits, or with pairs of classes, as it is written or
    rewritten: a square of such a size."""
    logits = logit_leaves(graph)
    axes = {_class_axis(leaf, graph) for leaf in graph.leaves if leaf.name in logits} - {None}
    if len(axes) != 1:
        return None
    (axis,) = axes
    assert axis is not None
    if any(sum(base_axis(a) == axis for a in g.axes) > 1 for g in (graph, rewritten or graph)):
        return None
    sizes = _sizes(graph, checked, 2, logits, 1)
    if sizes is None:
        return None
    sizes[axis] = classes
    draw = _Draw(graph, checked, np.random.default_rng(seed), sizes, logits)
    return Case(f"{classes} classes", _leaves(draw, {}), sizes)


def logit_leaves(graph: Graph) -> frozenset[str]:
    """The inputs that go into a softmax or log-sum-exp over one of their axes, entry by entry."""
    found: set[str] = set()
    for node in graph.nodes:
        if node.op != "logp" and not (node.op == "reduce" and node.attrs[0] == "logsumexp"):
            continue
        over = node.attrs[0] if node.op == "logp" else node.attrs[1]
        assert isinstance(over, tuple)
        stack = [node.args[0]]
        while stack:
            inner = graph.nodes[stack.pop()]
            if inner.op == "leaf":
                leaf = next(x for x in graph.leaves if x.name == inner.attrs[0])
                if leaf.role == "input" and _free(leaf) and set(over) & set(leaf.axes):
                    found.add(leaf.name)
            elif inner.op in ("add", "sub", "mul", "div", "neg", "select"):
                stack.extend(inner.args[1:] if inner.op == "select" else inner.args)
    return frozenset(found)


def _free(leaf: Leaf) -> bool:
    interval = leaf.type.interval
    return leaf.type.kind == "real" and isinf(interval.low) and isinf(interval.high)


def _bounded(leaf: Leaf) -> bool:
    return leaf.type.kind == "real" and leaf.role == "input" and not isinf(leaf.type.interval.low)


def _between(leaf: Leaf) -> bool:
    return _bounded(leaf) and not isinf(leaf.type.interval.high)


def _pairs(graph: Graph) -> bool:
    shapes = [leaf.axes for leaf in graph.leaves if leaf.role == "input" and _free(leaf)]
    return len(shapes) > len(set(shapes))


def _class_axis(leaf: Leaf, graph: Graph) -> str | None:
    own = [base_axis(a) for a in leaf.axes if base_axis(a) not in {base_axis(b) for b in graph.batch}]
    return own[-1] if own else None


def _sizes(
    graph: Graph, checked: CheckedLoss, classes: int, logits: frozenset[str], samples: int = SAMPLES
) -> dict[str, int] | None:
    """Extents by base axis; None if some axis can't have them. Batch losses see a few samples more."""
    batch = {axis.name for axis in checked.axes if axis.batch}
    matrices = any(node.op in ("logdet", "solve") for node in graph.nodes)
    few = samples if graph.batch else CLASSES + 1 if matrices else 4  # so that their rank is full
    bound = {base_axis(a): few if base_axis(a) in batch else classes for a in graph.axes}
    given = {a: (n, "") for a, n in bound.items() if any(a in map(base_axis, x.axes) for x in graph.leaves)}
    params = {p.name: p.default for p in checked.params if not p.modes}
    known = {**bound, **extents(checked, base_registry(), graph, params, given)}
    for param in checked.params:  # a vector param is as long as its default
        known.update(zip(map(base_axis, param.axes), np.shape(param.default), strict=False))
    for axis in checked.axes:  # the size that the file says, unless an input binds it
        if axis.size is not None and axis.size.op == "const" and axis.name not in given:
            known[axis.name] = int(float(axis.size.attrs[0]))  # type: ignore[arg-type]
    return known


def _leaves(draw: _Draw, plan: dict[str, Any]) -> dict[str, Array]:
    """An array for every input and param; targets first, since gaps are about them."""
    leaves: dict[str, Array] = {}
    inputs = [leaf for leaf in draw.graph.leaves if leaf.role == "input"]
    for leaf in inputs:
        if leaf.type.kind != "real":
            leaves[leaf.name] = _discrete(draw, leaf)
            if leaf.type.kind.startswith("index "):
                draw.targets.setdefault(leaf.type.kind.split()[1], leaves[leaf.name])
    free = [leaf for leaf in inputs if leaf.type.kind == "real" and _free(leaf)]
    for leaf in free:
        leaves[leaf.name] = _single(_unbounded(draw, leaf, plan, free, leaves))
    kinds = {i.name: i.kind for i in draw.checked.inputs}
    for leaf in inputs:
        if leaf.type.kind == "real" and not _free(leaf):
            if kinds[leaf.name].startswith("prob "):
                leaves[leaf.name] = _distribution(draw, leaf, plan, kinds[leaf.name].split()[1])
            else:
                leaves[leaf.name] = _within(draw, leaf, plan)
    for param in draw.checked.params:
        if not param.modes:
            leaves[param.name] = _single(param.default)
    leaves.update({x.name: np.asarray(IGNORE_INDEX) for x in draw.graph.leaves if x.name == "@ignore_index"})
    return leaves


def _single(x: Array) -> Array:
    return np.asarray(x, dtype=np.float32).astype(np.float64)


def _discrete(draw: _Draw, leaf: Leaf) -> Array:
    kind, shape = leaf.type.kind, draw.shape(leaf)
    if kind.startswith("index "):
        count, extent = int(np.prod(shape)), draw.sizes.get(kind.split()[1], CLASSES)
        batch = {a.name for a in draw.checked.axes if a.batch}
        if count <= extent and not batch & {base_axis(a) for a in leaf.axes}:
            return draw.rng.permutation(extent)[:count].reshape(shape)  # a choice of entries: each of them once
        return draw.rng.integers(0, max(1, draw.sizes.get(kind.split()[1], CLASSES)), shape)
    if kind == "label":
        return np.arange(int(np.prod(shape))).reshape(shape) // 2 % 3
    if kind == "bool":
        return draw.rng.random(shape) < 0.6
    low = 0 if isinf(leaf.type.interval.low) else int(leaf.type.interval.low)
    return draw.rng.integers(low, low + 5, shape)


def _unbounded(draw: _Draw, leaf: Leaf, plan: dict[str, Any], free: list[Leaf], known: dict[str, Array]) -> Array:
    shape, rng = draw.shape(leaf), draw.rng
    base = rng.normal(0, 1.5, shape) * plan.get("scale", 1.0) + plan.get("shift", 0.0)
    kin = [x for x in free[: free.index(leaf)] if x.axes == leaf.axes]
    if "near" in plan and kin:
        noise = np.where(plan["near"], plan["near"] * base, 0)
        return known[kin[0].name] + noise + plan.get("between", 0.0)
    which = plan.get("which", 0)
    axis = _class_axis(leaf, draw.graph)
    if "gap" in plan and which == len(kin):
        base = _apart(draw, leaf, base, axis, plan)
    if plan.get("absent") and leaf.name in draw.logits and axis is not None:
        base = _absent(draw, leaf, base, axis, all_but_one="gap" in plan)
    return base


def _place(draw: _Draw, leaf: Leaf, axis: str) -> tuple[int, Array]:
    """The dimension of the class axis, and the class along it that a case is about: the target, else the first."""
    d = [base_axis(a) for a in leaf.axes].index(axis)
    shape = tuple(n for i, n in enumerate(draw.shape(leaf)) if i != d)
    target = draw.targets.get(axis)
    fits = target is not None and target.shape == shape
    return d, np.expand_dims(target if fits and target is not None else np.zeros(shape, dtype=np.int64), d)


def _apart(draw: _Draw, leaf: Leaf, base: Array, axis: str | None, plan: dict[str, Any]) -> Array:
    if axis is None:  # one number a sample: it is its own distance from 0
        sign = np.where(np.arange(base.size).reshape(base.shape) % 2 == 0, 1.0, -1.0)
        return sign * plan["gap"]
    d, place = _place(draw, leaf, axis)
    if base.shape[d] < 2:
        return base
    hit = np.arange(base.shape[d]).reshape([-1 if i == d else 1 for i in range(base.ndim)]) == place
    top = np.where(hit, -np.inf, base).max(d, keepdims=True)
    return np.where(hit, _single(top) + plan["gap"], base)


def _absent(draw: _Draw, leaf: Leaf, base: Array, axis: str, all_but_one: bool) -> Array:
    d, place = _place(draw, leaf, axis)
    k = np.arange(base.shape[d]).reshape([-1 if i == d else 1 for i in range(base.ndim)])
    gone = k != place if all_but_one else k == (place + 1) % base.shape[d]
    return np.where(gone & (k != place), -np.inf, base)


def _distribution(draw: _Draw, leaf: Leaf, plan: dict[str, Any], axis: str) -> Array:
    """Random, one-hot where a class is ahead, near one-hot at an edge, uniform where all is tied."""
    shape = draw.shape(leaf)
    d = [base_axis(a) for a in leaf.axes].index(axis)
    k = np.arange(shape[d]).reshape([-1 if i == d else 1 for i in range(len(shape))])
    if "gap" in plan or plan.get("side") == "low":
        rest = 0.0 if "gap" in plan else plan["edge"]
        p = np.where(k == 0, 1 - rest, rest / max(shape[d] - 1, 1))
        return _single(np.broadcast_to(p, shape))
    if plan.get("side") == "middle" and shape[d] > 1:
        p = 0.5 + plan["edge"]
        return _single(np.broadcast_to(np.where(k == 0, p, (1 - p) / (shape[d] - 1)), shape))
    if plan.get("scale") == 0.0:
        return _single(np.full(shape, 1 / shape[d]))
    w = draw.rng.lognormal(0, 1, shape)
    return _single(w / w.sum(d, keepdims=True))


def _within(draw: _Draw, leaf: Leaf, plan: dict[str, Any]) -> Array:
    interval, shape = leaf.type.interval, draw.shape(leaf)
    inner = _inside(interval, shape, draw.rng)
    if "edge" in plan:
        low = plan["side"] == "low"
        bound = interval.low if low else interval.high
        if plan["side"] == "middle":
            near = (interval.low + bound) / 2 + plan["edge"] if _between(leaf) else nan  # as it is drawn
        elif isinf(bound):
            edge = 1e4 if plan["edge"] else 100.0
            near = (interval.high - edge) if low else interval.low + edge
        else:
            near = bound + (plan["edge"] if low else -plan["edge"])
        near = float(np.float32(near))
        if near in interval:
            some = np.arange(inner.size).reshape(shape) % 2 == 0
            return _single(np.where(some, near, inner))
    return _single(inner)


def _inside(interval: Interval, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    low, high = interval.low, interval.high
    if isinf(high):
        return low + rng.lognormal(-0.3, 0.7, shape)
    if isinf(low):
        return high - rng.lognormal(-0.3, 0.7, shape)
    return low + (high - low) * rng.uniform(0.1, 0.9, shape)


__all__ = ["GAPS", "NEAR", "OFFSETS", "WIDE", "Case", "cases", "inf", "logit_leaves", "wide"]
