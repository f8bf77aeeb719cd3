"""Losses that a common offset doesn't change are computed without it: what they give at 10^6 is what they give at 0."""

from __future__ import annotations

import pytest
import torch

import lossdsl
from lossdsl.api import registry
from lossdsl.derive.centring import centred
from lossdsl.ir.lower import lower

SPARSE = (
    "entmax",
    "entmax15",
    "sparsemax",
    "normmax",
    "entmax_loss",
    "entmax15_loss",
    "sparsemax_loss",
    "normmax_loss",
)


@pytest.mark.parametrize("name", [*SPARSE, "pdu_forget"])
def test_an_offset_is_not_felt(name: str) -> None:
    """Multiples of 1/16, which 10^6 leaves as they are: value and gradient are the same, bit for bit."""
    z = torch.tensor([[1.0, 0.5, -1.25, 0.9375], [0.0, 0.0, 3.0, -2.0]])
    loss_fn = lossdsl.loss(name, backend="torch")
    target = (torch.tensor([0, 3]),) if "loss" in name else ()
    found = []
    for offset in (0.0, 1e6, -1e6):
        logits = (z + offset).requires_grad_()
        value = loss_fn(logits, *target)
        weight = torch.linspace(1, 2, value.numel()).reshape(value.shape)
        (gradient,) = torch.autograd.grad((value * weight).sum(), logits)
        found.append((value, gradient))
    for value, gradient in found[1:]:
        assert torch.equal(value, found[0][0])
        assert torch.equal(gradient, found[0][1])


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("return max[C](z) - mean[C](z)\nclaim shift_invariant(z)", True),
        ("return max[C](z) - mean[C](z)", False),  # no rule shows it, and the file doesn't say so
        ("return max[C](z) - mean[C](z) + 0*sqrt(25 - max[C](z))\nclaim shift_invariant(z)", True),  # folded away
        ("return max[C](z) - mean[C](z) + sign(sqrt(25 - max[C](z))) - 1\nclaim shift_invariant(z)", False),  # or none
        ("return max[C](z)^2\nclaim shift_invariant(z)", False),  # the file is wrong
        ("return max[C](z) - mean[C](z) + relu(max[C](z) - 25)\nclaim shift_invariant(z)", False),  # wrong from 25 on
        ("return max[C](z) - mean[C](z) + relu(-99 - max[C](z))\nclaim shift_invariant(z)", False),
        ("return max[C](z) - mean[C](z) + (size(C) - 2) * mean[C](z)\nclaim shift_invariant(z)", False),  # for three on
        ("return max[C](z) - min[C](z)\nclaim shift_invariant(z)", False),  # differences lose nothing
        ("return root(t in [max[C](z) - 1, max[C](z)]: sum[C](relu(z - t)) - 1)", False),  # moves with z
        ("t = root(t in [max[C](z) - 1, max[C](z)]: sum[C](relu(z - t)) - 1)\nreturn max[C](z) - t", True),
    ],
)
def test_only_where_nothing_changes(text: str, changes: bool) -> None:
    checked = lossdsl.loads(f"loss l\ninput z[N, C]\n{text}\n").checked
    graph = lower(checked, registry())
    assert (centred(graph, checked, registry()) is not graph) == changes
