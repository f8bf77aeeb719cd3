"""Random tensors for a loss's inputs, within what its file says of them."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from lossdsl.check.typed import CheckedLoss, Input
from lossdsl.pipeline import Built


def draw(
    checked: CheckedLoss, sizes: Mapping[str, int], dtype: torch.dtype, device: str = "cpu", seed: int = 0
) -> list[Tensor]:
    """Random tensors for a loss's inputs, within what the file says of them; those with a gradient require it."""
    generator = torch.Generator().manual_seed(seed)
    return [_drawn(i, sizes, dtype, generator).to(device).requires_grad_(_differentiable(i)) for i in checked.inputs]


def scaled(tensors: list[Tensor], built: Built, spread: float) -> list[Tensor]:
    """The tensors (which are written over), those of heads such that logits have this standard deviation."""
    names = [i.name for i in built.checked.inputs]
    for head in built.heads:
        hidden, weight = tensors[names.index(head.hidden)], tensors[names.index(head.weight)]
        with torch.no_grad():
            hidden /= 2  # of what `draw` gives, which has 2
            weight *= spread / 2 / weight.shape[-1] ** 0.5
        tensors[names.index(head.bias)] = torch.zeros_like(tensors[names.index(head.bias)])  # and without a gradient
    return tensors


def _differentiable(i: Input) -> bool:
    return not i.fixed and (i.kind == "real" or i.kind.startswith("prob"))


def _drawn(i: Input, sizes: Mapping[str, int], dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    missing = [a for a in i.axes if a.rstrip("'") not in sizes]
    if missing:
        raise ValueError(f"{i.name} has the axis {missing[0]}, whose size isn't given")
    shape = [sizes[a.rstrip("'")] for a in i.axes]
    if i.kind == "bool":
        return torch.rand(shape, generator=generator) < 0.5
    if i.kind == "real" or i.kind.startswith("prob"):
        x = torch.randn(shape, generator=generator) * 2
        if i.kind.startswith("prob"):
            x = torch.softmax(x, -1)
        elif i.bounds is not None:
            low = i.bounds.low if math.isfinite(i.bounds.low) else min(0.0, i.bounds.high - 1)
            high = i.bounds.high if math.isfinite(i.bounds.high) else low + 1
            x = low + (high - low) * (0.05 + 0.9 * torch.rand(shape, generator=generator))
        return x.to(dtype)
    target = i.kind.partition(" ")[2]
    low = 0 if i.bounds is None or not math.isfinite(i.bounds.low) else int(i.bounds.low)
    return torch.randint(low, low + sizes.get(target, 4), shape, generator=generator)
