"""What sympy is asked of a claim, as data for the child process of `derive/prove.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lossdsl.derive.claims.cases import CLASSES, class_axes
from lossdsl.derive.claims.everywhere import at_sizes, grids, prob_sums, shifted, sizes_with
from lossdsl.derive.claims.scalars import NotWrittenError
from lossdsl.derive.claims.setting import Subject
from lossdsl.derive.transport import to_json
from lossdsl.ir.builder import Builder
from lossdsl.registry import base_registry

WAYS = {
    "zero": "by algebra",
    "constant": "by algebra",
    "limit": "by the limit of its expression",
    "sign": "by the signs of a polynomial",
    "proper": "the losses are the tangents of a concave entropy",
}


def request(
    about: Subject, b: Builder, node: int, kind: str, classes: Sequence[int] = CLASSES, **more: Any
) -> dict[str, Any] | None:
    """The question whether `node` is zero, constant, has the limit 0, or holds the losses of a proper score.

    None where the child can't know an operation.
    """
    graph = b.graph({"aux.node": node})
    known = base_registry().primitives  # the child finds no plugins
    if any(n.op in about.registry.primitives and n.op not in known for n in graph.nodes):
        return None
    sums = prob_sums(about)
    counts = tuple(classes) if class_axes(graph) else CLASSES[:1]
    shifts = shifted(b, node, graph, sums)
    try:
        sizes = grids(about, graph, counts)
    except NotWrittenError:
        return None
    told = at_sizes(graph, counts, sizes_with(about, counts[0]))
    return {
        "kind": kind,
        "at": told,
        "graph": to_json(graph),
        "sizes": sizes,
        "shifts": shifts,
        "sums": sums,
        **more,
    }


def said(question: Mapping[str, Any]) -> str:
    """What a proof of it says."""
    return WAYS[question["kind"]] + str(question["at"])
