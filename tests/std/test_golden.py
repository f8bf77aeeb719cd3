"""Every loss of the standard pack against values from public code and from 50-digit arithmetic, in float64.

A row of the table says which golden file belongs to which loss, and what the file calls by another name. Values and
every gradient that a file holds agree to 1e-9, elementwise, relative to the largest entry of the array.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import lossdsl

FOLDER = Path(__file__).parents[1] / "golden"
RTOL = 1e-9


@dataclass(frozen=True)
class Row:
    """`names`: golden name → the loss's; `params`: what the file leaves out; `leaves`: parameters the loss has not."""

    loss: str
    names: dict[str, str] = field(default_factory=dict)
    params: dict[str, float] = field(default_factory=dict)
    leaves: tuple[str, ...] = ()


LABELS = {"labels": "target"}
TABLE: dict[str, Row] = {
    "bce__optax": Row("bce"),
    "brier__formula": Row("brier"),
    "brier__ldr": Row("brier"),
    "comp_sum__formula_tau0": Row("comp_sum"),
    "comp_sum__formula_tau0.5": Row("comp_sum"),
    "comp_sum__formula_tau1": Row("comp_sum"),
    "comp_sum__formula_tau1.5": Row("comp_sum"),
    "comp_sum__formula_tau2": Row("comp_sum"),
    "comp_sum__mpmath_extreme_tau0.0": Row("comp_sum"),
    "comp_sum__mpmath_extreme_tau1.5": Row("comp_sum"),
    "comp_sum__mpmath_extreme_tau2.0": Row("comp_sum"),
    "cross_entropy__mpmath-stress": Row("cross_entropy", LABELS),
    "cross_entropy__torch": Row("cross_entropy"),
    "cross_entropy_exact__mpmath_softmax_collapse": Row("cross_entropy"),
    "focal__ldam_gamma0.5": Row("focal"),
    "focal__ldam_gamma2.0": Row("focal"),
    "focal__mpmath_extreme_gamma0.5": Row("focal"),
    "focal__mpmath_extreme_gamma2.0": Row("focal"),
    "focal_ce__formula": Row("focal", LABELS),
    "focal_ce__mpmath-stress": Row("focal", LABELS),
    "forward_kl_distill__mpmath-stress": Row(
        "kd_kl", {"logits": "student", "teacher_logits": "teacher", "temperature": "t"}, leaves=("labels",)
    ),
    # The public code clips p at 1e-7, which no row of these files reaches.
    "generalized_cross_entropy__apl_q0.2": Row("generalized_cross_entropy", leaves=("clamp_p",)),
    "generalized_cross_entropy__apl_q0.7": Row("generalized_cross_entropy", leaves=("clamp_p",)),
    "generalized_cross_entropy__mpmath_extreme_q0.2": Row("generalized_cross_entropy"),
    "generalized_cross_entropy__mpmath_extreme_q0.7": Row("generalized_cross_entropy"),
    "jsd__formula_beta0.1": Row("jsd"),
    "jsd__formula_beta0.5": Row("jsd"),
    "kd_kl__mdistiller_T1": Row("kd_kl", {"T": "t"}),
    "kd_kl__mdistiller_T4": Row("kd_kl", {"T": "t"}),
    "kd_kl_exact__mpmath_softmax_cancellation": Row("kd_kl", params={"t": 1.0}),
    "label_smoothing_ce__torch_eps0.1": Row("label_smoothing_ce"),
    "label_smoothing_ce__torch_eps0.3": Row("label_smoothing_ce"),
    "ldam__official": Row("ldam"),
    "logit_adjusted_ce__google_tau0.5": Row("logit_adjusted_ce"),
    "logit_adjusted_ce__google_tau1.0": Row("logit_adjusted_ce"),
    "mean_absolute_error__apl": Row("mean_absolute_error"),
    "mean_absolute_error__mpmath_extreme": Row("mean_absolute_error"),
    "normalized_cross_entropy__apl": Row("normalized_cross_entropy"),
    "poly1_ce__abhuse-polyloss": Row("poly1_ce", LABELS),
    "poly1_ce__mpmath-stress": Row("poly1_ce", LABELS),
    "poly1_ce__optax": Row("poly1_ce"),
    "sigmoid_focal__optax": Row("sigmoid_focal"),
    "soft_target_ce__torch": Row("soft_target_ce"),
    "squentropy__official_scale0.5": Row("squentropy"),
    "squentropy__official_scale1": Row("squentropy"),
    "symmetric_cross_entropy__apl_a0.1_b1": Row("symmetric_cross_entropy", {"A": "a", "clamp_p": "floor_p"}),
    # That code has (1 - balance) CE + balance·A·(1 - p).
    "symmetric_cross_entropy__ldr_balance0.5_A4": Row(
        "symmetric_cross_entropy", params={"alpha": 0.5, "beta": 0.5, "a": -4.0}, leaves=("balance", "A")
    ),
    "weighted_ce__torch": Row("weighted_cross_entropy", {**LABELS, "weight": "class_weight"}),
    "weighted_cross_entropy__torch": Row("weighted_cross_entropy"),
    "z_loss_ce__formula": Row("z_loss_ce"),
}


def tensor(value: Any) -> Tensor:
    if not isinstance(value, dict):
        return torch.tensor(value, dtype=torch.float64)
    return torch.tensor(value["data"], dtype=getattr(torch, value["dtype"])).reshape(value["shape"])


def close(found: Tensor, expected: Tensor, what: str) -> None:
    error = (found - expected).abs().max() if expected.numel() else torch.tensor(0.0)
    scale = expected.abs().max() if expected.numel() else torch.tensor(0.0)
    assert error <= RTOL * scale, f"{what} is off by {error:.3g} of {scale:.3g}"


@pytest.mark.parametrize("stem", TABLE)
def test_golden(stem: str) -> None:
    row, golden = TABLE[stem], json.loads((FOLDER / f"{stem}.json").read_text())
    params = {row.names.get(k, k): v for k, v in golden["params"].items() if k not in row.leaves} | row.params
    inputs = {row.names.get(k, k): tensor(v) for k, v in golden["inputs"].items() if k not in row.leaves}
    grads = {k.removeprefix("grad_"): tensor(v) for k, v in golden["outputs"].items() if k.startswith("grad_")}
    by_row = golden["reduction"].startswith("none")
    loss_fn = lossdsl.loss(row.loss, backend="torch", reduction="none" if by_row else "mean", **params)
    wanted = [row.names.get(k.removesuffix("_rows"), k.removesuffix("_rows")) for k in grads]
    for name in wanted:
        inputs[name].requires_grad_()
    value = loss_fn(**inputs)
    expected = golden["outputs"].get("loss_rows", golden["outputs"]["loss"])
    close(value.detach(), tensor(expected), "the loss")
    found = torch.autograd.grad(value.sum(), [inputs[name] for name in wanted])
    for name, gradient, should in zip(wanted, found, grads.values(), strict=True):
        close(gradient, should, f"the gradient of {name}")


def test_every_golden_file_has_a_row() -> None:
    assert {p.stem for p in FOLDER.glob("*.json")} == set(TABLE)
