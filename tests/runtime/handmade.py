"""Modules of the form that the compiler generates, written by hand: what the runtime is tested with.

`focal` has a param, an ignored index and a weight that counts what is there; `weighted_ce` a denominator that depends
on an input; `dice` is a batch loss; `bce` is elementwise with a named output.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from lossdsl.runtime.kernels import Compiled
from lossdsl.runtime.module import Loss
from lossdsl.runtime.signature import InputSpec, KernelSpec, ParamSpec, Signature

REAL = "real"


def _real(x: Tensor) -> Tensor:
    return x if x.dtype == torch.float64 else x.float()


# --- focal --------------------------------------------------------------------------------------------------------


def focal_parts(logits: Tensor, target: Tensor, ignore_index: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    z = _real(logits)
    there = target != ignore_index
    t = target.long().clamp(0, z.shape[1] - 1)
    z = torch.where(there[:, None], z, 0)
    logp = torch.log_softmax(z, 1)
    return there, t, logp, logp.gather(1, t[:, None])[:, 0]


def focal_value(logits: Tensor, target: Tensor, gamma: Tensor, ignore_index: Tensor) -> tuple[Tensor, Tensor]:
    there, _, _, u = focal_parts(logits, target, ignore_index)
    g = gamma.to(u.dtype)
    rows = torch.where(there, -((-torch.expm1(u)) ** g) * u, 0)
    return rows, there.to(u.dtype)


def focal_slope(u: Tensor, g: Tensor) -> Tensor:
    """d rows / du."""
    q, p = -torch.expm1(u), torch.exp(u)
    return g * q ** (g - 1) * p * u - q**g


def focal_gradient(logits: Tensor, target: Tensor, gamma: Tensor, ignore_index: Tensor, seed: Tensor) -> tuple[Tensor]:
    there, t, logp, u = focal_parts(logits, target, ignore_index)
    c = torch.where(there, focal_slope(u, gamma.to(u.dtype)) * seed, 0)
    grad = -c[:, None] * torch.exp(logp)
    return (grad.scatter(1, t[:, None], (-c * torch.expm1(u))[:, None]),)


def focal_gradient_params(
    logits: Tensor, target: Tensor, gamma: Tensor, ignore_index: Tensor, seed: Tensor
) -> tuple[Tensor, Tensor]:
    there, _, _, u = focal_parts(logits, target, ignore_index)
    q = -torch.expm1(u)
    dg = torch.where(there, -(q ** gamma.to(u.dtype)) * torch.log(q) * u * seed, 0)
    return (*focal_gradient(logits, target, gamma, ignore_index, seed), dg.sum())


def focal_second_params(
    logits: Tensor,
    target: Tensor,
    gamma: Tensor,
    ignore_index: Tensor,
    seed: Tensor,
    grad_logits: Tensor,
    grad_gamma: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    there, t, logp, u = focal_parts(logits, target, ignore_index)
    g, dg = gamma.to(u.dtype), grad_gamma.to(u.dtype)
    q, p, s = -torch.expm1(u), torch.exp(u), torch.exp(logp)
    slope = focal_slope(u, g)
    curve = -g * (g - 1) * q ** (g - 2) * p**2 * u + g * q ** (g - 1) * p * (u + 2)
    cross = q ** (g - 1) * p * u * (1 + g * torch.log(q)) - q**g * torch.log(q)  # d slope / dg
    by_gamma = -(q**g) * torch.log(q) * u
    twice = -(q**g) * torch.log(q) ** 2 * u
    hot = torch.zeros_like(s).scatter(1, t[:, None], 1.0)
    du = ((hot - s) * grad_logits).sum(1)  # the tangent of u
    turn = s * (grad_logits - (s * grad_logits).sum(1, keepdim=True))  # that of softmax
    row = torch.where(there, seed, 0)
    logits_2 = (row * (curve * du + cross * dg))[:, None] * (hot - s) - (row * slope)[:, None] * turn
    gamma_2 = (row * (cross * du + twice * dg)).sum()
    rows_2 = torch.where(there, slope * du + by_gamma * dg, 0)
    return logits_2, gamma_2, rows_2


def focal_second(
    logits: Tensor, target: Tensor, gamma: Tensor, ignore_index: Tensor, seed: Tensor, grad_logits: Tensor
) -> tuple[Tensor, Tensor]:
    full = focal_second_params(logits, target, gamma, ignore_index, seed, grad_logits, torch.zeros_like(gamma))
    return full[0], full[2]


NC, N = ("N", "C"), ("N",)
FOCAL_ARGS = ("logits", "target", "gamma", "ignore_index")
FOCAL = Signature(
    name="focal",
    equation="-(1 - softmax[C](logits)[target])^gamma * log(softmax[C](logits)[target])",
    inputs=(InputSpec("logits", NC), InputSpec("target", N, "index C")),
    params=(
        ParamSpec("gamma", default=2.0, bounds=(0.0, float("inf"), False, True)),
        ParamSpec("ignore_index", integer=True, default=-100),
    ),
    batch=N,
    reduction="mean",
    rowwise=True,
    fold="N",
    kernels=(
        ("value", KernelSpec(FOCAL_ARGS, (("rows", N, REAL), ("weight", N, REAL)))),
        ("gradient", KernelSpec((*FOCAL_ARGS, "@rows"), (("grad.logits", NC, REAL),))),
        (
            "second",
            KernelSpec(
                (*FOCAL_ARGS, "@rows", "@grad.logits"),
                (("second.logits", NC, REAL), ("second.@rows", N, REAL)),
            ),
        ),
        (
            "gradient_params",
            KernelSpec((*FOCAL_ARGS, "@rows"), (("grad.logits", NC, REAL), ("grad.gamma", (), REAL))),
        ),
        (
            "second_params",
            KernelSpec(
                (*FOCAL_ARGS, "@rows", "@grad.logits", "@grad.gamma"),
                (("second.logits", NC, REAL), ("second.gamma", (), REAL), ("second.@rows", N, REAL)),
            ),
        ),
    ),
)


class Focal(Loss):
    """Focal loss."""

    compiled = Compiled(
        FOCAL,
        {
            "value": focal_value,
            "gradient": focal_gradient,
            "second": focal_second,
            "gradient_params": focal_gradient_params,
            "second_params": focal_second_params,
        },
        "handmade",
    )

    def __init__(
        self,
        *,
        gamma: Any = 2.0,
        reduction: str = "mean",
        ignore_index: int | None = None,
        denominator: Any = "valid",
        empty: str = "zero",
        class_dim: int = 1,
    ) -> None:
        super().__init__({"gamma": gamma, "ignore_index": ignore_index}, reduction, denominator, empty, class_dim)

    def forward(
        self,
        logits: Tensor,
        target: Tensor,
        *,
        gamma: Any = None,
        ignore_index: int | None = None,
        reduction: str | None = None,
        denominator: Any = None,
        empty: str | None = None,
        class_dim: int | None = None,
        aux: bool = False,
        check: bool = False,
    ) -> Any:
        return self.call((logits, target), (gamma, ignore_index), reduction, denominator, empty, class_dim, aux, check)


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


# --- the same in one visit: value and gradient together -------------------------------------------------------------


def focal_both(logits: Tensor, target: Tensor, gamma: Tensor, ignore_index: Tensor, seed: Tensor) -> tuple[Tensor, ...]:
    rows, _ = focal_value(logits, target, gamma, ignore_index)
    (grad,) = focal_gradient(logits, target, gamma, ignore_index, seed.to(rows.dtype).expand(rows.shape))
    return (rows * seed).sum().to(rows.dtype), grad


def focal_weight(logits: Tensor, target: Tensor, gamma: Tensor, ignore_index: Tensor) -> tuple[Tensor]:
    return ((target != ignore_index).to(_real(logits).dtype),)


AT_ONCE = replace(
    FOCAL,
    name="focal_at_once",
    counted=True,
    kernels=(
        *FOCAL.kernels,
        (
            "both",
            KernelSpec((*FOCAL_ARGS, "@rows"), (("reduced", (), REAL), ("grad.logits", NC, REAL))),
        ),
        ("weight", KernelSpec(FOCAL_ARGS, (("weight", N, REAL),))),
    ),
)


class FocalAtOnce(Focal):
    """Focal loss whose forward makes the gradient."""

    compiled = Compiled(
        AT_ONCE,
        {
            **{name: program.function for name, program in Focal.compiled.programs.items()},
            "both": focal_both,
            "weight": focal_weight,
        },
        "handmade",
    )
