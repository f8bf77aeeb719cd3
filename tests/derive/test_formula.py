"""What `explain` writes is the language: read back as a file, it has the values of the graph it was written from."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest

from lossdsl.check.typed import CheckedLoss
from lossdsl.derive.formula import formulas, plain
from lossdsl.ir.graph import Graph
from lossdsl.ir.interpret import evaluate
from lossdsl.ir.lower import lower
from lossdsl.pipeline import front, middle
from lossdsl.plugins import discover
from lossdsl.source.text import Source
from tests.losses import sampled

REGISTRY = discover({})
ISLANDS = {"inverse", "scatter", "contract"}  # operations of the Graph that the language has no words for
INTERNAL = ISLANDS | {name for name, record in REGISTRY.primitives.items() if not record.public} - {"mul", "mulz"}
SIZES = {"N": 4, "C": 3}
PLAIN = {"cross_entropy", "focal", "brier", "bce", "generalized_cross_entropy", "sparsemax_loss", "emd2"}
LOSSES = [path.stem for path in sampled(20)]


def values(graph: Graph, checked: CheckedLoss) -> dict[str, np.ndarray]:
    """Params near their defaults (many of which are special values: at 0 a slope may be infinite, and its product with
    0, which the Graph has as 0, is written as any other); reals from 0 to 1, as logits and probabilities."""
    generator = np.random.default_rng(7)
    leaves: dict[str, np.ndarray] = {}
    for p in checked.params:
        if not p.modes:
            default = np.asarray(p.default)
            leaves[p.name] = default if p.integer else np.where(default == 0, 0.05, default) * 0.95
    for leaf in graph.leaves:
        if leaf.name not in leaves:
            shape = [SIZES.get(axis.rstrip("'"), 3) for axis in leaf.axes]
            real, low = generator.uniform(0.2, 0.8, shape), 1 if leaf.type.kind == "int" else 0
            leaves[leaf.name] = real if leaf.type.kind == "real" else generator.integers(low, 3, shape)
            if leaf.type.kind == "bool":
                leaves[leaf.name] = leaves[leaf.name] > 0
    return leaves


def read_back(graph: Graph, output: str) -> Graph | None:
    """The graph of a map file that says what the formula says; None where it needs a function that isn't public."""
    written = formulas(graph, [output])
    text = "\n".join(f"{name.split('[')[0]} = {formula}" for name, formula in written.lets)
    [(_, result)] = written.outputs
    if INTERNAL & set(re.findall(r"(\w+)[\[(]", f"{text}\n{result}")):
        return None
    inputs = []
    for leaf in graph.leaves:
        axes = f"[{', '.join(leaf.axes)}]" if leaf.axes else ""
        kind = f": {leaf.type.kind}" if leaf.type.kind != "real" else ""
        inputs.append(f"input {leaf.name}{axes}{kind}")
    bound = {axis.rstrip("'") for leaf in graph.leaves for axis in leaf.axes}
    inputs += [f"axis {axis} = {SIZES.get(axis, 3)}" for axis in graph.axes if axis.rstrip("'") not in bound]
    source = Source(
        "<written>",
        f"map written\nbatch {', '.join(graph.batch or sorted(bound)[:1])}\n"
        + "\n".join(inputs)
        + f"\n{text}\nreturn {result}\n",
    )
    return lower(front(source, REGISTRY).checked, REGISTRY)


@pytest.mark.parametrize("name", LOSSES)
def test_a_formula_read_back_has_the_same_values(name: str):
    loss = REGISTRY.losses[f"std/{name}"]
    made = middle(Source(loss.path, loss.read()), REGISTRY)
    graph = plain(made.joint, REGISTRY)
    outputs = [output for output, _ in graph.outputs if output == "rows" or output.startswith("grad.")]
    compared = 0
    for output in outputs:
        again = read_back(graph, output)
        if again is None:
            continue
        leaves = values(graph, made.checked)
        bound = {axis.rstrip("'") for leaf in graph.leaves for axis in leaf.axes}
        sizes = SIZES | {axis: 3 for axis in graph.axes if axis.rstrip("'") not in bound}
        expected = evaluate(graph, REGISTRY, leaves, [output], sizes=sizes)[output]
        got = evaluate(again, REGISTRY, leaves | {"@ignore_index": np.asarray(-100)}, ["rows"], sizes=sizes)["rows"]
        axes = graph.batch if output == "rows" else axes_of(graph, output)
        expected, got = spread(expected, axes, graph.axes), spread(got, again.batch, graph.axes)
        assert np.broadcast_to(got, expected.shape) == pytest.approx(expected, rel=1e-12, abs=1e-14, nan_ok=True), (
            output
        )
        compared += 1
    assert compared or name not in PLAIN


def axes_of(graph: Graph, output: str) -> tuple[str, ...]:
    return next(leaf.axes for leaf in graph.leaves if f"grad.{leaf.name}" == output)


def spread(array: np.ndarray, axes: Sequence[str], order: Sequence[str]) -> np.ndarray:
    """The array with a dimension for each axis of `order`, of size 1 where it has none."""
    present = [axis for axis in order if axis in axes]
    array = np.transpose(array, [list(axes).index(axis) for axis in present])
    return array.reshape([array.shape[present.index(axis)] if axis in present else 1 for axis in order])


def test_precedence_is_written_where_it_is_needed():
    source = Source(
        "<a>", "loss a\ninput x[N], y[N]\nreturn (x - (y - x)) / (x * (y / 3)) - (-x)^2 * 2^(-y) + (x^2)^y\n"
    )
    graph = plain(middle(source, REGISTRY).joint, REGISTRY)
    leaves = {"x": np.array([0.3, 0.7]), "y": np.array([0.9, 0.2])}
    again = read_back(graph, "rows")
    assert again is not None
    x, y = leaves["x"], leaves["y"]
    wanted = (x - (y - x)) / (x * (y / 3)) - (-x) ** 2 * 2 ** (-y) + (x**2) ** y
    assert evaluate(again, REGISTRY, leaves, ["rows"])["rows"] == pytest.approx(wanted, rel=1e-14)


def test_the_gradient_of_cross_entropy_reads_like_the_one_in_a_book():
    loss = REGISTRY.losses["std/cross_entropy"]
    graph = plain(middle(Source(loss.path, loss.read()), REGISTRY).joint, REGISTRY)
    written = formulas(graph, ["grad.logits"])
    assert written.lets == (("t1[N, C]", "log_softmax[C](logits)"),)
    assert written.outputs == (("grad.logits", "if C == target then expm1(t1[target]) else exp(t1)"),)
