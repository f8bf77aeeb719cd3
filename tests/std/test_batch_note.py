"""`explain` says of a loss that its value depends on which samples share the batch: held against what it does.

A row's value is taken once as it stands and once with other rows beside it. Where it changes, the note must be there.
The other way round a note may stand without a change at some points: where a comparison with the batch's mean, or with
the labels of other rows, happens to decide nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lossdsl.api import registry
from lossdsl.check.types import base_axis
from lossdsl.derive.points import random_leaves, sizes_for
from lossdsl.explain import batch_notes
from lossdsl.ir.graph import Graph
from lossdsl.ir.interpret import evaluate
from lossdsl.ir.lower import lower
from lossdsl.pipeline import front
from lossdsl.source.text import Source
from tests.losses import FULL

ALL = sorted(full for full in registry().losses if "/" in full)
# Noted, and unchanged at our points.
SELDOM = {"llm/soft_clamp", "llm/unlikelihood_token", "metric/n_pairs", "std/sovr"}


def beside_others(graph: Graph, leaves: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    """The leaves with all but the first row of another draw."""
    mixed = {}
    for leaf in graph.leaves:
        x = np.array(leaves[leaf.name])
        for d, axis in enumerate(leaf.axes):
            if base_axis(axis) == graph.batch[0]:
                rest = (slice(None),) * d + (slice(1, None),)
                x[rest] = np.asarray(others[leaf.name])[rest]
        mixed[leaf.name] = x
    return mixed


def changes(graph: Graph, defaults: dict[str, Any], lengths: dict[str, int]) -> bool:
    """Whether the first row's value hangs on the others; `lengths` are those of axes that params bind."""
    sizes = sizes_for(graph, **{"N": 4, "D": 3, **lengths})
    for seed in range(4):
        leaves, others = (
            random_leaves(graph, sizes, np.random.default_rng(s)) | {n: np.array(x, float) for n, x in defaults.items()}
            for s in (seed, 100 + seed)
        )
        rows = [
            evaluate(graph, registry(), given, ["rows"], sizes=sizes)["rows"][0]
            for given in (leaves, beside_others(graph, leaves, others))
        ]
        if not np.allclose(*rows, rtol=1e-12, atol=1e-14, equal_nan=True):
            return True
    return False


@pytest.mark.parametrize("full", ALL if FULL else ALL[::4])
def test_the_note_is_true(full: str) -> None:
    file = registry().losses[full]
    checked = front(Source(Path(file.path).name, file.read()), registry()).checked
    graph = lower(checked, registry())
    noted = bool(batch_notes(checked, graph))
    if checked.kind == "map" or not graph.batch:
        assert noted == (checked.kind == "loss")  # one number of the whole batch
        return
    defaults = {p.name: p.default for p in checked.params if not p.modes and p.name in {x.name for x in graph.leaves}}
    lengths = {p.axes[0]: len(p.default) for p in checked.params if p.axes and isinstance(p.default, tuple)}
    depends = changes(graph, defaults, lengths)
    assert noted or not depends
    assert depends or not noted or full in SELDOM
