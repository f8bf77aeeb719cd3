"""What stands between the launches for rows that no program can hold: orders and sums so far of whole tensors."""

from __future__ import annotations

import pytest
import torch

import lossdsl
from lossdsl.backends.triton.long import AT_ONCE, beyond, ordered, sums_so_far
from lossdsl.backends.triton.shapes import LONGEST_SORTED, ON_CHIP, SORTED, Demand

NAN = float("nan")


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("dim", [0, 1])
def test_sums_so_far(dim: int, backwards: bool) -> None:
    """Rows of two blocks and an entry over, along either dimension; whole numbers, and so exact."""
    torch.manual_seed(0)
    shape = [3, 3]
    shape[dim] = 2 * AT_ONCE + 1
    x = torch.randint(-9, 9, shape)
    for y in (x, x.double(), x.float()):
        wanted = torch.cumsum(y.flip(dim), dim).flip(dim) if backwards else torch.cumsum(y, dim)
        assert torch.equal(sums_so_far(y, dim, backwards), wanted)
    assert sums_so_far(x[:0], 1, backwards).shape == x[:0].shape


def test_orders() -> None:
    """Equal keys in their own order, both zeros among them; NaN as the largest; what is absent last."""
    keys = torch.tensor([[0.0, 2.0, -0.0, NAN, 2.0, -1.0]])
    assert ordered(keys, None, 1, False, 6).tolist() == [[5, 0, 2, 1, 4, 3]]
    assert ordered(keys, None, 1, True, 6).tolist() == [[3, 1, 4, 0, 2, 5]]
    present = torch.tensor([[True, False, True, False, True, True]])
    assert ordered(keys, present, 1, False, 6).tolist() == [[5, 0, 2, 4, 1, 3]]
    assert ordered(keys, present, 1, False, 2).tolist() == [[5, 0]]
    assert ordered(keys, present, 1, False, 8).tolist() == [[5, 0, 2, 4, 1, 3, 5, 5]]
    assert ordered(keys.t(), None, 0, False, 6).tolist() == [[5], [0], [2], [1], [4], [3]]


def test_which_rows_are_too_long() -> None:
    cpu = torch.device("cpu")
    assert not beyond([9, SORTED], SORTED, Demand(7), torch.float32, cpu)
    assert beyond([9, SORTED + 1], SORTED, Demand(7), torch.float32, cpu)
    assert not beyond([ON_CHIP], ON_CHIP, Demand(3), torch.float32, cpu)
    assert beyond([ON_CHIP], ON_CHIP, Demand(11), torch.float32, cpu)  # more is alive than there are registers for
    assert beyond([ON_CHIP], ON_CHIP, Demand(3), torch.float64, cpu)


def test_an_order_that_has_no_way_but_on_chip() -> None:
    """Its compiler would run out of memory: the axis is named, with its size and what to do."""
    loss = lossdsl.loss("crossmax", backend="triton")
    with pytest.raises(
        ValueError, match=f"the axis M has {LONGEST_SORTED + 1} entries, and .* take {LONGEST_SORTED} at"
    ):
        loss(torch.zeros(1, LONGEST_SORTED + 1, 2))
