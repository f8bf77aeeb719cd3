"""A loss by tiles against the same loss with its matrix whole: value and every gradient, elementwise in float64."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import lossdsl
from lossdsl.bench import draw
from lossdsl.check.heads import HeadError, with_heads
from lossdsl.runtime.tiling import Tiling
from lossdsl.source.diagnostic import DiagnosticError
from tests.losses import FULL, ROOT, STANDARD

SIZES = {"N": 13, "C": 7, "D": 5, "M": 5, "S": 4, "E": 4, "F": 4, "T": 4}
BOUND = 1e-9  # of the largest entry: only the order of sums differs, and losses that cancel make more of it
LEAST = 4  # rows of a tile: 13 rows make four tiles, the last of one row
FLOOR = 1e-5  # of the largest entry: the sum of probabilities is 1, so that its gradient is rounding, 1e-15, alone


@dataclass(frozen=True, slots=True)
class Case:
    """A loss with tensors for its inputs; `whole` gives the same with the matrix in memory."""

    loss: Any
    whole: Callable[..., Tensor]
    tensors: tuple[Tensor, ...]
    needs: tuple[int, ...]  # places of tensors with a gradient
    learnt: Mapping[str, Tensor]  # params with a gradient

    @property
    def memory(self) -> int:
        """Bytes under which a tile has LEAST rows."""
        return few_rows(self.loss, self.tensors)

    def differences(
        self,
        reduction: str,
        learnt: bool = False,
        needs: Sequence[int] | None = None,
        memory: int | None = None,
        **options: Any,
    ) -> list[float]:
        """How far value and gradients are off, each relative to its largest entry."""
        batch = self.loss.compiled.signature.batch
        torch.manual_seed(5)
        upstream = torch.tensor(1.7, dtype=torch.float64)
        if reduction == "none" and batch:
            shape = self.whole(*self.tensors, reduction="none", **options).shape
            upstream = torch.randn(shape, dtype=torch.float64)
        params = self.learnt if learnt else {}
        places = self.needs if needs is None else needs
        given = {**options, "reduction": reduction} if batch else options
        a = evaluated(self.whole, self.tensors, places, upstream, params, **given)
        tiled = {**given, "memory": memory or self.memory}
        b = evaluated(self.loss, self.tensors, places, upstream, params, **tiled)
        assert len(a[1]) == len(b[1])
        return [off(b[0], a[0]), *(off(x, y) for x, y in zip(b[1], a[1], strict=True))]


def few_rows(loss: Any, tensors: Sequence[Tensor | None], rows: int = LEAST) -> int:
    """Bytes under which a tile has this many rows."""
    tiling = loss.compiled.tiling
    assert isinstance(tiling, Tiling)
    shapes = [torch.empty(()) if x is None else x for x in tensors]
    params = [torch.tensor(p.default) for p in loss.compiled.signature.params]
    sizes = tiling.sizes.extents([*shapes, *params], [3] * len(loss.compiled.signature.sizes))
    return tiling.sizes.per_row(sizes) * 8 * tiling.sizes.arrays * rows + 1


def evaluated(
    loss: Callable[..., Tensor],
    tensors: Sequence[Any],
    needs: Sequence[int],
    upstream: Tensor,
    learnt: Mapping[str, Tensor],
    **options: Any,
) -> tuple[Tensor, list[Tensor | None]]:
    """The value, and its gradients by the tensors at these places and by params."""
    given = [
        x.detach().clone().requires_grad_(i in needs) if isinstance(x, Tensor) and x.is_floating_point() else x
        for i, x in enumerate(tensors)
    ]
    params = {name: x.clone().requires_grad_() for name, x in learnt.items()}
    value = loss(*given, **params, **options)
    wanted = [given[i] for i in needs] + list(params.values())
    if not wanted or not value.requires_grad:
        return value.detach(), []
    grads = torch.autograd.grad(value, wanted, upstream.expand(value.shape), allow_unused=True)
    return value.detach(), list(grads)


def off(found: Tensor | None, wanted: Tensor | None) -> float:
    """How far an array is from another, relative to the largest entry of that; a gradient of 0 may be None."""
    if wanted is None or found is None:
        other = found if wanted is None else wanted
        return 0.0 if other is None or not other.any() else float("inf")
    assert found.shape == wanted.shape
    same = (found == wanted) | (found.isnan() & wanted.isnan())
    scale = wanted[wanted.isfinite()].abs().max().item() if wanted.isfinite().any() else 0.0
    gap = torch.where(same, 0, (found - wanted).abs()).max().item()
    return gap / max(scale, FLOOR) if gap == gap else float("inf")


def learnable(loss: Any) -> dict[str, Tensor]:
    """Params that may have a gradient, at their defaults."""
    numbers = [p for p in loss.compiled.signature.params if not p.integer]
    return {p.name: torch.tensor(p.default, dtype=torch.float64) for p in numbers}


def own(path: str | Path, backend: str = "torch") -> Case | None:
    """A loss that multiplies matrices itself; None if it can't be tiled."""
    loss = lossdsl.loss(str(path), backend=backend)
    if loss.compiled.tiling is None:
        return None
    tensors = drawn(path)

    def whole(*given: Any, **options: Any) -> Tensor:
        kept, loss.compiled.tiling = loss.compiled.tiling, None
        try:
            value: Tensor = loss(*given, **options)
        finally:
            loss.compiled.tiling = kept
        return value

    needs = tuple(i for i, x in enumerate(tensors) if x.requires_grad)
    return Case(loss, whole, tuple(tensors), needs, learnable(loss))


