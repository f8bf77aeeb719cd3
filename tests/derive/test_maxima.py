"""The gradient of a largest probability: of logits that differ, one leads, though the probabilities round to one."""

from __future__ import annotations

import pytest
import torch

import lossdsl


@pytest.mark.parametrize("logits", ["z", "2 * z", "z / 3"])
def test_probabilities_that_are_equal_in_float32(logits: str) -> None:
    spec = lossdsl.loads(f"loss confidence\ninput z[N, C]\nreturn max[C](softmax[C]({logits}))\n")
    loss_fn = lossdsl.loss(spec, backend="torch", reduction="sum")
    z = torch.tensor([[0.0, 1e-20, -1e-20], [1e-20, 1e-20, 0.0]], requires_grad=True)
    loss_fn(z).backward()
    by = {"z": 1.0, "2 * z": 2.0, "z / 3": 1 / 3}[logits]
    wanted = torch.tensor([[-1 / 9, 2 / 9, -1 / 9], [1 / 18, 1 / 18, -1 / 9]]) * by  # p (e - p), ties share
    torch.testing.assert_close(z.grad, wanted, rtol=4 * 2.0**-23, atol=0)
