"""`make bench`: the row-wise losses of the std pack at fixed shapes, as a table and as JSON.

The list is fixed here, so that figures of two versions are of the same losses.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import torch
from baselines import BY_HAND, LIBRARY

from lossdsl.bench import BASELINES, Report, WrongGradientError, measure, table
from lossdsl.plugins import discover
from lossdsl.source.text import Source

LOSSES = (
    "cross_entropy",
    "label_smoothing_ce",
    "focal",
    "poly1_ce",
    "z_loss_ce",
    "weighted_cross_entropy",
    "generalized_cross_entropy",
    "mean_absolute_error",
    "brier",
    "squentropy",
    "normalized_cross_entropy",
    "symmetric_cross_entropy",
    "soft_target_ce",
    "kd_kl",
    "jsd",
)
# Every loss of the pack that is a number a row of classes, without islands.
_EVERY = """
    adaptive_temperature_ce agce aldr_kl asymmetric_multilabel aul balanced_softmax brier ce_partial comp_sum
    confidence_penalty_uniform_kl coral_ordinal_ce corn_ordinal_ce correctness_aware crammer_singer cross_entropy
    cw_margin dist_kd dkd encouraging_loss focal focal_detached forward_reverse_kl_distill gce_self
    generalized_cross_entropy generalized_js jsd kd_kl kl_div_logp label_smoothing_ce ldam ldr_kl learn_to_defer_ce
    logit_adjusted_ce logit_clip_ce masked_softmax_ce mean_absolute_error mixture_of_experts_nll mse_onehot
    mse_rescaled multi_aspect_kd multi_margin multiclass_perceptron multimax_ce nce_mae nce_rce nfl_mae nfl_nce
    nfl_rce ngce_mae ngce_rce normalized_cross_entropy normalized_focal normalized_generalized_cross_entropy
    normalized_mean_absolute_error ordinal_weighted_ce ovr poly1_ce poly1_focal poly_n_ce reverse_cross_entropy
    reverse_kl rll rowmax_h15 rowmax_pot sa_softmax sdm_loss sel_full sel_partial selective_attention_temperature_ce
    sigsoftmax_ce smooth_adversarial_comp_sum soft_likelihood_ratio soft_target_ce softcapped_ce softpick
    softpick_nll softplus_l1_ce softplus_reweighted spherical_score spherical_softmax_nll squentropy ssmax_ce
    stablemax_ce symmetric_ce_tta symmetric_cross_entropy taylor_softmax_nll temperature_scaling_nll truncated_gce
    truncated_gce_state tvd wasserstein1_onehot weighted_cross_entropy weston_watkins z_loss_ce z_loss_spherical
"""
EVERY = tuple(_EVERY.split())
SHAPES = ((1024, 32000), (4096, 1000), (65536, 100), (65536, 10), (32, 10))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--losses", nargs="*", default=LOSSES)
    parser.add_argument("--shapes", nargs="*", default=[f"{n}x{c}" for n, c in SHAPES], help="rows x classes")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--compile", action="store_true", help="torch.compile too: minutes")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/out/rows.json"))
    chosen = parser.parse_args()
    registry = discovered()
    reports: list[Report] = []
    for shape in chosen.shapes:
        n, c = map(int, shape.split("x"))
        for name in chosen.losses:
            path = registry[f"std/{name}"]
            others = {"by hand": BY_HAND[name]} if name in BY_HAND else {}
            others |= {"library": LIBRARY[name]} if name in LIBRARY else {}
            try:
                report = measure(
                    path,
                    REGISTRY,
                    {"N": n, "C": c},
                    backends=("cpu",),
                    baselines=BASELINES if chosen.compile else BASELINES[:-1],
                    others=others,
                    dtype=getattr(torch, chosen.dtype),
                    rounds=chosen.rounds,
                )
            except WrongGradientError as error:
                print(f"{name} {shape}: {error}")
                continue
            reports.append(report)
            print(table(report), flush=True)
        _means([r for r in reports if dict(r.sizes) == {"N": n, "C": c}], shape)
    chosen.json.parent.mkdir(parents=True, exist_ok=True)
    chosen.json.write_text(json.dumps([r.as_json() for r in reports], indent=2) + "\n", encoding="utf-8")
    print(f"figures in {chosen.json}")


def _means(reports: list[Report], shape: str) -> None:
    """Geometric means over the losses of one shape."""
    for baseline in ("clone", "eager", "by hand", "library", "compile"):
        ratios = [r.ratio("cpu", baseline) for r in reports if baseline in r.timings]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            print(f"{shape}: {len(ratios)} losses take {mean:.2f} x {baseline} (geometric mean)")


REGISTRY = discover()


def discovered() -> dict[str, Source]:
    """The text of every loss by its full name."""
    return {name: Source(file.path, file.read()) for name, file in REGISTRY.losses.items()}


if __name__ == "__main__":
    main()
