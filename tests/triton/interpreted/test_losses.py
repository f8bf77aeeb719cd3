"""Losses at 129 classes in blocks of 64, against the plan's interpreter; in lower precisions within stated bounds."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pytest
import torch

from lossdsl.backends.api import KernelProgram, NotSupportedError
from lossdsl.backends.triton.staging import stages_of
from tests.triton.draw import tensors
from tests.triton.kernels import REGISTRY, called, exact, gap, planned

FULL = os.environ.get("LOSSDSL_FULL_TESTS") == "1"
SHAPES: dict[str, dict[str, Any]] = {
    "rows": {"kind": "rows", "rows": 64, "warps": 4},  # few programs: each costs the interpreter as much as its rows
    "loop": {"kind": "blocks", "rows": 1, "block": 64, "splits": 1, "warps": 4},
    "split": {"kind": "blocks", "rows": 1, "block": 64, "splits": 2, "warps": 4},
}
ALWAYS = ("std/focal", "std/logit_adjusted_ce")  # params with gradients, a scatter over classes
SAMPLE = 2


def drawn() -> list[str]:
    names = sorted(REGISTRY.losses)
    return names if FULL else sorted({*ALWAYS, *random.Random(2).sample(names, SAMPLE)})


def fused(name: str) -> tuple[KernelProgram, ...]:
    """The programs of a loss; skips it if they aren't row-wise."""
    programs = planned(name)[1]
    try:
        for p in programs:
            stages_of(p)
    except NotSupportedError as error:
        pytest.skip(f"not row-wise: {error}")
    return programs


def scale(wanted: dict[str, Any]) -> float:
    """The largest finite entry of all results: what rounding of one is of, where another vanishes."""
    return max(float(np.abs(np.where(np.isfinite(w), w, 0)).max(initial=0.0)) for w in wanted.values())


# A root, sums so far with a scatter, an order with picks: rows that have to be on chip as a whole.
WHOLE = ("std/entmax15_loss", "std/emd2", "segmentation/lovasz_hinge")


@pytest.mark.parametrize("name", WHOLE)
def test_rows_as_a_whole(name: str) -> None:
    check(name, "rows", 9)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", drawn())
def test_float64(name: str, shape: str) -> None:
    check(name, shape, 129)


def check(name: str, shape: str, classes: int) -> None:
    for p in fused(name):
        if not FULL and "_" in p.name.rpartition(".")[2] and name not in ALWAYS:
            continue  # gradients by params or by some inputs: the same statements once more
        given = tensors(planned(name)[0].checked, p, 3, classes)
        wanted, most = exact(p, given), scale(exact(p, given))
        for b, x in called(name, p, given, **SHAPES[shape]).items():
            largest = np.abs(np.asarray(wanted[b], dtype=float)).max(initial=0.0)
            if largest > max(1e-9 * most, 1e-13):  # else it is rounding alone
                assert gap(x, wanted[b], 1e-3) < 1e-9, f"{p.name} {b}"


# Of the largest entry of a result; both sides get the same rounded inputs. float32: 2⁻²⁴ for each of some tens of
# operations. Halves: one store of a float32 result, which rounds to nearest.
BOUNDS = {torch.float32: 2e-5, torch.bfloat16: 2**-8 + 2e-5, torch.float16: 2**-11 + 2e-5}


@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize("name", ["cross_entropy", "focal", "brier", "jsd", "label_smoothing_ce", "kd_kl"])
@pytest.mark.parametrize("shape", ["rows", "loop"])
def test_lower_precisions(name: str, dtype: torch.dtype, shape: str) -> None:
    for p in planned(name)[1]:
        if p.name.rpartition(".")[2] not in ("value", "both"):
            continue
        given = tensors(planned(name)[0].checked, p, 3, 129)
        inputs = {b.name for b in p.buffers if b.role == "in" and b.dtype == "real"}
        given = {k: x.to(dtype) if k in inputs else x for k, x in given.items()}
        wanted = exact(p, given)
        for b, x in called(name, p, given, **SHAPES[shape]).items():
            assert x.dtype == (dtype if b.startswith("grad_") else torch.float32)
            bound = BOUNDS[dtype] if b.startswith("grad_") else BOUNDS[torch.float32]
            assert gap(x, wanted[b], 1.0) < bound, f"{p.name} {b}"
