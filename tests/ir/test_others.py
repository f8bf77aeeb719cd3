"""p / (1 - p_y) of rows and columns that have changed places: the softmax of the others, of whatever rows."""

from __future__ import annotations

import pytest
import torch

import lossdsl

TEXT = """
loss away
input x[N, D]
input z[N, M]
t    = detach(softmax[N'](3 * dot[D](x, x')))
rest = t / sum[N'](t where N != N')
s    = dot[M](z, z')
back = s[N -> N', N' -> N]
return sum[N'](rest * (log(rest) - log_softmax[N'](back where N != N')) where N != N')
"""


@pytest.mark.parametrize("rows", [2, 4])
def test_of_rows_that_were_columns(rows: int) -> None:
    """Of two rows each has one other, whose share is 1: the gradient is 0, and was 10^-8."""
    torch.manual_seed(0)
    x, z = torch.randn(rows, 3), torch.randn(rows, 3, requires_grad=True)
    loss_fn = lossdsl.loss(lossdsl.loads(TEXT), backend="torch", reduction="sum")
    (found,) = torch.autograd.grad(loss_fn(x, z), z)
    wide = z.detach().double().requires_grad_()
    (exact,) = torch.autograd.grad(loss_fn(x.double(), wide), wide)
    torch.testing.assert_close(found.double(), exact, rtol=32 * 2.0**-23, atol=0)
