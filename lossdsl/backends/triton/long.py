"""Rows that are longer than a program can hold, where a loss needs their order or sums so far: part of the run time of
generated modules."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lossdsl.backends.triton.lanes import sums_so_far_
from lossdsl.backends.triton.launch import FORCED, on_device, properties
from lossdsl.backends.triton.shapes import Demand, too_long

AT_ONCE = 1024  # entries of a row that are added up at a time


def beyond(extents: Sequence[int], limit: int, demand: Demand, real: torch.dtype, device: torch.device) -> bool:
    """Whether rows of these lengths are too long for the kernels that have them on chip."""
    forced = FORCED.get()
    if forced and "kind" in forced:
        return bool(forced["kind"] == "blocks")
    return too_long(max(extents), limit, demand, real == torch.float64, properties(device))


def ordered(keys: Tensor, present: Tensor | None, dim: int, backwards: bool, ranks: int) -> Tensor:
    """The places along a dimension of the least (`backwards`: the largest) key, of the next, …, of equal ones the first
    first; what isn't present comes last. A NaN counts as the largest. `ranks`: how many; more than there are give the
    first again."""
    plain = torch.where(keys == 0, torch.zeros_like(keys), keys)  # -0 is 0
    plain = torch.where(keys != keys, torch.full_like(keys, float("nan")), plain)
    order = torch.sort(plain, dim=dim, descending=backwards, stable=True).indices
    if present is not None:
        absent = (~present).to(torch.uint8).gather(dim, order)
        order = order.gather(dim, torch.sort(absent, dim=dim, stable=True).indices)
    count = keys.shape[dim]
    if ranks > count > 0:
        first = order.narrow(dim, 0, 1)
        return torch.cat([order, *[first] * (ranks - count)], dim)
    return order.narrow(dim, 0, ranks)


def sums_so_far(x: Tensor, dim: int, backwards: bool) -> Tensor:
    """Sums of the entries up to each along a dimension (`backwards`: from each on) of a tensor that lies plainly."""
    y = torch.empty_like(x)
    n, inner = x.shape[dim], x.stride(dim)
    if x.numel():
        grid = (x.numel() // n,)
        with on_device(x.device):
            sums_so_far_[grid](x, y, n, inner, BACKWARDS=backwards, B=AT_ONCE)
    return y
