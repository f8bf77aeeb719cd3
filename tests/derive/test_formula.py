"""What `explain` writes is the language: read back as a file, it has the values of the graph it was written from."""

from __future__ import annotations

import numpy as np
import pytest

from lossdsl.derive.formula import formulas, plain
from lossdsl.ir.graph import Graph
from lossdsl.ir.interpret import evaluate
from lossdsl.pipeline import middle
from lossdsl.plugins import discover
from lossdsl.source.text import Source
from tests.losses import FIRST

REGISTRY = discover({})
INTERNAL = {name for name, record in REGISTRY.primitives.items() if not record.public} - {"mul", "mulz"}
SIZES = {"N": 4, "C": 3}
# Gradients of other losses may hold operations that the graph has and the language has not (scatter, order, a root's
# unknown); these are shown as calls, which no file can say.


def values(graph: Graph) -> dict[str, np.ndarray]:
    """Reals between 0 and 1 (logits, probabilities and params alike), indices within range."""
    generator = np.random.default_rng(7)
    leaves = {}
    for leaf in graph.leaves:
        shape = [SIZES.get(axis, 3) for axis in leaf.axes]
        real, low = generator.uniform(0.2, 0.8, shape), 1 if leaf.type.kind == "int" else 0
        leaves[leaf.name] = real if leaf.type.kind == "real" else generator.integers(low, 3, shape)
    return leaves


def read_back(graph: Graph, output: str) -> Graph | None:
    """The graph of a map file that says what the formula says; None where it needs a function that isn't public."""
    written = formulas(graph, [output])
    text = "\n".join(f"{name.split('[')[0]} = {formula}" for name, formula in written.lets)
    [(_, result)] = written.outputs
    if any(f"{name}(" in f"{text}\n{result}" for name in INTERNAL):
        return None
    inputs = []
    for leaf in graph.leaves:
        axes = f"[{', '.join(leaf.axes)}]" if leaf.axes else ""
        kind = f": {leaf.type.kind}" if leaf.type.kind != "real" else ""
        inputs.append(f"input {leaf.name}{axes}{kind}")
    source = Source("<written>", "map written\nbatch N\n" + "\n".join(inputs) + f"\n{text}\nreturn {result}\n")
    return middle(source, REGISTRY).graph


@pytest.mark.parametrize("name", FIRST)
def test_a_formula_read_back_has_the_same_values(name: str):
    loss = REGISTRY.losses[f"std/{name}"]
    graph = plain(middle(Source(loss.path, loss.read()), REGISTRY).joint, REGISTRY)
    outputs = [output for output, _ in graph.outputs if output == "rows" or output.startswith("grad.")]
    compared = 0
    for output in outputs:
        again = read_back(graph, output)
        if again is None:
            continue
        leaves = values(graph)
        expected = evaluate(graph, REGISTRY, leaves, [output], sizes=SIZES)[output]
        got = evaluate(again, REGISTRY, leaves | {"@ignore_index": np.asarray(-100)}, ["rows"], sizes=SIZES)["rows"]
        assert np.broadcast_to(got, expected.shape) == pytest.approx(expected, rel=1e-12, abs=1e-14), output
        compared += 1
    assert compared or name in ("jsd", "kd_kl")


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
