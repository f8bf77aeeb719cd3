"""Random losses: rows that a condition or `ignore_index` leaves out are as if the caller had removed them.

The same Graph is run on all rows, those left out holding NaN, and on the others alone; value and gradient agree, for
losses that mix rows by copies N', statistics over the batch, sizes and orders.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.ir.compiled import gradients, reduce_rows, values

HEAD = """loss random
input x[N, C]
input w[N]
input c[C]
input target[N]: index C
input keep[N]: bool
axis N where keep
"""
SAME = ["tanh({})", "softplus({})", "sigmoid({})", "({} * 0.5)", "exp(tanh({}))", "relu({})"]
JOINED = ["({} + {})", "({} - {})", "({} * {})", "max({}, {})", "({} / (2 + sigmoid({})))"]
PAIRS = ["dot[C](x, x')", "tanh(w - w')", "w'", "sqdist[C](x, x')", "(if target == target' then w' else w)"]
MASKS = ["N != N'", "N' < N", "target == target'", "w' > w"]


def drawn(seed: int) -> dict[str, Any]:
    """Values for the inputs of HEAD, rows that don't count among them."""
    rng = np.random.default_rng(seed)
    return {
        "x": rng.normal(size=(6, 3)),
        "w": rng.normal(size=6),
        "c": rng.normal(size=3),
        "target": np.array([0, -100, 2, 1, 1, 0]),
        "keep": np.array([True, True, True, False, True, True]),
    }


class Draw:
    """Expressions at random, each with the axes that its name says."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)

    def of(self, *forms: str, **parts: str) -> str:
        return self.r.choice(forms).format(**parts)

    def elements(self, depth: int) -> str:
        if depth == 0:
            return self.of("x", "(x + w)", "(x * c)")
        match self.r.randrange(4):
            case 0:
                return self.of("softmax[C]({e})", "log_softmax[C]({e})", e=self.elements(depth - 1))
            case 1:
                return self.of(
                    "({e} - mean[N]({e}))",
                    "(if C == target then {e} else {w})",
                    "(if keep then {e} else {w})",
                    e=self.elements(depth - 1),
                    w=self.rows(depth - 1),
                )
            case 2:
                return self.r.choice(SAME).format(self.elements(depth - 1))
        return self.r.choice(JOINED).format(self.elements(depth - 1), self.rows(depth - 1))

    def rows(self, depth: int) -> str:
        if depth == 0:
            return self.of("w", "x[target]", "x[C -> 0]", "dot[C](x, c)")
        match self.r.randrange(6):
            case 0 | 1:
                form = self.r.choice(["sum", "mean", "max", "logsumexp", "min"]) + "[C]({})"
                return (form if self.r.random() < 0.7 else "({})[target]").format(self.elements(depth - 1))
            case 2:
                return self.r.choice(SAME).format(self.rows(depth - 1))
            case 3:
                return self.r.choice(JOINED).format(self.rows(depth - 1), self.between())
            case 4:
                return self.r.choice(JOINED).format(self.rows(depth - 1), self.scalar(depth - 1))
        return self.r.choice(JOINED).format(self.rows(depth - 1), self.rows(depth - 1))

    def between(self) -> str:
        """A value of each row that comes from the others."""
        reduction = self.r.choice(["sum", "mean", "logmeanexp", "count"])
        return f"{reduction}[N']({self.r.choice(PAIRS)} where {self.r.choice(MASKS)})"

    def scalar(self, depth: int) -> str:
        return self.of(
            "mean[N]({w})",
            "max[N]({w})",
            "sum[N]({w})",
            "logmeanexp[N]({w})",
            "var[N]({w})",
            "mean[N]({w} where {w} > 0)",
            "sum[K](({w})[descending[N -> K]({w})] / (K + 1))",
            "sum[K](cumsum[K](({w})[ascending[N -> K]({w})]) / (K + 1))",
            "(1 / size(N))",
            "sum[N](N >= 0)",
            w=self.rows(depth),
        )

    def returned(self) -> str:
        return self.of(
            "{w}",
            "sum[N]({w})",
            "mean[N]({w} where w > 0)",
            "mean[N]({w} weighted sigmoid(w))",
            "sqrt(1 + mean[N](({w})^2))",
            "mean[N, C]({e})",
            w=f"({self.rows(3)} + w)",
            e=f"({self.elements(2)} + x)",
        )


def slopes(text: str, leaves: dict[str, Any]) -> dict[str, Any]:
    """Gradients for some cotangents of rows and weight, and under "" the loss."""
    out = values(text, leaves)
    rows = np.asarray(out["rows"])
    seeds = {"@rows": np.full(rows.shape, 0.7), "@weight": np.full(rows.shape, -0.3)}
    return gradients(text, leaves, seeds) | {"": reduce_rows(text, out)}


@pytest.mark.parametrize("seed", range(60))
def test_random_losses(seed: int) -> None:
    text = f"{HEAD}return {Draw(seed).returned()}\n"
    rng = np.random.default_rng(seed)
    fill = [np.nan, np.inf, 1e30][seed % 3]
    n, classes = 6, 3
    there = rng.random(n) > 0.35
    keep = there | (rng.random(n) > 0.5)  # some that are not there are kept, but have an ignored target
    leaves = {
        "x": rng.normal(size=(n, classes)),
        "w": rng.normal(size=n),
        "c": rng.normal(size=classes),
        "target": rng.integers(0, classes, n),
        "keep": keep,
    }
    alone = {k: v if k == "c" else v[there] for k, v in leaves.items()} | {"keep": np.ones(there.sum(), bool)}
    leaves["x"][~there], leaves["w"][~there], leaves["target"][~there & keep] = fill, fill, -100
    found, wanted = slopes(text, leaves), slopes(text, alone)
    scale = max(1.0, *(float(np.max(np.abs(v), initial=0, where=np.isfinite(v))) for v in wanted.values()))
    for name, gradient in found.items():
        if name in ("x", "w"):
            assert not gradient[~there].any(), f"{name}: a row that isn't there has the gradient {gradient[~there]}"
            gradient = gradient[there]
        np.testing.assert_allclose(gradient, wanted[name], rtol=1e-9, atol=1e-11 * scale, err_msg=f"{name}: {text}")
