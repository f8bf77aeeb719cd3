"""timm's losses by their documented formulas."""

from __future__ import annotations

from torch import Tensor

from tests.migrating.parts import bce, focal, logp, module, one_hot, sigmoid


@module
def LabelSmoothingCrossEntropy(x: Tensor, target: Tensor, smoothing: float) -> Tensor:
    smooth = (1 - smoothing) * one_hot(target) + smoothing / x.shape[1]
    return -(smooth * logp(x)).sum(1).mean()


@module
def SoftTargetCrossEntropy(x: Tensor, target: Tensor) -> Tensor:
    return -(target * logp(x)).sum(1).mean()


@module
def BinaryCrossEntropy(x: Tensor, target: Tensor, smoothing: float, sum_classes: bool = False) -> Tensor:
    each = bce(x, one_hot(target) if target.dim() == 1 else target)
    return each.sum(1).mean() if sum_classes else each.mean()


@module
def AsymmetricLossMultiLabel(x: Tensor, y: Tensor, gamma_neg: float, gamma_pos: float, clip: float) -> Tensor:
    p = sigmoid(x)
    shifted = (p - clip).clamp(min=0)
    positive = (1 - p) ** gamma_pos * p.log()
    negative = shifted**gamma_neg * (1 - shifted).log()
    return -(y * positive + (1 - y) * negative).sum() / len(x)


@module
def PolyCrossEntropy(x: Tensor, target: Tensor, epsilon: float) -> Tensor:
    logpt = (one_hot(target) * logp(x)).sum(1)
    return (-logpt + epsilon * (1 - logpt.exp())).mean()


@module
def PolyBinaryCrossEntropy(x: Tensor, y: Tensor, epsilon: float, gamma: float, alpha: float) -> Tensor:
    pt = y * sigmoid(x) + (1 - y) * (1 - sigmoid(x))
    extra = (alpha * y + (1 - alpha) * (1 - y)) * epsilon * (1 - pt) ** (gamma + 1)
    return (focal(x, y, alpha, gamma) + extra).mean()
