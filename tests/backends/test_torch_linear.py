"""Linear algebra in float64 with all around it, whatever dtype comes in."""

from __future__ import annotations

import pytest
import torch

import lossdsl

TEXT = """
loss rate
input z[N, D]
return logdet[D, D']((D == D') + 2 * sum[N](z * z[D -> D']))
"""


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_matrix_that_is_singular_in_single_precision(dtype: torch.dtype) -> None:
    """Vectors at 10^4, of which the differences are 1: the condition of their Gram matrix is 10^9."""
    torch.manual_seed(0)
    z = (1e4 + torch.randn(7, 4) * 64).to(dtype).requires_grad_()
    loss_fn = lossdsl.loss(lossdsl.loads(TEXT), backend="torch")
    value, exact = loss_fn(z), loss_fn(z.double())
    (grad,), (wanted,) = (torch.autograd.grad(v, z) for v in (value, exact))
    assert value.dtype == torch.float32
    assert grad.dtype == dtype
    assert torch.equal(value, exact.float())
    assert torch.equal(grad, wanted)
    assert wanted.abs().max() > 0
