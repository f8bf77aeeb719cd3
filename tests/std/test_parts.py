"""Parts of a softmax in float32, on torch: logarithms of some classes' probability, of the others', of each one's rest.

Value and gradient against the equation at 110 digits, within the bars of `lossdsl check --accuracy` and with none of
its reasons (but a value, as an entry of a gradient, may be off by its softplus's argument's last place): gaps of up to
200, where neither p nor 1 - p is a number of float32.
"""

from __future__ import annotations

import numpy as np
import pytest

import lossdsl
from lossdsl.accuracy.exact import exact, written
from lossdsl.accuracy.measure import Report, judge, run_torch
from lossdsl.accuracy.rows import Case
from lossdsl.api import registry

BODIES = {
    "the others of one": "-log(1 - p[target])",
    "one, from the others": "-log(1 - sum[C](p where C != target))",
    "the first": "-log(sum[C](p where C < 2))",
    "all but the first": "-log(1 - sum[C](p where C < 2))",
    "two classes": "-log(p[C -> 0] + p[C -> 1])",
    "three classes": "-log(p[C -> 0] + p[C -> 1] + p[C -> 2])",
    "all but two": "-log(1 - p[C -> 0] - p[C -> 1])",
    "two that may be one": "-log(p[target] + p[C -> 0] * (target != 0))",
    "each one's rest": "-sum[C](log(1 - p) where C != target)",
}
ROWS = [
    [1e6, 1e6 + 2, 1e6 - 1, 1e6 + 7],
    [16.0, 0.0, 0.0, 0.0],
    [90.0, 0.0, 0.0, 0.0],
    [0.0, 90.0, -1.0, 0.5],
    [-90.0, 0.0, 0.0, 0.0],
    [200.0, 0.0, 0.5, -200.0],
    [0.3, -1.2, 2.0, 0.5],
    [20.0, 20.5, 0.0, 1.0],
]


GIVEN = {"t": 3.0, "s": 0.3125, "below": -7.0}
PARAMS = "param t = 3 in (0, inf)\nparam s = 0.3125 in [0, inf)\nparam below = -7 in (-inf, 0)\n"


def measured(body: str, rows: list[list[float]]) -> Report:
    text = f"loss part\ninput logits[N, C]\ninput target[N]: index C\n{PARAMS}p = softmax[C](logits)\nreturn {body}\n"
    spec = lossdsl.loads(text)
    loss = written(spec.checked, registry())
    module = lossdsl.loss(spec, backend="torch", reduction="none")
    report = Report("part", "torch", "float32", excusing=False)
    for target in (0, 1):
        logits = np.asarray(rows, dtype=np.float32).astype(np.float64)
        leaves = {"logits": logits, "target": np.full(len(rows), target), "@ignore_index": np.asarray(-100)}
        leaves |= {name: np.asarray(value) for name, value in GIVEN.items()}
        case = Case(f"target {target}", leaves, {"N": len(rows), "C": 4})
        judge(report, loss, case, exact(loss, case), run_torch(loss, module, case, "float32"))
    return report


@pytest.mark.parametrize("what", BODIES)
def test_in_single_precision(what: str) -> None:
    report = measured(BODIES[what], ROWS)
    assert report.value.error <= 8 + 20, report.value
    assert report.gradient.part <= 1, report.gradient
    assert not report.infinite.count, report.infinite


TEMPERED = {
    "3": "-log_softmax[C](logits / 3)[target]",
    "0.3": "-log_softmax[C](0.3 * logits)[target]",
    "-3": "-log_softmax[C](-logits / 3)[target]",
    "0.001": "-log_softmax[C](logits / 0.001)[target]",
    "a pair": "logsumexp[C](logits / 7) - logits[target] / 7",
    "a param": "-log_softmax[C](logits / t)[target]",
    "a param as factor": "-log_softmax[C](logits * s)[target]",
    "a param below 0": "-log_softmax[C](logits / below)[target]",
    "one a row": "-log_softmax[C](logits * (size(C) / (t + target)))[target]",
    "two, compared": "kl(softmax[C](logits / t), softmax[C](logits / (t + 40)))",
    "with a mask": "-log_softmax[C](logits / t where C != 3)[target]",
    "an entropy": "-sum[C](softmax[C](logits / t) * log_softmax[C](logits / t))",
}
OFFSET = [[c, c + 1, c - 2, c + 0.5] for c in (1e2, -1e4, 1e6, -1e6)]


@pytest.mark.parametrize("what", TEMPERED)
def test_offsets_at_a_temperature(what: str) -> None:
    """z/T was rounded at the size of the offset: 0.4399 for 0.4395 at 10^6, thousands of last places."""
    report = measured(TEMPERED[what], OFFSET)
    assert max(report.value.part, report.gradient.part) <= 1, report


@pytest.mark.parametrize("claim", ["", "claim shift_invariant(z)\n"])
def test_the_maximum_is_taken_once(claim: str) -> None:
    """Not again on what that gave, when its `detach` is gone; nor for the claim that an offset changes nothing."""
    spec = lossdsl.loads(f"loss t\ninput z[N, C]\ninput y[N]: index C\nreturn -log_softmax[C](z / 3)[y]\n{claim}")
    found = [node.attrs[0] for node in written(spec.checked, registry()).rewritten.nodes if node.op == "reduce"]
    assert found.count("max") == 1
