"""What TRL's trainers compute for a configuration, by the formulas of its documentation and of the papers it cites.

A configuration evaluates to the loss of the tensors of `tests.migrating.harness`.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tests.migrating.harness import HELD
from tests.migrating.parts import sigmoid, softmax, softplus


def _logsigmoid(u: Tensor) -> Tensor:
    return -softplus(-u)


def DPOConfig(
    beta: float,
    loss_type: str = "sigmoid",
    label_smoothing: float = 0.0,
    discopop_tau: float = 0.05,
    f_divergence_type: str = "reverse_kl",
) -> Tensor:
    chosen = HELD["chosen"] - HELD["ref_chosen"]
    rejected = HELD["rejected"] - HELD["ref_rejected"]
    eps = label_smoothing
    if f_divergence_type == "js_divergence":
        u = beta * (_logsigmoid(chosen) - _logsigmoid(rejected))
    elif f_divergence_type == "forward_kl":
        u = beta * ((-rejected).exp() - (-chosen).exp())
    else:
        u = beta * (chosen - rejected)
    mean_gap = chosen / HELD["len_chosen"] - rejected / HELD["len_rejected"]
    ordered = {
        "aot": (HELD["chosen"] - HELD["rejected"], HELD["ref_chosen"] - HELD["ref_rejected"]),
        "aot_unpaired": (chosen, rejected),
    }
    if loss_type in ordered:
        upper, lower = (values.sort().values for values in ordered[loss_type])
        return -_logsigmoid(beta * (upper - lower)).mean()
    if loss_type == "exo_pair":
        p = sigmoid(u)
        rows = p * (p.log() - math.log(1 - eps)) + (1 - p) * ((1 - p).log() - math.log(eps))
        return rows.mean()
    rows = {
        "sigmoid": -(1 - eps) * _logsigmoid(u) - eps * _logsigmoid(-u),
        "robust": (-(1 - eps) * _logsigmoid(u) + eps * _logsigmoid(-u)) / (1 - 2 * eps),
        "hinge": (1 - u).clamp(min=0),
        "ipo": (mean_gap - 1 / (2 * beta)) ** 2,
        "nca_pair": -_logsigmoid(beta * chosen)
        - 0.5 * _logsigmoid(-beta * chosen)
        - 0.5 * _logsigmoid(-beta * rejected),
        "bco_pair": -_logsigmoid(beta * chosen) - _logsigmoid(-beta * rejected),
        "sppo_hard": (chosen - 0.5 / beta) ** 2 + (rejected + 0.5 / beta) ** 2,
        "apo_zero": 1 - sigmoid(beta * chosen) + sigmoid(beta * rejected),
        "apo_down": sigmoid(beta * chosen) + 1 - sigmoid(beta * (chosen - rejected)),
        "discopop": -_logsigmoid(u) * (1 - sigmoid(u / discopop_tau)) + (-u).exp() * sigmoid(u / discopop_tau),
        "sigmoid_norm": -_logsigmoid(beta * mean_gap),
    }[loss_type]
    return rows.mean()


def CPOConfig(loss_type: str, beta: float, cpo_alpha: float, simpo_gamma: float = 0.5, alpha: float = 0.0) -> Tensor:
    chosen, rejected = HELD["chosen"], HELD["rejected"]
    if loss_type == "alphapo":
        chosen, rejected = ((1 - (-alpha * u).exp()) / alpha for u in (chosen, rejected))
    margin = simpo_gamma / beta if loss_type in ("simpo", "alphapo") else 0
    return (-_logsigmoid(beta * (chosen - rejected - margin)) - cpo_alpha * HELD["chosen"]).mean()


def ORPOConfig(beta: float) -> Tensor:
    chosen, rejected = HELD["chosen"], HELD["rejected"]
    odds = (chosen.exp() / (1 - chosen.exp())) / (rejected.exp() / (1 - rejected.exp()))
    return (-chosen - beta * _logsigmoid(odds.log())).mean()


def KTOConfig(beta: float, desirable_weight: float, undesirable_weight: float) -> Tensor:
    reward = HELD["chosen"] - HELD["ref_chosen"]
    good = desirable_weight * (1 - sigmoid(beta * (reward - HELD["kl"])))
    bad = undesirable_weight * (1 - sigmoid(beta * (HELD["kl"] - reward)))
    return torch.where(HELD["desirable"], good, bad).mean()


def RewardConfig() -> Tensor:
    return -_logsigmoid(HELD["chosen"] - HELD["rejected"]).mean()


def GRPOConfig(
    loss_type: str,
    beta: float,
    epsilon: float = 0.2,
    epsilon_high: float | None = None,
    delta: float | None = None,
    max_completion_length: int = 0,
    importance_sampling_level: str = "token",
    sapo_temperature_pos: float = 1.0,
    sapo_temperature_neg: float = 1.05,
) -> Tensor:
    mask, adv = HELD["there"].double(), HELD["adv"][:, None]
    logp, lengths = HELD["logp"], HELD["there"].sum(1)
    ratio = (logp - HELD["old"]).exp()
    if importance_sampling_level == "sequence":
        ratio = (((logp - HELD["old"]) * mask).sum(1) / lengths).exp()[:, None].expand(3, 5)
    high = epsilon if epsilon_high is None else epsilon_high
    if loss_type == "cispo":
        each = -ratio.clamp(max=high).detach() * adv * logp
    elif loss_type == "sapo":
        tau = (adv > 0).double() * (sapo_temperature_pos - sapo_temperature_neg) + sapo_temperature_neg
        each = -adv * sigmoid(tau * (ratio - 1)) * 4 / tau
    else:
        first = ratio if delta is None else ratio.clamp(max=delta)
        each = -torch.minimum(first * adv, ratio.clamp(1 - epsilon, 1 + high) * adv)
    if beta:
        gap = HELD["ref"] - logp
        each = each + beta * (gap.exp() - gap - 1)
    each = each * mask
    if loss_type in ("grpo", "sapo"):
        return (each.sum(1) / lengths).mean()
    if loss_type == "dr_grpo":
        return each.sum() / (len(each) * max_completion_length)
    return each.sum() / (len(each) if loss_type == "luspo" else mask.sum())


def GKDConfig(**options: Any) -> Tensor:
    beta, t = options["beta"], options["temperature"]
    p, q = softmax(HELD["student"] / t), softmax(HELD["teacher"] / t)
    m = (1 - beta) * p + beta * q
    return (beta * q * (q / m).log() + (1 - beta) * p * (p / m).log()).sum(1).mean()
