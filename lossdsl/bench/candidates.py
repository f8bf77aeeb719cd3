"""What is timed: functions of a loss's tensors that give its value and its gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from lossdsl.pipeline import Built

IGNORED = -100  # as an index: none of what is drawn has it
Run = Callable[[Sequence[Tensor]], object]


def by_module(built: Built, places: Sequence[int]) -> Run:
    """Value and gradient through the module, as a training step asks for them."""
    module = built.artifact.load()
    loss = getattr(module, str(built.artifact.manifest["class"]))()
    return by_autograd(loss, places)


def by_autograd(function: Callable[..., Tensor], places: Sequence[int]) -> Run:
    """Value and the gradients of the tensors at `places`, by autograd; what isn't one number is averaged."""

    def run(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        value = function(*tensors)
        value = value.mean() if value.dim() else value  # of a map
        return (value.detach(), *torch.autograd.grad(value, [tensors[i] for i in places]))

    return run


class _Filled(torch.autograd.Function):
    """A tensor that is there, as if it had been computed from x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, filled: Tensor) -> Tensor:
        return filled.detach()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad, None


class InPlace:
    """Value and gradient over inputs that are computed; `before` fills these, which isn't timed."""

    def __init__(self, built: Built, places: Sequence[int]) -> None:
        if built.artifact.manifest["fresh"]:
            raise ValueError(f"{built.checked.name} can't be inplace: {built.artifact.manifest['fresh']}")
        self.loss = getattr(built.artifact.load(), str(built.artifact.manifest["class"]))(inplace=True)
        self.places = places
        self.rooms: dict[int, Tensor] = {}
        self.full = False

    def before(self, tensors: Sequence[Tensor]) -> None:
        for i in self.places:
            x = tensors[i].detach()
            if i not in self.rooms or self.rooms[i].shape != x.shape or self.rooms[i].dtype != x.dtype:
                self.rooms[i] = torch.empty_like(x)
            self.rooms[i].copy_(x)
        self.full = True

    def __call__(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        if not self.full:
            self.before(tensors)
        self.full = False
        leaves = [tensors[i] for i in self.places]
        given = list(tensors)
        for i in self.places:
            given[i] = _Filled.apply(tensors[i], self.rooms[i])  # type: ignore[no-untyped-call]
        value = self.loss(*given)
        return (value.detach(), *torch.autograd.grad(value, leaves))
