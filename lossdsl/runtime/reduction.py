"""The caller's reduction of the rows: mean, sum or none, and what a mean divides by."""

from __future__ import annotations

import math

import torch
from torch import Tensor

WORDS = ("mean", "sum", "none")
EMPTY = ("zero", "nan")
Denominator = str | float | int | Tensor


def check_options(reduction: str, denominator: Denominator, empty: str) -> None:
    """Raise ValueError for an option that means nothing."""
    if reduction not in WORDS:
        raise ValueError(f'reduction is "mean", "sum" or "none", not {reduction!r}')
    if empty not in EMPTY:
        raise ValueError(f'empty is "zero" or "nan", not {empty!r}')
    if isinstance(denominator, str):
        if denominator not in ("valid", "elements"):
            raise ValueError(
                'denominator is "valid", "elements", a number or a 0-d tensor, '
                f"not {denominator!r}"
            )
    elif isinstance(denominator, Tensor):
        if denominator.dim():
            raise ValueError(
                f"denominator is a 0-d tensor, not one of shape {_shape(denominator)}"
            )
        if denominator.requires_grad:
            raise ValueError(
                "denominator requires a gradient, but none is derived for it: "
                "pass denominator.detach()"
            )

    elif isinstance(denominator, bool) or (
        isinstance(denominator, (int, float)) and not 0 <= denominator < math.inf
    ):
        raise ValueError(
            f"denominator is a number from 0 on, or a 0-d tensor, not {denominator!r}"
        )


def check_class_dim(class_dim: int) -> None:
    """Raise ValueError for another place of the classes than before or after all."""
    if isinstance(class_dim, bool) or class_dim not in (1, -1):
        raise ValueError(f"class_dim is 1 or -1, not {class_dim!r}")


def _shape(x: Tensor) -> tuple[int, ...]:
    return tuple(x.shape)


def divisor(
    rows: Tensor, weight: Tensor | None, denominator: Denominator
) -> Tensor | float | int:
    """What a mean divides by: a float64 0-d tensor, or a number."""
    if isinstance(denominator, Tensor):
        return denominator.to(rows.device, torch.float64)
    if not isinstance(denominator, str):
        return denominator
    if denominator == "elements" or weight is None:
        return rows.numel()
    return weight.sum(dtype=torch.float64)


def share(
    count: int,
    weight: Tensor | None,
    denominator: Denominator,
    empty: str,
    device: torch.device,
) -> Tensor | float:
    """d(mean)/d(row) where no row is at hand: a float64 0-d tensor, or a number.

    `count` is that of the rows. A mean over nothing has 0, or NaN.
    """
    fill = 0.0 if empty == "zero" else float("nan")
    by: Tensor | float = count
    if isinstance(denominator, Tensor):
        by = denominator.to(device, torch.float64)
    elif not isinstance(denominator, str):
        by = denominator
    elif denominator == "valid" and weight is not None:
        by = weight.sum(dtype=torch.float64)
    if isinstance(by, Tensor):
        nothing = by == 0
        return by.masked_fill(nothing, 1.0).reciprocal().masked_fill(nothing, fill)
    return 1.0 / by if by else fill


def reduce(
    rows: Tensor,
    weight: Tensor | None,
    reduction: str,
    denominator: Denominator = "valid",
    empty: str = "zero",
) -> tuple[Tensor, Tensor | float]:
    """The reduced value, in the rows' dtype, and d(value)/d(row).

    Sums are taken in float64 and rounded once, so that neither a long batch nor a half
    dtype costs digits. A mean over nothing is 0 (or NaN) and still depends on the rows.
    """
    if reduction == "none":
        return rows, 1.0
    total = rows.sum(dtype=torch.float64)
    if reduction == "sum":
        return total.to(rows.dtype), 1.0
    by = divisor(rows, weight, denominator)
    fill = 0.0 if empty == "zero" else float("nan")
    if not isinstance(by, Tensor):
        if by == 0:
            nothing = torch.ones_like(total, dtype=torch.bool)
            return total.masked_fill(nothing, fill).to(rows.dtype), fill
        return (total / by).to(rows.dtype), 1.0 / by
    nothing = by == 0
    safe = by.masked_fill(nothing, 1.0)
    value = (total / safe).masked_fill(nothing, fill).to(rows.dtype)
    return value, safe.reciprocal().masked_fill(nothing, fill)


UNITS = {"b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}


def memory_bytes(memory: int | str) -> int:
    """A number of bytes, or a text such as "64MiB"; ValueError for another."""
    if isinstance(memory, int) and not isinstance(memory, bool):
        if memory > 0:
            return memory
    elif isinstance(memory, str):
        text = memory.strip().lower()
        digits = text.rstrip("kmgib ")
        unit = text[len(digits) :].strip() or "b"
        unit = unit if unit.endswith("ib") or unit == "b" else f"{unit.rstrip('b')}ib"
        if digits.isdigit() and int(digits) and unit in UNITS:
            return int(digits) * UNITS[unit]
    raise ValueError(f'memory is a number of bytes or like "64MiB", not {memory!r}')
