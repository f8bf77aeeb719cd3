"""The losses of segmentation_models_pytorch by their documented formulas, where every class occurs."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from tests.migrating import kornia
from tests.migrating.parts import bce, logp, one_hot, overlap, sigmoid, softmax
from tests.migrating.parts import focal as binary_focal

Call = Callable[[Tensor, Tensor], Tensor]


def _counts(mode: str, z: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return overlap(*((softmax(z), one_hot(target)) if mode == "multiclass" else (sigmoid(z), target)), (0, 2, 3))


def TverskyLoss(mode: str, smooth: float = 0, alpha: float = 0.5, beta: float = 0.5, gamma: float = 1) -> Call:
    def call(z: Tensor, target: Tensor) -> Tensor:
        tp, fp, fn = _counts(mode, z, target)
        return (1 - (tp + smooth) / (tp + alpha * fp + beta * fn + smooth)).mean() ** gamma

    return call


def DiceLoss(mode: str, smooth: float = 0) -> Call:
    return TverskyLoss(mode, smooth)


def JaccardLoss(mode: str) -> Call:
    return TverskyLoss(mode, alpha=1, beta=1)


def FocalLoss(mode: str, alpha: float | None = None, gamma: float = 2) -> Call:
    return lambda z, t: binary_focal(z, t, alpha, gamma).mean()


def softmax_focal_loss_with_logits(z: Tensor, target: Tensor, gamma: float) -> Tensor:
    return (-((1 - softmax(z)) ** gamma) * logp(z) * one_hot(target)).sum(1).mean()


def LovaszLoss(mode: str) -> Call:
    made: Call = kornia.LovaszSoftmaxLoss() if mode == "multiclass" else kornia.LovaszHingeLoss()
    return made


def SoftBCEWithLogitsLoss(smooth_factor: float = 0) -> Call:
    return lambda z, t: bce(z, t * (1 - smooth_factor) + (1 - t) * smooth_factor).mean()


def SoftCrossEntropyLoss(smooth_factor: float) -> Call:
    def call(z: Tensor, target: Tensor) -> Tensor:
        smooth = (1 - smooth_factor) * one_hot(target) + smooth_factor / z.shape[1]
        return -(smooth * logp(z)).sum(1).mean()

    return call
