"""optax's losses by their documented formulas."""

from __future__ import annotations

import torch
from torch import Tensor

from tests.migrating import entmax, parts
from tests.migrating.parts import logp, overlap, sigmoid, softplus, unit

log_softmax = logp
sigmoid_binary_cross_entropy = parts.bce
multiclass_sparsemax_loss = entmax.sparsemax_loss


def softmax_cross_entropy_with_integer_labels(z: Tensor, target: Tensor) -> Tensor:
    return -(parts.one_hot(target) * logp(z)).sum(1)


def softmax_cross_entropy(z: Tensor, q: Tensor) -> Tensor:
    return -(q * logp(z)).sum(1)


def smooth_labels(q: Tensor, alpha: float) -> Tensor:
    return (1 - alpha) * q + alpha / q.shape[1]


def hinge_loss(score: Tensor, sign: Tensor) -> Tensor:
    return (1 - score * sign).clamp(min=0)


def perceptron_loss(score: Tensor, sign: Tensor) -> Tensor:
    return (-score * sign).clamp(min=0)


def sparsemax_loss(score: Tensor, label: Tensor) -> Tensor:
    """Of two classes with the logits 0 and score, as a sparsemax of both."""
    z = torch.stack([torch.zeros_like(score).flatten(), score.flatten()], 1)
    two = [entmax.entmax_bisect(z, 2), parts.one_hot(label.flatten(), 2)]
    p, truth = two
    value = ((p - truth) * z).sum(1) - (p**2).sum(1) / 2 + (truth**2).sum(1) / 2
    return value.reshape(score.shape)


def multiclass_hinge_loss(z: Tensor, target: Tensor) -> Tensor:
    truth = parts.one_hot(target)
    return (z + 1 - truth).max(1).values - (z * truth).sum(1)


def multiclass_perceptron_loss(z: Tensor, target: Tensor) -> Tensor:
    return z.max(1).values - (z * parts.one_hot(target)).sum(1)


def poly_loss_cross_entropy(z: Tensor, q: Tensor, epsilon: float) -> Tensor:
    return -(q * logp(z)).sum(1) + epsilon * (1 - (q * logp(z).exp()).sum(1))


def sigmoid_focal_loss(z: Tensor, t: Tensor, alpha: float, gamma: float) -> Tensor:
    return parts.focal(z, t, alpha, gamma)


def kl_divergence(log_p: Tensor, q: Tensor) -> Tensor:
    return (q * (q.log() - log_p)).sum(1)


def ranking_softmax_loss(s: Tensor, relevance: Tensor) -> Tensor:
    return -(relevance * logp(s)).sum(1).mean()


def one_hot(target: Tensor, classes: int) -> Tensor:
    """The classes in the last dimension."""
    return parts.one_hot(target, classes).movedim(1, -1)


def moveaxis(x: Tensor, source: int, target: int) -> Tensor:
    return x.movedim(source, target)


def dice_loss(z: Tensor, truth: Tensor) -> Tensor:
    tp, fp, fn = overlap(z.exp() / z.exp().sum(3, keepdim=True), truth, (1, 2))
    return (1 - (tp + 1) / (tp + fp / 2 + fn / 2 + 1)).mean(1)


def binary_dice_loss(score: Tensor, label: Tensor) -> Tensor:
    tp, fp, fn = overlap(sigmoid(score), label, (1,))
    return 1 - (tp + 1) / (tp + fp / 2 + fn / 2 + 1)


def ntxent(x: Tensor, y: Tensor, temperature: float) -> Tensor:
    s = unit(x) @ unit(x).T / temperature
    found = []
    for i in range(len(x)):
        against = torch.stack([s[i, j].exp() for j in range(len(x)) if y[j] != y[i]]).sum()
        found += [softplus(against.log() - s[i, j]) for j in range(len(x)) if y[j] == y[i] and i != j]
    return torch.stack(found).mean()


def triplet_margin_loss(a: Tensor, p: Tensor, n: Tensor, margin: float) -> Tensor:
    def distance(u: Tensor, v: Tensor) -> Tensor:
        return (((u - v) ** 2).sum(1) + 1e-6).sqrt()

    return (distance(a, p) - distance(a, n) + margin).clamp(min=0)
