"""Modules written by hand beside focal loss: `weighted_ce` has a denominator that depends on an input, `dice` is a
batch loss, `bce` is elementwise with a named output."""

from __future__ import annotations

from typing import Any

import torch
from handmade import NC, REAL, N, _real
from torch import Tensor

from lossdsl.runtime.kernels import Compiled
from lossdsl.runtime.module import Loss
from lossdsl.runtime.signature import InputSpec, KernelSpec, Signature

# --- cross-entropy weighted by class ------------------------------------------------------------------------------


def weighted_parts(logits: Tensor, target: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    z = _real(logits)
    logp = torch.log_softmax(z, 1)
    t = target.long()
    return logp, t, logp.gather(1, t[:, None])[:, 0]


def weighted_value(logits: Tensor, target: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    _, t, u = weighted_parts(logits, target, w)
    weight = w[t].to(u.dtype)
    return -weight * u, weight


def weighted_gradient(logits: Tensor, target: Tensor, w: Tensor, rows: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    logp, t, u = weighted_parts(logits, target, w)
    hot = torch.zeros_like(logp).scatter(1, t[:, None], 1.0)
    grad = -(rows * w[t])[:, None] * (hot - logp.exp())
    return grad, torch.zeros_like(w).index_add(0, t, (-rows * u + weight).to(w.dtype))


WEIGHTED_ARGS = ("logits", "target", "w")
WEIGHTED = Signature(
    name="weighted_ce",
    equation="mean[N](-log_softmax[C](logits)[target] weighted w[target])",
    inputs=(
        InputSpec("logits", NC),
        InputSpec("target", N, "index C"),
        InputSpec("w", ("C",), default=1.0),
    ),
    params=(),
    batch=N,
    reduction="mean",
    rowwise=True,
    fold="N",
    kernels=(
        ("value", KernelSpec(WEIGHTED_ARGS, (("rows", N, REAL), ("weight", N, REAL)))),
        (
            "gradient",
            KernelSpec((*WEIGHTED_ARGS, "@rows", "@weight"), (("grad.logits", NC, REAL), ("grad.w", ("C",), REAL))),
        ),
    ),
    second_missing="it was not written",
)


class WeightedCE(Loss):
    """Cross-entropy weighted by class."""

    compiled = Compiled(WEIGHTED, {"value": weighted_value, "gradient": weighted_gradient}, "handmade")

    def __init__(
        self, reduction: str = "mean", denominator: Any = "valid", empty: str = "zero", class_dim: int = 1
    ) -> None:
        super().__init__({}, reduction, denominator, empty, class_dim)

    def forward(self, logits: Tensor, target: Tensor, w: Tensor | None = None, **options: Any) -> Any:
        names = ("reduction", "denominator", "empty", "class_dim")
        return self.call(
            (logits, target, w),
            (),
            *(options.get(name) for name in names),
            options.get("aux", False),
            options.get("check", False),
        )


# --- dice: one number a batch -------------------------------------------------------------------------------------


def dice_value(x: Tensor, y: Tensor) -> tuple[Tensor]:
    p = torch.sigmoid(_real(x))
    return (1 - 2 * (p * y).sum() / (p + y).sum(),)


def dice_gradient(x: Tensor, y: Tensor, seed: Tensor) -> tuple[Tensor]:
    p = torch.sigmoid(_real(x))
    inter, union = (p * y).sum(), (p + y).sum()
    return (seed * (2 * inter / union**2 - 2 * y / union) * p * (1 - p),)


DICE = Signature(
    name="dice",
    equation="1 - 2 * sum(p * y) / sum(p + y)",
    inputs=(InputSpec("x", N), InputSpec("y", N, "bool")),
    params=(),
    batch=(),
    reduction=None,
    rowwise=False,
    fold="N",
    kernels=(
        ("value", KernelSpec(("x", "y"), (("rows", (), REAL),))),
        ("gradient", KernelSpec(("x", "y", "@rows"), (("grad.x", N, REAL),))),
    ),
)


class Dice(Loss):
    """One minus the overlap of prediction and target."""

    compiled = Compiled(DICE, {"value": dice_value, "gradient": dice_gradient}, "handmade")

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__({}, reduction, "valid", "zero", 1)

    def forward(self, x: Tensor, y: Tensor, **options: Any) -> Any:
        return self.call(
            (x, y),
            (),
            options.get("reduction"),
            options.get("denominator"),
            None,
            None,
            options.get("aux", False),
            False,
        )


# --- bce: elementwise, any shape, with a named output ---------------------------------------------------------------


def bce_value(logits: Tensor, target: Tensor) -> tuple[Tensor]:
    z = _real(logits)
    return (torch.nn.functional.softplus(z, threshold=40) - z * target,)


def bce_aux(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    z = _real(logits)
    return *bce_value(logits, target), torch.sigmoid(z), (z > 0).double().mean().to(z.dtype)


def bce_gradient(logits: Tensor, target: Tensor, seed: Tensor) -> tuple[Tensor, Tensor]:
    z = _real(logits)
    return seed * (torch.sigmoid(z) - target), -seed * z


def bce_second(
    logits: Tensor, target: Tensor, seed: Tensor, by_z: Tensor, by_t: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    z = _real(logits)
    p = torch.sigmoid(z)
    return seed * (p * torch.sigmoid(-z) * by_z - by_t), -seed * by_z, (p - target) * by_z - z * by_t


BCE_SIGNATURE = Signature(
    name="bce",
    equation="softplus(logits) - target * logits",
    inputs=(InputSpec("logits", N), InputSpec("target", N, bounds=(0.0, 1.0, False, False))),
    params=(),
    batch=N,
    reduction="mean",
    rowwise=True,
    fold="N",
    kernels=(
        ("value", KernelSpec(("logits", "target"), (("rows", N, REAL),))),
        ("aux", KernelSpec(("logits", "target"), (("rows", N, REAL), ("aux.p", N, REAL), ("aux.share", (), REAL)))),
        ("gradient", KernelSpec(("logits", "target", "@rows"), (("grad.logits", N, REAL), ("grad.target", N, REAL)))),
        (
            "second",
            KernelSpec(
                ("logits", "target", "@rows", "@grad.logits", "@grad.target"),
                (("second.logits", N, REAL), ("second.target", N, REAL), ("second.@rows", N, REAL)),
            ),
        ),
    ),
)


class BCE(Loss):
    """Binary cross-entropy."""

    compiled = Compiled(
        BCE_SIGNATURE,
        {"value": bce_value, "aux": bce_aux, "gradient": bce_gradient, "second": bce_second},
        "handmade",
    )

    def __init__(self, reduction: str = "mean", denominator: Any = "valid", empty: str = "zero") -> None:
        super().__init__({}, reduction, denominator, empty, 1)

    def forward(self, logits: Tensor, target: Tensor, **options: Any) -> Any:
        return self.call(
            (logits, target),
            (),
            options.get("reduction"),
            options.get("denominator"),
            options.get("empty"),
            None,
            options.get("aux", False),
            options.get("check", False),
        )
