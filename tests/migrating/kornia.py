"""kornia's losses by their documented formulas."""

from __future__ import annotations

import torch
from torch import Tensor

from tests.migrating.parts import focal, jaccard_gradient, logp, module, one_hot, overlap, reduced, softmax


@module
def FocalLoss(z: Tensor, target: Tensor, alpha: float | None, gamma: float, reduction: str) -> Tensor:
    weight = torch.ones(4) if alpha is None else torch.tensor([1 - alpha, alpha, alpha, alpha])
    each = -weight[:, None, None] * (1 - softmax(z)) ** gamma * logp(z)
    return reduced(each * one_hot(target), reduction)


@module
def BinaryFocalLossWithLogits(z: Tensor, t: Tensor, alpha: float, gamma: float, reduction: str) -> Tensor:
    return reduced(focal(z, t, alpha, gamma), reduction)


@module
def DiceLoss(z: Tensor, target: Tensor, average: str) -> Tensor:
    assert average == "macro"
    tp, fp, fn = overlap(softmax(z), one_hot(target), (2, 3))
    return (1 - 2 * tp / (2 * tp + fp + fn)).mean()


@module
def LovaszHingeLoss(z: Tensor, target: Tensor) -> Tensor:
    z, t = z.flatten(), target.flatten()
    errors = 1 - z * (2 * t - 1)
    return jaccard_gradient(torch.where(errors > 0, errors, 0.0 * errors), t) + 0 * errors.sum()


@module
def LovaszSoftmaxLoss(z: Tensor, target: Tensor) -> Tensor:
    truth, p = one_hot(target), softmax(z)
    each = [jaccard_gradient((truth[:, c] - p[:, c]).abs().flatten(), truth[:, c].flatten()) for c in range(4)]
    return torch.stack(each).mean()