def headed(path: str | Path, backend: str = "torch", ignored: bool = True) -> Case | None:
    """A loss with a linear head; None if it takes no logits. Every third row is ignored where an index can say so."""
    path = Path(path)
    checked = lossdsl.load(path).checked
    try:
        _, (head,) = with_heads(checked, {"": "linear"})
        loss = lossdsl.loss(str(path), head="linear", backend=backend)
    except (HeadError, DiagnosticError):
        return None
    plain = lossdsl.loss(str(path), backend="torch")
    tensors = drawn(path)
    at = [i.name for i in checked.inputs].index(head.logits)
    g = torch.Generator().manual_seed(3)
    *lead, classes = tensors[at].shape
    three = [torch.randn(*shape, dtype=torch.float64, generator=g) for shape in ((*lead, 5), (classes, 5), (classes,))]
    given = [*tensors[:at], *three, *tensors[at + 1 :]]
    for i, spec in enumerate(loss.compiled.signature.inputs):
        if ignored and spec.kind.startswith("index") and spec.axes[:1] == loss.compiled.signature.batch[:1] != ():
            given[i] = given[i].clone()
            given[i][1::3] = -100

    def whole(*x: Any, **options: Any) -> Tensor:
        value: Tensor = plain(*x[:at], x[at] @ x[at + 1].t() + x[at + 2], *x[at + 3 :], **options)
        return value

    needs = (at, at + 1, at + 2, *(i for i, x in enumerate(given) if x.requires_grad))
    return Case(loss, whole, tuple(given), needs, learnable(loss))


def drawn(path: str | Path) -> list[Tensor]:
    """Tensors for a loss's inputs, in float64; no size is a multiple of a tile's."""
    checked = lossdsl.load(path).checked
    axes = {a.rstrip("'") for i in checked.inputs for a in i.axes}
    sizes = {a: SIZES.get(a, 3) for a in axes}
    sizes |= {i.kind.partition(" ")[2]: 3 for i in checked.inputs if i.kind.partition(" ")[2] not in ("", *sizes)}
    return draw(checked, sizes, torch.float64)


def standard(count: int) -> list[Path]:
    """Losses of the standard pack, a sample unless all are asked for."""
    return _sample(sorted(STANDARD.glob("*.loss")), count)


def pairwise(count: int) -> list[Path]:
    """Losses of the packs that say themselves what they multiply."""
    words = ("dot[", "cosine[", "dist[")
    files = [*STANDARD.glob("*.loss"), *ROOT.glob("plugins/*/*/*.loss")]
    return _sample(sorted(f for f in files if any(w in f.read_text(encoding="utf-8") for w in words)), count)


def _sample(files: list[Path], count: int) -> list[Path]:
    return files if FULL else sorted(random.Random(0).sample(files, count))
