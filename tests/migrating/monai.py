"""MONAI's losses by their documented formulas, with their default smoothing of 1e-5 above and below."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests.migrating.parts import focal, logp, module, one_hot, overlap, sigmoid, softmax, unit

SMOOTH = 1e-5


def _both(z: Tensor, target: Tensor, options: dict[str, Any]) -> tuple[Tensor, Tensor]:
    truth = one_hot(target[:, 0]) if options.pop("to_onehot_y", False) else target
    if options.pop("softmax", False):
        return softmax(z), truth
    assert options.pop("sigmoid")
    return sigmoid(z), truth


@module
def DiceLoss(
    z: Tensor, target: Tensor, batch: bool = False, squared_pred: bool = False, jaccard: bool = False, **how: Any
) -> Tensor:
    p, t = _both(z, target, how)
    over = (0, 2, 3) if batch else (2, 3)
    both = (p * t).sum(over)
    each = (p**2 + t**2 if squared_pred else p + t).sum(over)
    below = 2 * (each - both) if jaccard else each
    return (1 - (2 * both + SMOOTH) / (below + SMOOTH)).mean()


@module
def GeneralizedDiceLoss(z: Tensor, target: Tensor, batch: bool, **how: Any) -> Tensor:
    p, t = _both(z, target, how)
    w = 1 / t.sum((0, 2, 3)) ** 2
    both, each = (p * t).sum((0, 2, 3)), (p + t).sum((0, 2, 3))
    return 1 - (2 * (w * both).sum() + SMOOTH) / ((w * each).sum() + SMOOTH)


@module
def TverskyLoss(z: Tensor, target: Tensor, batch: bool, alpha: float, beta: float, **how: Any) -> Tensor:
    tp, fp, fn = overlap(*_both(z, target, how), (0, 2, 3))
    return (1 - (tp + SMOOTH) / (tp + alpha * fp + beta * fn + SMOOTH)).mean()


@module
def DiceCELoss(z: Tensor, target: Tensor, lambda_ce: float, **how: Any) -> Tensor:
    ce = -(one_hot(target[:, 0]) * logp(z)).sum(1).mean()
    return DiceLoss(**how)(z, target) + lambda_ce * ce


@module
def FocalLoss(
    z: Tensor,
    target: Tensor,
    gamma: float = 2,
    alpha: float | None = None,
    use_softmax: bool = False,
    to_onehot_y: bool = False,
) -> Tensor:
    if not use_softmax:
        return focal(z, target, alpha, gamma).mean()
    truth = one_hot(target[:, 0])
    return (-((1 - softmax(z)) ** gamma) * logp(z) * truth).mean()


@module
def DiceFocalLoss(z: Tensor, target: Tensor, lambda_focal: float, **how: Any) -> Tensor:
    return DiceLoss(**how)(z, target) + lambda_focal * FocalLoss()(z, target)


@module
def ContrastiveLoss(a: Tensor, b: Tensor, temperature: float) -> Tensor:
    z = unit(torch.cat([a, b]))
    s = (z @ z.T / temperature).exp()
    n = len(a)
    pairs = torch.cat([s.diagonal(n), s.diagonal(-n)])
    return -(pairs / (s.sum(1) - s.diagonal())).log().mean()
