"""What one writes in torch by hand for the losses of `make bench`: functions of the inputs, params as they are set."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def picked(logits: Tensor, target: Tensor) -> Tensor:
    """The log-probability of the target."""
    return torch.log_softmax(logits, -1).gather(1, target[:, None]).squeeze(1)


def focal(logits: Tensor, target: Tensor, alpha: Tensor) -> Tensor:
    logp = picked(logits, target)
    return (-alpha[target] * (1 - logp.exp()) ** 2 * logp).mean()


def brier(logits: Tensor, target: Tensor) -> Tensor:
    p = torch.softmax(logits, -1)
    return ((p - F.one_hot(target, logits.shape[1])) ** 2).sum(1).mean()


def poly1(logits: Tensor, target: Tensor) -> Tensor:
    logp = picked(logits, target)
    return (-logp + 1 - logp.exp()).mean()


def z_loss(logits: Tensor, target: Tensor) -> Tensor:
    lse = torch.logsumexp(logits, -1)
    return (lse - logits.gather(1, target[:, None]).squeeze(1) + 1e-4 * lse**2).mean()


def generalized(logits: Tensor, target: Tensor) -> Tensor:
    return ((1 - picked(logits, target).exp() ** 0.7) / 0.7).mean()


def mean_absolute(logits: Tensor, target: Tensor) -> Tensor:
    return (1 - picked(logits, target).exp()).mean()


# The names are those of the std pack; the second entry is torch's own kernel, where there is one.
BY_HAND = {
    "focal": focal,
    "brier": brier,
    "poly1_ce": poly1,
    "z_loss_ce": z_loss,
    "generalized_cross_entropy": generalized,
    "mean_absolute_error": mean_absolute,
}
LIBRARY = {
    "cross_entropy": F.cross_entropy,
    "label_smoothing_ce": lambda logits, target: F.cross_entropy(logits, target, label_smoothing=0.1),
    "soft_target_ce": F.cross_entropy,
}
