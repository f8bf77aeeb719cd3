"""Where both sides of a comparison have a value: a proof says nothing of the rest; one without the other is false."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from lossdsl.derive.claims import at_points
from lossdsl.derive.claims.everywhere import prob_sums
from lossdsl.derive.claims.setting import Subject, file_sizes
from lossdsl.derive.claims.suspects import suspects
from lossdsl.derive.claims.verdict import Found
from lossdsl.ir.builder import Builder
from lossdsl.ir.graph import Graph

NEAR = 8  # drawn points that are tried: the first, of small numbers


def compared_where_defined(about: Subject, b: Builder, loss: int, other: int, equal: bool, found: Found) -> Found:
    """What was found of a comparison, with where it holds: refuted where one side alone has a value.

    Of a bound that is a number everywhere, the points without a loss are only told.
    """
    graph = b.graph({"aux.node": b.node("sub", [loss, other]), "aux.loss": loss, "aux.other": other})
    nan = any(graph.nodes[graph.output(side)].type.interval.nan for side in ("aux.loss", "aux.other"))
    if found.status == "refuted" or not nan:
        return found
    sums = prob_sums(about)
    names = [leaf.name for leaf in graph.leaves]

    def has(side: str, sizes: Mapping[str, int], leaves: dict[str, Any]) -> bool:
        node = graph.output(side)
        axes = tuple(a for a in graph.axes if a in graph.nodes[node].type.axes)
        values = at_points.values(graph, about.registry, sizes, leaves, node, axes, sums)
        return all(v == v for v in values.flat)

    def alone(sizes: Mapping[str, int], leaves: dict[str, Any]) -> bool:
        here = has("aux.loss", sizes, leaves), has("aux.other", sizes, leaves)
        return here == (True, False) or (equal and here == (False, True))

    where, told = "where both sides have a value", False
    gap = where if equal else ""
    for sizes, leaves in _points(about, graph, sums):
        if alone(sizes, leaves):
            small = at_points.shrunk(graph, sums, sizes, leaves, alone)
            return Found("refuted", f"{at_points.shown(small, names)}, where one side alone has a value", 1)
        if not told and not has("aux.loss", sizes, leaves):
            none = at_points.shrunk(graph, sums, sizes, leaves, lambda s, x: not has("aux.loss", s, x))
            gap, told = f"{where} (not at {at_points.shown(none, names)})", True
    if not gap:
        return found
    detail = f"{found.detail}, {gap}" if found.detail else gap
    again = None if found.again is None else partial(_with, found.again, gap)
    return replace(found, detail=detail, again=again)


def _with(again: Any, gap: str, proof: str) -> Found:
    told: Found = again(proof=proof)
    return replace(told, detail=f"{told.detail}, {gap}") if told.status == "proved" else told


def _points(
    about: Subject, graph: Graph, sums: Mapping[str, str]
) -> Iterator[tuple[Mapping[str, int], dict[str, Any]]]:
    params = {p.name: np.asarray(p.default) for p in about.checked.params if p.integer}
    drawn = at_points.draws(graph, sums, sized=partial(file_sizes, about))
    for sizes, leaves in (*islice(drawn, NEAR), *suspects(about, graph, sums)):
        yield sizes, leaves | {n: v for n, v in params.items() if n in leaves}
