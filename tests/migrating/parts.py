"""What the libraries' documented formulas have in common, in float64 and plain torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def reduced(rows: Tensor, reduction: str) -> Tensor:
    return rows.mean() if reduction == "mean" else rows.sum() if reduction == "sum" else rows


def one_hot(target: Tensor, classes: int = 4) -> Tensor:
    """The classes in a dimension of their own, the second."""
    return torch.stack([(target == c).double() for c in range(classes)], 1)


def logp(z: Tensor, dim: int = 1) -> Tensor:
    return z - z.exp().sum(dim, keepdim=True).log()


def softmax(z: Tensor, dim: int = 1) -> Tensor:
    return z.exp() / z.exp().sum(dim, keepdim=True)


def sigmoid(z: Tensor) -> Tensor:
    return 1 / (1 + (-z).exp())


def softplus(z: Tensor) -> Tensor:
    return (1 + z.exp()).log()


def bce(z: Tensor, t: Tensor) -> Tensor:
    return -(t * sigmoid(z).log() + (1 - t) * (1 - sigmoid(z)).log())


def focal(z: Tensor, t: Tensor, alpha: float | None, gamma: float) -> Tensor:
    """The binary focal loss of every entry."""
    pt = sigmoid(z) * t + (1 - sigmoid(z)) * (1 - t)
    weight = 1 if alpha is None else alpha * t + (1 - alpha) * (1 - t)
    return -weight * (1 - pt) ** gamma * pt.log()


def overlap(p: Tensor, t: Tensor, over: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    """True positives, false positives, false negatives."""
    return (p * t).sum(over), (p * (1 - t)).sum(over), ((1 - p) * t).sum(over)


def jaccard_gradient(errors: Tensor, truth: Tensor) -> Tensor:
    """The Lovász extension of the Jaccard loss: errors in falling order times the steps of the Jaccard index."""
    order = errors.argsort(descending=True)
    truth = truth[order]
    positives, before, total = truth.sum(), torch.tensor(0.0, dtype=torch.float64), torch.tensor(0.0)
    taken = union = 0.0
    for error, t in zip(errors[order], truth, strict=True):
        taken, union = taken + float(t), union + float(1 - t)
        jaccard = 1 - (positives - taken) / (positives + union)
        total, before = total + error * (jaccard - before), jaccard
    return total


def unit(x: Tensor) -> Tensor:
    return x / (x * x).sum(-1, keepdim=True).sqrt()


def simplex_root(f: Callable[[Tensor], Tensor], low: Tensor, high: Tensor) -> Tensor:
    """The t of each row with f(t) = 1, f falling, by bisection and one Newton step that carries the gradient."""
    a, b = low.detach(), high.detach()
    for _ in range(80):
        middle = (a + b) / 2
        above = f(middle).detach() > 1
        a, b = torch.where(above, middle, a), torch.where(above, b, middle)
    t = ((a + b) / 2).requires_grad_()
    (slope,) = torch.autograd.grad(f(t).sum(), t, retain_graph=True)
    return t.detach() - (f(t.detach()) - 1) / slope.detach()


def module(call: Callable[..., Any]) -> Callable[..., Any]:
    """A formula `call(*tensors, **options)` as a class that takes its options first."""
    return lambda **options: lambda *tensors: call(*tensors, **options)
