"""Losses as people write them whose numbers are finite where their exponentials are not, or are 0, in single precision:
value and gradient of the torch backend against the equation as it is written, at 110 digits."""

from __future__ import annotations

import numpy as np
import pytest

import lossdsl
from lossdsl.accuracy.exact import exact as exactly
from lossdsl.accuracy.exact import written
from lossdsl.accuracy.measure import run_torch
from lossdsl.accuracy.rows import Case
from lossdsl.api import registry

HEAD = "loss t\ninput z[N, C]\ninput t[N]: index C\np = softmax[C](z)\n"
LOSSES = {
    "a share by hand": "return exp(z[t]) / sum[C](exp(z))",
    "a share of the mean": "return exp(z[t]) / mean[C](exp(z))",
    "a mean by shares": "return sum[C](exp(z) * C) / sum[C](exp(z))",
    "the logarithm of a mean": "return log(mean[C](exp(z))) - z[t]",
    "log of collision, by what is left": "return log(1 - sum[C](p^2))",
    "log-odds the long way": "return log(1 + (1 - p[t]) / p[t])",
    "and by odds": "o = p[t] / (1 - p[t])\nreturn log(1 + 1 / o)",
    "a logistic loss by tanh": "return -log((1 + tanh(z[t] / 2)) / 2)",
    "a margin of probabilities": "return log(p[t]) - log(max[C](p where C != t))",
    "the entropy of the others": "q = softmax[C](z where C != t)\nreturn -sum[C](q * log(q) where C != t)",
}
ROWS = [[90, 0, 0, 0], [16, 0, 0, 0], [45, 0, 0, -45], [0, 90, 0, 0], [-30, -60, -90, -100], [300, 1, 0, 2]]
ROWS += [[0.5, -1, 2, 3], [-300, -301, -302, -305.5]]


@pytest.mark.parametrize("name", LOSSES)
def test_finite_where_the_exact_number_is(name: str) -> None:
    spec = lossdsl.loads(f"{HEAD}{LOSSES[name]}\n")
    loss = written(spec.checked, registry())
    module = lossdsl.loss(spec, backend="torch", reduction="none")
    leaves = {"z": np.repeat(np.array(ROWS, dtype=float), 2, axis=0), "t": np.arange(2 * len(ROWS)) % 2}
    case = Case("", {**leaves, "@ignore_index": np.asarray(-100)}, {"N": 2 * len(ROWS), "C": 4})
    should, found = exactly(loss, case), run_torch(loss, module, case, "float32")
    for what, values in should.values.items():
        x = values.astype(float)
        assert np.isfinite(found[what]).all(), (what, found[what])
        largest = np.abs(x) if what == "rows" else np.abs(x).max(1, keepdims=True)
        reach = np.ptp(case.leaves["z"], axis=1)  # of z - max z, of which a last place is a part of the exponential
        room = (2.0**-23 * (8 + (reach if what == "rows" else reach[:, None]))) * np.maximum(largest, 2.0**-100)
        assert (np.abs(found[what] - x) <= room).all(), (what, found[what], x)


def test_the_softmax_of_nothing_sums_to_nothing() -> None:
    """Counts that are all 0 have no share: log 0 everywhere, of which each share is 0, and so is their sum."""
    import torch

    spec = lossdsl.loads("loss t\ninput x[N, C] in [0, inf)\np = softmax(log(x))\nreturn sum[C](p) + sum[C](p - 1)\n")
    found = lossdsl.loss(spec, backend="torch", reduction="none")(torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 3.0]]))
    assert found.tolist() == [-2, 0, 0]


@pytest.mark.parametrize(
    ("line", "worth"),
    [
        ("logsumexp[C](if C == t then z else -1e30)", [2.0, 5.0]),
        ("clip(z[t], -1e30, 1e30)", [2.0, 5.0]),
        ("z[t] + 1e25", [1e25, 1e25]),
        ("z[t] + 1e19 * k", [3e19, 9e19]),
        ("if k < 1e19 then z[t] else 0", [2.0, 5.0]),
        ("(k + 1e19) / 1e19", [1.0, 1.0]),
        ("k * 1e18 * 10", [3e19, 9e19]),
        ("3^50", [3.0**50, 3.0**50]),
    ],
)
def test_large_whole_numbers_are_reals(line: str, worth: list[float]) -> None:
    """No int64 holds them: a mask of -1e30 was an integer that torch refused, and C++ had a remainder of it."""
    import torch

    spec = lossdsl.loads(f"loss q\ninput z[N, C]\ninput t[N]: index C\ninput k[N]: int\nreturn {line} + 0 * z[t]\n")
    z = torch.tensor([[1.0, 2.0, 3.0], [0.0, -1.0, 5.0]], dtype=torch.float64)
    found = lossdsl.loss(spec, backend="torch", reduction="none")(z, torch.tensor([1, 2]), torch.tensor([3, 9]))
    torch.testing.assert_close(found, torch.tensor(worth, dtype=torch.float64), rtol=1e-15, atol=0)
