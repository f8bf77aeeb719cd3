"""The maps and losses of entmax by their definitions: a threshold found by bisection, the Fenchel-Young loss of the
entropy."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from tests.migrating.parts import module, one_hot, simplex_root


def entmax_bisect(z: Tensor, alpha: float, dim: int = 1) -> Tensor:
    scaled, power = (alpha - 1) * z, 1 / (alpha - 1)
    top = scaled.max(1, keepdim=True).values

    def total(t: Tensor) -> Tensor:
        return ((scaled - t).clamp(min=0) ** power).sum(1, keepdim=True)

    return (scaled - simplex_root(total, top - 1, top)).clamp(min=0) ** power


def normmax_bisect(z: Tensor, alpha: float, dim: int = 1) -> Tensor:
    top = z.max(1, keepdim=True).values

    def total(t: Tensor) -> Tensor:
        return ((z - t).clamp(min=0) ** (alpha / (alpha - 1))).sum(1, keepdim=True)

    u = (z - simplex_root(total, top - 1, top)).clamp(min=0) ** (1 / (alpha - 1))
    return u / u.sum(1, keepdim=True)


def sparsemax(z: Tensor, dim: int = 1) -> Tensor:
    return entmax_bisect(z, 2)


def entmax15(z: Tensor, dim: int = 1) -> Tensor:
    return entmax_bisect(z, 1.5)


def _fenchel_young(z: Tensor, target: Tensor, p: Tensor, omega: Callable[[Tensor], Tensor]) -> Tensor:
    """<p, z> - omega(p) + omega(e_y) - z_y at the p that is best."""
    truth = one_hot(target)
    return ((p - truth) * z).sum(1) - omega(p) + omega(truth)


def entmax_bisect_loss(z: Tensor, target: Tensor, alpha: float) -> Tensor:
    return _fenchel_young(z, target, entmax_bisect(z, alpha), lambda p: (p**alpha).sum(1) / (alpha * (alpha - 1)))


def normmax_bisect_loss(z: Tensor, target: Tensor, alpha: float) -> Tensor:
    return _fenchel_young(z, target, normmax_bisect(z, alpha), lambda p: (p**alpha).sum(1) ** (1 / alpha))


def sparsemax_loss(z: Tensor, target: Tensor) -> Tensor:
    return entmax_bisect_loss(z, target, 2)


def entmax15_loss(z: Tensor, target: Tensor) -> Tensor:
    return entmax_bisect_loss(z, target, 1.5)


SparsemaxLoss = module(lambda *given: sparsemax_loss(*given).mean())
Entmax15Loss = module(lambda *given: entmax15_loss(*given).mean())
EntmaxBisectLoss = module(lambda *given, alpha: entmax_bisect_loss(*given, alpha).mean())
NormmaxBisectLoss = module(lambda *given, alpha: normmax_bisect_loss(*given, alpha).mean())
