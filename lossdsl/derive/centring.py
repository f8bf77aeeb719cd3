"""Logits less their largest, where a common offset changes nothing: what then is computed does not feel the offset.

Softmaxes and differences of logits lose nothing to an offset. The unknown of a root, squares of logits and sums that
cancel do: with 10^6 on all logits a threshold is known to 1/16 only. So z - max z stands for z in such losses, the
maximum detached: a gradient that sums to 0 along a row is the same.

That nothing changes is shown by rule (`claims/shifts.py`), or the file claims it and points bear it out.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from math import inf, isinf
from typing import Any

import numpy as np

from lossdsl.check.typed import CheckedLoss
from lossdsl.check.types import base_axis
from lossdsl.derive.claims.at_points import POINTS, draws, exact
from lossdsl.derive.claims.by_rules import depends
from lossdsl.derive.claims.shifts import invariant
from lossdsl.derive.tempered import less, tempered
from lossdsl.ir.builder import Builder
from lossdsl.ir.graph import Graph, Leaf
from lossdsl.ir.interpret import evaluate
from lossdsl.registry import Registry
from lossdsl.syntax import ast

SHIFTS, CLOSE = (2.75, -40.0, 600.0, -600.0), 1e-9  # one a point: thresholds are passed, up and down


def centred(graph: Graph, checked: CheckedLoss, registry: Registry) -> Graph:
    """The graph with z - max z for the logits z that need it, those of a temperature too (`tempered.py`); the graph
    itself where none does."""
    batch = tuple(axis.name for axis in checked.axes if axis.batch)
    limited = {base_axis(axis) for axis, _ in checked.conditions}  # an entry that isn't there has no value to compare
    for leaf in graph.leaves:
        own = tuple(a for a in leaf.axes if base_axis(a) not in batch)
        free = leaf.role == "input" and leaf.type.kind == "real" and isinf(leaf.type.interval.low)
        if not free or not own or limited & {base_axis(a) for a in own}:
            continue
        if _needs(graph, leaf, batch, checked, registry):
            graph = _with_centre(graph, leaf, own, registry)
    return tempered(graph, registry)


def _needs(graph: Graph, leaf: Leaf, batch: tuple[str, ...], checked: CheckedLoss, registry: Registry) -> bool:
    b = Builder(registry, graph.name, graph.axes, graph.batch)
    ids = b.replay(graph)
    node = b.leaf(leaf)
    if all(invariant(b, ids[n], node, batch) for _, n in graph.outputs):
        return any(x.op == "root" and depends(b, n, [node]) for n, x in enumerate(b.nodes))
    return leaf.name in _claimed(checked) and _borne_out(graph, leaf, batch, checked, registry)


def _claimed(checked: CheckedLoss) -> Iterator[str]:
    """The inputs that the file says may be shifted, whatever the params."""
    for claim in checked.claims:
        call = claim.value
        if isinstance(call, ast.Call) and call.function == "shift_invariant" and not claim.when:
            yield from (a.value.name for a in call.args if isinstance(a.value, ast.Name))


def _borne_out(graph: Graph, leaf: Leaf, batch: tuple[str, ...], checked: CheckedLoss, registry: Registry) -> bool:
    """Whether a number for each row, added to it, changes no output at some points."""
    names = [name for name, _ in graph.outputs]
    sums = {i.name: i.kind.removeprefix("prob ") for i in checked.inputs if i.kind.startswith("prob ")}
    rng = np.random.default_rng(0)
    apart = islice(draws(graph, sums), 2, None, POINTS // len(SHIFTS))  # two classes, five, five, and five far out
    for shift, (sizes, leaves) in zip(SHIFTS, apart, strict=True):
        shape = [sizes[a] if base_axis(a) in batch else 1 for a in leaf.axes]
        moved = {**leaves, leaf.name: leaves[leaf.name] + shift * rng.uniform(0.5, 1, shape)}
        both = [evaluate(graph, registry, x, names, "float64", sizes) for x in (leaves, moved)]
        if any(np.any(np.isfinite(both[0][n]) & ~np.isfinite(both[1][n])) for n in names):  # too large, or none
            given = [{n: exact(x) for n, x in point.items()} for point in (leaves, moved)]
            both = [evaluate(graph, registry, x, names, "mpmath", sizes) for x in given]
        if not all(_alike(both[0][n], both[1][n]) for n in names):
            return False
    return True


def _alike(before: Any, after: Any) -> bool:
    """Whether what was finite is as it was."""
    pairs = zip(np.ravel(before), np.ravel(after), strict=True)
    return all(abs(x - y) <= CLOSE * (1 + abs(x)) for x, y in pairs if abs(x) < inf)


def _with_centre(graph: Graph, leaf: Leaf, own: tuple[str, ...], registry: Registry) -> Graph:
    b = Builder(registry, graph.name, graph.axes, graph.batch)
    for other in graph.leaves:
        b.leaf(other)
    z = b.leaf(leaf)
    below = less(b, z, b.reduce("max", own, z))
    old = next((n for n, x in enumerate(graph.nodes) if x.op == "leaf" and x.attrs[0] == leaf.name), None)
    ids = b.replay(graph, {} if old is None else {old: below})
    return b.graph({name: ids[n] for name, n in graph.outputs})
