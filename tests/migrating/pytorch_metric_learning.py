"""The losses of pytorch_metric_learning by their documented formulas, written as loops over rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from tests.migrating import optax
from tests.migrating.harness import HELD
from tests.migrating.parts import logp, one_hot, softplus, unit

Call = Callable[[Tensor, Tensor], Tensor]
BASE = [*range(8)]


def _pairs(y: Tensor) -> Iterator[tuple[int, int]]:
    """The positive pairs, both ways round."""
    return ((i, j) for i in BASE for j in BASE if i != j and y[i] == y[j])


def _others(y: Tensor, i: int) -> list[int]:
    return [k for k in BASE if y[k] != y[i]]


def _same(y: Tensor, i: int) -> list[int]:
    return [k for k in BASE if y[k] == y[i] and k != i]


def _lse(parts: list[Tensor]) -> Tensor:
    return torch.stack(parts).exp().sum().log()


def _mean(parts: list[Tensor]) -> Tensor:
    return torch.stack(parts).mean()


def _distances(x: Tensor) -> Tensor:
    a = unit(x)
    return torch.stack([torch.stack([((a[i] - a[j]) ** 2).sum().clamp(min=1e-300).sqrt() for j in BASE]) for i in BASE])


def _ce(z: Tensor, y: Tensor) -> Tensor:
    return -(one_hot(y) * logp(z)).sum(1).mean()


def _cosines(x: Tensor) -> Tensor:
    return unit(x) @ unit(HELD["w"]).T


class MeanReducer:
    """The mean of all, where the default takes that of what isn't 0."""


def _reducer(reducer: MeanReducer | None) -> Callable[[list[Tensor]], Tensor]:
    return _mean if reducer else lambda parts: _mean([part for part in parts if part > 0])


# --- losses of pairs and triplets -------------------------------------------------------------------------------------


def AngularLoss(alpha: float) -> Call:
    def call(x: Tensor, y: Tensor) -> Tensor:
        a, t = unit(x), math.tan(math.radians(alpha)) ** 2  # negatives keep their length there
        found = []
        for i, j in _pairs(y):
            f = [4 * t * (a[i] + a[j]) @ x[k] - 2 * (1 + t) * a[i] @ a[j] for k in _others(y, i)]
            found.append(softplus(_lse(f)))
        return _mean(found)

    return call


def CircleLoss(m: float, gamma: float) -> Call:
    def call(x: Tensor, y: Tensor) -> Tensor:
        s = unit(x) @ unit(x).T
        held = s.detach()
        found = []
        for i in BASE:
            near = [-gamma * (1 + m - held[i, j]).clamp(min=0) * (s[i, j] - 1 + m) for j in _same(y, i)]
            far = [gamma * (held[i, k] + m).clamp(min=0) * (s[i, k] - m) for k in _others(y, i)]
            found.append(softplus(_lse(near) + _lse(far)))
        return _mean(found)

    return call


def ContrastiveLoss(pos_margin: float = 0, neg_margin: float = 1, reducer: MeanReducer | None = None) -> Call:
    def call(x: Tensor, y: Tensor) -> Tensor:
        d = _distances(x)
        near = [(d[i, j] - pos_margin).clamp(min=0) for i, j in _pairs(y)]
        far = [(neg_margin - d[i, k]).clamp(min=0) for i in BASE for k in _others(y, i)]
        return _reducer(reducer)(near) + _reducer(reducer)(far)

    return call


def FastAPLoss(num_bins: int) -> Call:
    def call(x: Tensor, y: Tensor) -> Tensor:
        a, width = unit(x), 4 / num_bins
        found = []
        for i in BASE:
            d = [((a[i] - a[j]) ** 2).sum() for j in BASE]
            near, every = torch.tensor(0.0), torch.tensor(0.0)
            ap: Any = 0.0
            for edge in range(num_bins + 1):
                falls = [(1 - (d[j] - edge * width).abs() / width).clamp(min=0) for j in BASE]
                mine = torch.stack([falls[j] for j in _same(y, i)]).sum()
                near = near + mine
                every = every + torch.stack([falls[j] for j in BASE if j != i]).sum()
                if every > 0:
                    ap = ap + mine * near / every
            found.append(1 - ap / len(_same(y, i)))
        return _mean(found)

    return call


def LiftedStructureLoss(neg_margin: float, pos_margin: float) -> Call:
    def call(x: Tensor, y: Tensor) -> Tensor:
        d = _distances(x)
        found = []
        for i, j in _pairs(y):
            far = [neg_margin - d[i, k] for k in _others(y, i)] + [neg_margin - d[j, k] for k in _others(y, j)]
            found.append((_lse(far) + d[i, j] - pos_margin).clamp(min=0) ** 2 / 2)
        return _mean(found)

    return call


def MultiSimilarityLoss(alpha: float, beta: float, base: float) -> Call:
    def call(x: Tensor, y: Tensor) -> Tensor:
        s = unit(x) @ unit(x).T - base
        near = [(1 + (-alpha * s[i, _same(y, i)]).exp().sum()).log() / alpha for i in BASE]
        far = [(1 + (beta * s[i, _others(y, i)]).exp().sum()).log() / beta for i in BASE]
        return _mean([a + b for a, b in zip(near, far, strict=True)])

    return call


def NPairsLoss() -> Call:
    def call(x: Tensor, y: Tensor) -> Tensor:
        rows = [int((y == c).nonzero()[0]) for c in range(4)]  # the first of each class is the anchor,
        seconds = [int((y == c).nonzero()[1]) for c in range(4)]  # the second its positive
        s = unit(x)[rows] @ unit(x)[seconds].T
        return -logp(s).diagonal().mean()

    return call


