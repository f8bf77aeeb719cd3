"""Functions that generated code may need: their source text is put before it, as private functions of the module."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def _arithmetic(*inputs: Tensor) -> torch.dtype:
    """The dtype to compute in: float64 if any input is, else float32."""
    wide = any(x.dtype == torch.float64 for x in inputs)
    return torch.float64 if wide else torch.float32


def _double(*inputs: Tensor) -> torch.dtype:
    """The dtype for what cancels in float32: float64, where the device has it."""
    return torch.float32 if inputs[0].device.type == "mps" else torch.float64


def _times(a: Tensor, b: Tensor) -> Tensor:
    """a * b, where 0 times infinity is 0."""
    return torch.where((a == 0) | (b == 0), 0, a * b)


def _sum(x: Tensor, dim: int | tuple[int, ...]) -> Tensor:
    """The sum over dimensions, added up in float64."""
    return x.sum(dim, dtype=torch.float64).to(x.dtype)


def _pick(x: Tensor, index: Tensor) -> Tensor:
    """The entry of each row, along the last dimension, that the index says."""
    return x.gather(-1, index[..., None]).squeeze(-1)


def _softmax_parts(z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Per row of the last dimension: its maximum m, the sum of exp(z - m) less the
    maximum's own term, and exp(z - m).

    Without that term, log1p(rest) and 1 + rest keep their digits when one class leads.
    A row of -inf has m = 0 and rest = -1.
    """
    if z.shape[-1] == 0:
        zero = z.sum(-1)
        return zero, zero - 1, z
    m, leader = z.max(-1, keepdim=True)
    nothing = m == -float("inf")
    m = torch.where(nothing, 0, m)
    e = torch.exp(z - m)
    rest = e.scatter(-1, leader, 0).sum(-1, keepdim=True, dtype=torch.float64)
    rest = torch.where(m == float("inf"), 0, rest)  # inf, not inf - inf
    rest = torch.where(nothing, -1, rest).to(z.dtype)
    return m.squeeze(-1), rest.squeeze(-1), e


def _amax(x: Tensor, dim: int) -> Tensor:
    """The maximum over a dimension; -inf where that is empty."""
    if x.shape[dim] == 0:
        return x.sum(dim) - float("inf")
    return x.amax(dim)


def _amin(x: Tensor, dim: int) -> Tensor:
    """The minimum over a dimension; inf where that is empty."""
    if x.shape[dim] == 0:
        return x.sum(dim) + float("inf")
    return x.amin(dim)


def _argmax(x: Tensor, dim: int) -> Tensor:
    """The index of the first maximum over a dimension; 0 where that is empty."""
    if x.shape[dim] == 0:
        return x.sum(dim).long()
    return x.argmax(dim)


def _inverse(x: Tensor) -> Tensor:
    """The inverse of each matrix, found in float64; NaN for one that has none."""
    inverse, failed = torch.linalg.inv_ex(x.double())
    return torch.where((failed != 0)[..., None, None], torch.nan, inverse).to(x.dtype)


def _solve(x: Tensor, right: Tensor) -> Tensor:
    """The solution of each system of equations, found in float64; NaN for a matrix without an inverse."""
    solution, failed = torch.linalg.solve_ex(x.double(), right.double())
    return torch.where((failed != 0)[..., None, None], torch.nan, solution).to(x.dtype)


def _root(f: Callable[[Tensor], Tensor], low: Tensor, high: Tensor) -> Tensor:
    """Where f, which rises or falls between low and high, is 0 for each element."""
    at_low = f(low)
    rises, left = at_low < 0, torch.where(at_low == 0, low, high)
    for _ in range(64):
        middle = low + (high - low) / 2
        value = f(middle)
        beyond = torch.where(rises, value >= 0, value <= 0)
        low, high = torch.where(beyond, low, middle), torch.where(beyond, middle, high)
    return torch.where(at_low == 0, left, high)


def _put(index: Tensor, values: Tensor, size: int) -> Tensor:
    """The sums of the values (in the last dimension) that share an index below size."""
    total = values.new_zeros((*values.shape[:-1], size), dtype=torch.float64)
    total = total.scatter_add(-1, index.expand(values.shape), values.to(torch.float64))
    return total.to(values.dtype)


def _order(key: Tensor, size: int, down: bool, present: Tensor | None) -> Tensor:
    """The first of the last dimension's indices by key, stable; those not present come
    last, and behind them, up to size, index 0.
    """
    order = key.argsort(dim=-1, descending=down, stable=True)
    if present is not None:
        absent = ~present.expand(key.shape).gather(-1, order)
        order = order.gather(-1, absent.int().argsort(dim=-1, stable=True))
    return torch.nn.functional.pad(order, (0, size - order.shape[-1]))
