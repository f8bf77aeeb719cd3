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

from lossdsl.bench import BASELINES, Report, WrongGradientError, measure
from lossdsl.cli.bench import table
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
