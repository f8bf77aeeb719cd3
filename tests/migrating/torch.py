"""torch's functions are called themselves; torchvision's by its formula, without importing it."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.migrating.parts import focal, reduced

__all__ = ["F", "nn", "ops", "torch"]


def _sigmoid_focal_loss(z: Tensor, t: Tensor, alpha: float, gamma: float, reduction: str) -> Tensor:
    return reduced(focal(z, t, alpha, gamma), reduction)


ops = SimpleNamespace(sigmoid_focal_loss=_sigmoid_focal_loss)
