"""Σ e^(z - m)·(z - m) carried with the log-sum-exp: entropies of rows whose maximum grows from block to block."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import lossdsl
from lossdsl.pipeline import build
from lossdsl.plugins import discover
from lossdsl.source.text import Source

TEXT = """loss row_entropy
input logits[N, C]
return entropy(softmax(logits))
"""


def rows(kind: str, c: int) -> Tensor:
    torch.manual_seed(c)
    z = torch.randn(19, c) * 3
    if kind in ("growing", "falling"):
        z = z.sort(dim=1, descending=kind == "falling").values
    if kind == "late":  # whole blocks before the first number
        z[:, : c - 1 - c // 3] = -torch.inf
    if kind == "sharp":  # one class leads, and the entropy is small: its digits are those of the sum without that class
        z[:, -1] += 40
    if kind == "far":
        z += 1000
    return z


def entropy(z: Tensor) -> tuple[Tensor, Tensor]:
    """Each row's entropy, log Σ e - Σ e·g / Σ e with g = z - max z, and its derivative p·(Σ e·g / Σ e - g)."""
    g = z - z.max(dim=1, keepdim=True).values
    e = g.exp()
    others = e.scatter(1, g.argmax(dim=1, keepdim=True), 0).sum(dim=1, keepdim=True)
    g = g.clamp_min(-1e4)  # where z is -inf, e is 0
    mean = (e * g).sum(dim=1, keepdim=True) / (1 + others)
    return (others.log1p() - mean).squeeze(1), e / (1 + others) * (mean - g)


@pytest.mark.parametrize("kind", ["plain", "growing", "falling", "late", "sharp", "far"])
@pytest.mark.parametrize("c", [10, 100, 5003])
def test_entropy_and_its_gradient(kind: str, c: int) -> None:
    """In units of the row's entropy and of its largest derivative: a sum of floats, four at a time, is 2 ulp off, and
    what is left are exp, log1p and two quotients. z - m is rounded, by 2e-6 near 40: its exponential's error."""
    z, bound = rows(kind, c), 4e-6 if kind == "sharp" else 1e-6
    wanted, wanted_grad = entropy(z.double())
    spec = lossdsl.loads(TEXT)
    found = lossdsl.loss(spec, backend="cpu", reduction="none")(z)
    assert ((found - wanted).abs() / wanted).max() < bound
    own = z.clone().requires_grad_()
    (grad,) = torch.autograd.grad(lossdsl.loss(spec, backend="cpu", reduction="sum")(own), [own])
    scale = wanted_grad.abs().max(dim=1, keepdim=True).values
    assert ((grad - wanted_grad).abs() / scale).max() < bound


def test_a_row_of_nothing_has_no_entropy() -> None:
    z = torch.full((3, 70), -torch.inf, requires_grad=True)
    value = lossdsl.loss(lossdsl.loads(TEXT), backend="cpu", reduction="sum")(z)
    (grad,) = torch.autograd.grad(value, [z])
    assert value == 0
    assert (grad == 0).all()


def test_the_sum_needs_no_sweep_of_its_own() -> None:
    made = build(Source("row_entropy.loss", TEXT), discover(), "cpu")
    both = made.emitted.functions.split("_BOTH = Kernel(")[1].split("@_BOTH")[0]
    assert both.count("for (int i_C") == 3  # in lanes: the maximum, the sums, the gradient
    assert "_all.block(" in both
