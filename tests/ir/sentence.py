"""What the sentences of the language are compared with: a case, the tensors that it draws, and torch's words for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

HEAD = "loss t\ninput x[N, C]\ninput y[N]: index C\n"
PAIRS = "loss t\ninput x[N, D]\ninput y[N]: label\n"
INF = float("inf")


@dataclass(frozen=True)
class Case:
    """Lines behind a head, and what they are worth; `more` are inputs besides x and y, `how` the call's keywords."""

    lines: str
    worth: Callable[..., Tensor]
    head: str = HEAD
    more: dict[str, Tensor] = field(default_factory=dict)
    how: dict[str, Any] = field(default_factory=dict)


def draw(seed: int) -> dict[str, Tensor]:
    g = torch.Generator().manual_seed(seed)
    return {
        "x": torch.randn(5, 3, generator=g, dtype=torch.float64),
        "y": torch.randint(0, 3, (5,), generator=g),
    }


def real(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def hot(y: Tensor, n: int = 3) -> Tensor:
    return one_hot(y, n).double()


def at(x: Tensor, y: Tensor) -> Tensor:
    return x.gather(-1, y[..., None])[..., 0]


EYE = torch.eye(5, dtype=torch.bool)
MASK = torch.tensor([[1, 1, 0], [1, 0, 0], [0, 0, 0], [1, 1, 1], [0, 1, 0]], dtype=torch.bool)
FULLER = torch.tensor([[1, 1, 0], [1, 0, 0], [0, 1, 1], [1, 1, 1], [0, 1, 0]], dtype=torch.bool)
SOME = torch.tensor([True, False, True, True, False])


def same(y: Tensor) -> Tensor:
    return (y[:, None] == y[None]) & ~EYE


def present(x: Tensor) -> Tensor:
    return torch.where(x > -INF, x, 0)


def threshold(x: Tensor) -> Tensor:
    """The zero of sum sigmoid(x - t) - 1 by bisection, then one Newton step that carries the gradient."""
    low, high = torch.full(x.shape[:1], -50.0, dtype=x.dtype), torch.full(x.shape[:1], 50.0, dtype=x.dtype)
    for _ in range(80):
        t = (low + high) / 2
        more = torch.sigmoid(x.detach() - t[:, None]).sum(1) > 1
        low, high = torch.where(more, t, low), torch.where(more, high, t)
    s = torch.sigmoid(x - t[:, None])
    return t + (s.sum(1) - 1) / (s * (1 - s)).sum(1).detach()


def card(x: Tensor, y: Tensor, q: Tensor) -> Tensor:
    z = x / x.norm(dim=1, keepdim=True).clamp(min=1.0)
    z = z / 0.5 + q.log() - 0.35 * hot(y)
    gone = 1 - at(z.softmax(1), y)
    return cross_entropy(z, y) + (gone + 0.5 * gone**2).mean()
