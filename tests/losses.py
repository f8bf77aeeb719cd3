"""Which losses a test of every loss runs on: the first twenty, and of the others a sample unless all are asked for."""

from __future__ import annotations

import os
import random
from pathlib import Path

ROOT = Path(__file__).parents[1]
STANDARD = ROOT / "lossdsl/packs/std"
CASES = ROOT / "tests/ir/cases"  # the files of the language's description
FIRST = (
    "bce",
    "brier",
    "comp_sum",
    "cross_entropy",
    "focal",
    "generalized_cross_entropy",
    "jsd",
    "kd_kl",
    "label_smoothing_ce",
    "ldam",
    "logit_adjusted_ce",
    "mean_absolute_error",
    "normalized_cross_entropy",
    "poly1_ce",
    "sigmoid_focal",
    "soft_target_ce",
    "squentropy",
    "symmetric_cross_entropy",
    "weighted_cross_entropy",
    "z_loss_ce",
)
FULL = os.environ.get("LOSSDSL_FULL_TESTS") == "1"


def sampled(others: int) -> list[Path]:
    """The first twenty, and `others` of the rest of the pack (all of them under LOSSDSL_FULL_TESTS)."""
    rest = sorted(p for p in STANDARD.glob("*.loss") if p.stem not in FIRST)
    drawn = rest if FULL else random.Random(0).sample(rest, others)
    return [*(STANDARD / f"{name}.loss" for name in FIRST), *sorted(drawn)]
