"""Softmaxes at a temperature: the same numbers, of logits less their largest where that is of use."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import lossdsl
from lossdsl.api import registry
from lossdsl.derive.tempered import tempered
from lossdsl.ir.interpret import evaluate
from lossdsl.ir.lower import lower

SCALED = {
    "a literal": "logits / 3",
    "of opposites": "-0.3 * logits",
    "a param": "logits / t",
    "a param as factor": "logits * t",
    "a param below 0": "below * logits",
    "one a row": "logits / (target + 1/2)",
    "masked": "logits / t where C != 2",
    "within another": "log_softmax[C](logits / t) * t",
}
AS_IT_IS = {
    "no temperature": "logits",
    "a power of 2": "logits / 4",
    "of any sign": "any * logits",
    "one a class": "logits / (C + t)",
    "bounded": "tanh(logits) / t",
    "centred as it is written": "(logits - max[C](logits)) / t",
}
PARAMS = "param t = 3 in (0, inf)\nparam below = -7 in (-inf, 0]\nparam any = 2\n"
ROWS = [[0.3, -1.2, 2.0], [5.0, 5.0, -40.0], [-1e6, 3.0, -np.inf], [-np.inf] * 3]


def both(scaled: str) -> tuple[list[str], list[object]]:
    """The operations after, and the values before and after."""
    text = f"loss s\ninput logits[N, C]\ninput target[N]: index C\n{PARAMS}return softmax[C]({scaled})[target]\n"
    graph = lower(lossdsl.loads(text).checked, registry())
    given = {"logits": np.asarray(ROWS), "target": np.arange(4) % 3, "t": 3.0, "below": -7.0, "any": 2.0}
    number = np.vectorize(mpmath.mpf, otypes=[object])
    leaves = {name: x if name == "target" else number(x) for name, x in given.items()}
    leaves |= {leaf.name: np.asarray(-100) for leaf in graph.leaves if leaf.name == "@ignore_index"}
    after = tempered(graph, registry())
    names = [name for name, _ in graph.outputs]
    values = [evaluate(g, registry(), leaves, names, "mpmath", {"N": 4, "C": 3}) for g in (graph, after)]
    return [node.op for node in after.nodes], values


@pytest.mark.parametrize("scaled", [*SCALED.values(), *AS_IT_IS.values()], ids=[*SCALED, *AS_IT_IS])
@mpmath.workdps(60)
def test_the_same_numbers(scaled: str) -> None:
    ops, (before, after) = both(scaled)
    assert ("detach" in ops) == (scaled in SCALED.values())
    for name, x in before.items():
        for a, b in zip(np.ravel(x), np.ravel(after[name]), strict=True):
            assert (mpmath.isnan(a) and mpmath.isnan(b)) or abs(a - b) <= mpmath.mpf("1e-50") * abs(a), (name, a, b)