def NCALoss(softmax_scale: float) -> Call:
    def call(x: Tensor, y: Tensor) -> Tensor:
        e = (-softmax_scale * ((unit(x)[:, None] - unit(x)) ** 2).sum(2)).exp()
        each = [-(e[i, _same(y, i)].sum() / e[i, [j for j in BASE if j != i]].sum()).log() for i in BASE]
        return _mean(each)

    return call


def NTXentLoss(temperature: float) -> Call:
    return lambda x, y: optax.ntxent(x, y, temperature)


def SupConLoss(temperature: float) -> Call:
    def call(x: Tensor, y: Tensor) -> Tensor:
        s = unit(x) @ unit(x).T / temperature
        others = {i: [j for j in BASE if j != i] for i in BASE}
        return _mean([_mean([s[i, others[i]].exp().sum().log() - s[i, j] for j in _same(y, i)]) for i in BASE])

    return call


def BatchHardMiner() -> Call:
    def call(x: Tensor, y: Tensor) -> Any:
        d = _distances(x)
        return [(i, max(_same(y, i), key=lambda j: d[i, j]), min(_others(y, i), key=lambda k: d[i, k])) for i in BASE]

    return call


def TripletMarginLoss(margin: float, smooth_loss: bool = False, reducer: MeanReducer | None = None) -> Any:
    def call(x: Tensor, y: Tensor, triplets: Any = None) -> Tensor:
        d = _distances(x)
        triplets = triplets or [(i, j, k) for i, j in _pairs(y) for k in _others(y, i)]
        gaps = [d[i, j] - d[i, k] + margin for i, j, k in triplets]
        if smooth_loss:
            return _mean([softplus(gap) for gap in gaps])
        return _reducer(reducer)([gap.clamp(min=0) for gap in gaps])

    return call


def TupletMarginLoss(margin: float, scale: float) -> Call:
    def call(x: Tensor, y: Tensor) -> Tensor:
        s = unit(x) @ unit(x).T
        found = []
        for i, j in _pairs(y):
            near = torch.cos(torch.acos(s[i, j]) - math.radians(margin))
            found.append((1 + (scale * (s[i, _others(y, i)] - near)).exp().sum()).log())
        return _mean(found)

    return call


def VICRegLoss() -> Any:
    def call(a: Tensor, ref_emb: Tensor) -> Tensor:
        spread, mixed = [], []
        for z in (a, ref_emb):
            centred = z - z.mean(0)
            cov = centred.T @ centred / (len(z) - 1)
            spread.append((1 - (cov.diagonal() + 1e-4).sqrt()).clamp(min=0).mean() / 2)
            mixed.append((cov**2 - torch.diag(cov.diagonal() ** 2)).sum() / z.shape[1])
        return 25 * ((a - ref_emb) ** 2).mean() + 25 * sum(spread) + sum(mixed)  # type: ignore[no-any-return]

    return call


# --- losses with weights of classes -----------------------------------------------------------------------------------


def ArcFaceLoss(classes: int, size: int, margin: float, scale: float) -> Call:
    def call(x: Tensor, y: Tensor) -> Tensor:
        c, m = _cosines(x), math.radians(margin)
        theta = torch.acos(c)
        moved = torch.where(theta < math.pi - m, torch.cos(theta + m), c - m * math.sin(m))
        return _ce(scale * torch.where(one_hot(y) > 0, moved, c), y)

    return call


def CosFaceLoss(classes: int, size: int, margin: float, scale: float) -> Call:
    return lambda x, y: _ce(scale * (_cosines(x) - margin * one_hot(y)), y)


def _multiplied(theta: Tensor, m: int) -> Tensor:
    """cos(m * theta), continued so that it falls on all of [0, pi]."""
    k = (m * theta / math.pi).floor()
    return (-1) ** k * torch.cos(m * theta) - 2 * k


def SphereFaceLoss(classes: int, size: int, margin: int) -> Call:
    def call(x: Tensor, y: Tensor) -> Tensor:
        c = _cosines(x)
        return _ce(x.norm(dim=1, keepdim=True) * torch.where(one_hot(y) > 0, _multiplied(torch.acos(c), margin), c), y)

    return call


def LargeMarginSoftmaxLoss(classes: int, size: int, margin: int) -> Call:
    def call(x: Tensor, y: Tensor) -> Tensor:
        c = _cosines(x)
        lengths = x.norm(dim=1, keepdim=True) * HELD["w"].norm(dim=1)
        return _ce(lengths * torch.where(one_hot(y) > 0, _multiplied(torch.acos(c), margin), c), y)

    return call


def NormalizedSoftmaxLoss(classes: int, size: int, temperature: float) -> Call:
    return lambda x, y: _ce(_cosines(x) / temperature, y)


def ProxyNCALoss(classes: int, size: int, softmax_scale: float) -> Call:
    return lambda x, y: _ce(-softmax_scale * ((unit(x)[:, None] - unit(HELD["w"])) ** 2).sum(2), y)


def ProxyAnchorLoss(classes: int, size: int, margin: float, alpha: float) -> Call:
    def call(x: Tensor, y: Tensor) -> Tensor:
        s, near, far = _cosines(x), [], []
        for c in range(classes):
            near.append((1 + (-alpha * (s[y == c, c] - margin)).exp().sum()).log())
            far.append((1 + (alpha * (s[y != c, c] + margin)).exp().sum()).log())
        return _mean(near) + _mean(far)

    return call
