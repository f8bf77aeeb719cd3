"""First and second derivatives through `root` against the closed forms of what it solves."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import lossdsl

X = torch.tensor([[0.3, 1.1, -0.2], [2.0, 0.5, 0.4]], dtype=torch.float64)
ROW = "loss l\ninput x[N, C]\nlo = max[C](x)\n"
CASES: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {
    "logsumexp": (
        ROW + "return root(t in [lo, lo + 5]: sum[C](exp(x - t)) - 1)",
        lambda x: torch.logsumexp(x, -1),
    ),
    "its square": (
        ROW + "return root(t in [lo, lo + 5]: sum[C](exp(2 * x - 2 * t)) - 1)^2",
        lambda x: (torch.logsumexp(2 * x, -1) / 2) ** 2,
    ),
    "of a product": (
        ROW + "return root(t in [0, 9]: lo * t - 1)",
        lambda x: 1 / x.max(-1).values,
    ),
    "a root in a root": (
        ROW + "a = root(t in [0, 9]: lo * t - 1)\nreturn root(t in [0, 9]: a * t^3 - 1)",
        lambda x: x.max(-1).values ** (1 / 3),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_derivatives(case: str) -> None:
    text, closed = CASES[case]
    loss = lossdsl.loss(lossdsl.loads(text + "\n"), backend="torch", reduction="sum")
    for derivative in (torch.autograd.functional.jacobian, torch.autograd.functional.hessian):
        found, expected = derivative(loss, X), derivative(lambda x: closed(x).sum(), X)
        assert (found - expected).abs().max() <= 1e-13 * expected.abs().max()
