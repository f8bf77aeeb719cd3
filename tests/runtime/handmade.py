"""Modules of the form that the compiler generates, written by hand: what the runtime is tested with.

`focal` has a param, an ignored index and a weight that counts what is there; `handmade_others` has what it hasn't.
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
