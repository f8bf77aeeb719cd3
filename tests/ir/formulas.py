"""The files that the language must be able to say, computed in float64 numpy as their equations read.

A formula takes the inputs and params by name and gives the loss under the file's own reduction. Nothing of lossdsl is
used here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Inputs = dict[str, Any]


def log_softmax(z: Array, axis: int = -1) -> Array:
    z = z - z.max(axis=axis, keepdims=True)
    return z - np.log(np.exp(z).sum(axis=axis, keepdims=True))


def lse(z: Array, axis: Any = -1) -> Array:
    m = z.max(axis=axis, keepdims=True)
    return np.squeeze(m, axis) + np.log(np.exp(z - m).sum(axis=axis))


def softplus(x: Array) -> Array:
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)


def unit(x: Array) -> Array:
    return x / np.sqrt((x**2).sum(-1, keepdims=True))


def arcface(x: Array, w: Array, target: Array, m: float = 0.5, s: float = 64) -> float:
    c = unit(x) @ unit(w).T
    phi = np.where(c > np.cos(np.pi - m), np.cos(np.arccos(c) + m), c - m * np.sin(m))
    z = s * np.where(target[:, None] == np.arange(len(w)), phi, c)
    return float(-log_softmax(z)[np.arange(len(x)), target].mean())


def supcon(z: Array, y: Array, tau: float = 0.1) -> float:
    s = unit(z) @ unit(z).T / tau
    losses = []
    for n in range(len(y)):
        others = np.arange(len(y)) != n
        pos = others & (y == y[n])
        if pos.any():
            losses.append(-(s[n] - lse(s[n][others]))[pos].mean())
    return float(np.mean(losses))


def clip_contrastive(image: Array, text: Array, scale: float = 14.3) -> float:
    s = scale * unit(image) @ unit(text).T
    return float(((lse(s, 1) + lse(s, 0)) / 2 - np.diag(s)).mean())


def nt_xent(z: Array, tau: float = 0.5) -> float:
    n, v, d = z.shape
    flat = unit(z.reshape(n * v, d))
    s = flat @ flat.T / tau
    losses = []
    for i in range(n * v):
        others = np.arange(n * v) != i
        same = others & (np.arange(n * v) // v == i // v)
        losses.append(lse(s[i][others]) - s[i][same].sum())
    return float(np.mean(losses))


def dice(logits: Array, target: Array, smooth: float = 1e-6) -> float:
    p = np.exp(log_softmax(logits))
    t = target[:, None] == np.arange(logits.shape[1])
    return float((1 - (2 * (p * t).sum(0) + smooth) / ((p + t).sum(0) + smooth)).mean())


def threshold(row: Array) -> float:
    """Sparsemax's, by sorting."""
    z = np.sort(row)[::-1]
    k = np.arange(1, len(z) + 1)
    support = 1 + k * z > np.cumsum(z)
    return float((np.cumsum(z)[support][-1] - 1) / k[support][-1])


def sparsemax_loss(logits: Array, target: Array) -> float:
    losses = []
    for row, y in zip(logits, target, strict=True):
        t = threshold(row)
        losses.append((1 + ((row**2 - t**2) * (row > t)).sum()) / 2 - row[y])
    return float(np.mean(losses))


def batch_hard_triplet(x: Array, y: Array, margin: float = 0.2) -> float:
    losses = []
    for n in range(len(y)):
        d = np.sqrt(((x - x[n]) ** 2).sum(1))
        pos = (y == y[n]) & (np.arange(len(y)) != n)
        neg = y != y[n]
        if pos.any() and neg.any():
            losses.append(max(d[pos].max() - d[neg].min() + margin, 0))
    return float(np.mean(losses))


def distillation(student: Array, teacher: Array, t: float = 4) -> float:
    p, q = log_softmax(teacher / t), log_softmax(student / t)
    return float(t**2 * (np.exp(p) * (p - q)).sum(1).mean())


def plackett_luce_distillation(student: Array, teacher: Array, target: Array) -> float:
    losses = []
    for s, t, y in zip(student, teacher, target, strict=True):
        key = np.where(np.arange(len(s)) == y, np.inf, t)
        pi = np.argsort(-key, kind="stable")
        weights = np.exp(log_softmax(t))[pi]
        tails = np.array([lse(s[pi][k:]) for k in range(len(s))])
        losses.append((weights * (tails - s[pi])).sum())
    return float(np.mean(losses))


def lovasz_softmax(logits: Array, target: Array) -> float:
    p = np.exp(log_softmax(logits))
    losses = []
    for c in range(logits.shape[1]):
        fg = (target == c).astype(float)
        if fg.sum() == 0:
            continue
        errors = np.abs(fg - p[:, c])
        order = np.argsort(-errors, kind="stable")
        j = 1 - (fg.sum() - np.cumsum(fg[order])) / (fg.sum() + np.cumsum(1 - fg[order]))
        losses.append((errors[order] * np.diff(np.concatenate([[0], j]))).sum())
    return float(np.mean(losses))


def dapo(logp: Array, old: Array, adv: Array, mask: Array, eps_low: float = 0.2, eps_high: float = 0.28) -> float:
    rho = np.exp(logp - old)
    a = adv[:, None]
    loss = -np.minimum(rho * a, np.clip(rho, 1 - eps_low, 1 + eps_high) * a)
    return float(loss[mask].mean())


