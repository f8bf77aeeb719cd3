"""What a text is worth: its Graph in float64, its gradient by the derived Graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lossdsl.check.typed import CheckedLoss
from lossdsl.derive.derive import derive
from lossdsl.ir.graph import Graph
from lossdsl.ir.interpret import evaluate
from lossdsl.ir.lower import IGNORE, lower
from tests.check.helpers import checked, registry

Array = np.ndarray[Any, Any]


def _run(loss: CheckedLoss, graph: Graph, given: Mapping[str, Any], prefix: str) -> dict[str, Array]:
    leaves: dict[str, Any] = {p.name: p.default for p in loss.params if not p.modes} | {IGNORE: -100} | dict(given)
    known = {leaf.name for leaf in graph.leaves}
    sizes: dict[str, int] = {}
    for i in loss.inputs:
        if i.name in given:
            sizes |= dict(zip(i.axes, np.shape(given[i.name]), strict=True))
    for a in loss.axes:
        if a.size is not None and a.name not in sizes:
            size = a.size.attrs[0]
            sizes[a.name] = sizes[str(size)] if a.size.op == "size" else int(str(size))
    names = [n for n, _ in graph.outputs if n.startswith(prefix) and not n.startswith("default.")]
    return evaluate(graph, registry(), {k: v for k, v in leaves.items() if k in known}, names, "float64", sizes)


def value(text: str, given: Mapping[str, Any], modes: dict[str, str] | None = None) -> dict[str, Array]:
    """Rows, weight and aux values of the file with these declarations and body."""
    loss = checked(f"loss test\n{text}\n", modes)
    return _run(loss, lower(loss, registry()), given, "")


def rows(text: str, given: Mapping[str, Any], modes: dict[str, str] | None = None) -> Array:
    """The value of each row."""
    return value(text, given, modes)["rows"]


def gradients(text: str, given: Mapping[str, Any], upstream: Array) -> dict[str, Array]:
    """The gradient for each differentiable leaf of the sum of rows times `upstream`."""
    loss = checked(f"loss test\n{text}\n")
    graph = derive(lower(loss, registry()), registry()).graph
    found = _run(loss, graph, dict(given) | {"@rows": upstream}, "grad.")
    return {name[5:]: g for name, g in found.items()}


def close(a: Array, b: Array) -> None:
    """Equal to a few units in the last place of float64."""
    np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)