def dpo(chosen: Array, rejected: Array, ref_chosen: Array, ref_rejected: Array, beta: float = 0.1) -> float:
    return float(softplus(-beta * ((chosen - ref_chosen) - (rejected - ref_rejected))).mean())


def smile_value(f: Array, tau: float = 1) -> float:
    off = ~np.eye(len(f), dtype=bool)
    return float(-(np.diag(f).mean() - np.log(np.exp(np.clip(f, -tau, tau))[off].mean())))


def smile_gradient(f: Array, tau: float = 1) -> float:
    off = ~np.eye(len(f), dtype=bool)
    return float(-(-softplus(-np.diag(f)).mean() - softplus(f)[off].mean()))


def mcr2_expand(z: Array, eps2: float = 0.5) -> float:
    n, d = z.shape
    return float(-np.linalg.slogdet(np.eye(d) + d / (n * eps2) * z.T @ z)[1] / 2)


@dataclass(frozen=True, slots=True)
class Case:
    """`draw(rng)` gives inputs; `batch` says along which dimensions of each lie rows of the axis N that may be removed;
    `slope` is the formula whose gradient the file has, where that isn't its value's."""

    formula: Callable[..., float]
    draw: Callable[[np.random.Generator], Inputs]
    batch: Mapping[str, tuple[int, ...]]
    fixed: tuple[str, ...] = ()
    slope: Callable[..., float] | None = None
    axis: str = "N"
    params: Mapping[str, float] = field(default_factory=dict)


def _labels(rng: np.random.Generator, n: int, classes: int) -> Array:
    return np.concatenate([np.arange(classes), rng.integers(0, classes, n - classes)])


N, C, D = 6, 4, 3
CASES: dict[str, Case] = {
    "arcface": Case(
        arcface,
        lambda r: {"x": r.normal(size=(N, D)), "w": r.normal(size=(C, D)), "target": _labels(r, N, C)},
        {"x": (0,), "target": (0,)},
        params={"s": 8.0},
    ),
    "supcon": Case(
        supcon,
        lambda r: {"z": r.normal(size=(N, D)), "y": np.array([0, 1, 0, 1, 2, 0])},
        {"z": (0,), "y": (0,)},
        params={"tau": 0.5},
    ),
    "clip_contrastive": Case(
        clip_contrastive,
        lambda r: {"image": r.normal(size=(N, D)), "text": r.normal(size=(N, D))},
        {"image": (0,), "text": (0,)},
        params={"scale": 3.0},
    ),
    "nt_xent": Case(nt_xent, lambda r: {"z": r.normal(size=(N, 2, D))}, {"z": (0,)}),
    "dice": Case(
        dice,
        lambda r: {"logits": r.normal(size=(N, C)), "target": _labels(r, N, C)},
        {"logits": (0,), "target": (0,)},
    ),
    "sparsemax_loss": Case(
        sparsemax_loss,
        lambda r: {"logits": r.normal(size=(N, C)), "target": _labels(r, N, C)},
        {"logits": (0,), "target": (0,)},
    ),
    "batch_hard_triplet": Case(
        batch_hard_triplet,
        lambda r: {"x": r.normal(size=(N, D)), "y": np.array([0, 1, 0, 1, 2, 0])},
        {"x": (0,), "y": (0,)},
        params={"margin": 0.9},
    ),
    "distillation": Case(
        distillation,
        lambda r: {"student": r.normal(size=(N, C)), "teacher": r.normal(size=(N, C))},
        {"student": (0,), "teacher": (0,)},
        ("teacher",),
    ),
    "plackett_luce_distillation": Case(
        plackett_luce_distillation,
        lambda r: {"student": r.normal(size=(N, C)), "teacher": r.normal(size=(N, C)), "target": _labels(r, N, C)},
        {"student": (0,), "teacher": (0,), "target": (0,)},
        ("teacher",),
    ),
    "lovasz_softmax": Case(
        lovasz_softmax,
        lambda r: {"logits": r.normal(size=(N, C)), "target": _labels(r, N, C)},
        {"logits": (0,), "target": (0,)},
    ),
    "dapo": Case(
        dapo,
        lambda r: {
            "logp": r.normal(size=(N, D)),
            "old": r.normal(size=(N, D)),
            "adv": r.normal(size=N),
            "mask": r.random((N, D)) > 0.3,
        },
        {"logp": (0,), "old": (0,), "adv": (0,), "mask": (0,)},
        ("old", "adv"),
        axis="B",
    ),
    "dpo": Case(
        dpo,
        lambda r: {k: r.normal(size=N) for k in ("chosen", "rejected", "ref_chosen", "ref_rejected")},
        {"chosen": (0,), "rejected": (0,), "ref_chosen": (0,), "ref_rejected": (0,)},
        ("ref_chosen", "ref_rejected"),
    ),
    "smile_bound": Case(smile_value, lambda r: {"f": 2 * r.normal(size=(N, N))}, {"f": (0, 1)}, slope=smile_gradient),
    "mcr2_expand": Case(mcr2_expand, lambda r: {"z": r.normal(size=(N, D))}, {"z": (0,)}),
}
