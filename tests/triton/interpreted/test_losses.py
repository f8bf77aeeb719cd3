"""Losses at 129 classes in blocks of 64, against the plan's interpreter; in lower precisions within stated bounds."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from lossdsl.backends.api import KernelProgram
from lossdsl.backends.triton.staging import long_stages_of, stages_of
from lossdsl.check.typed import CheckedLoss
from tests.triton.draw import most_rows, swept, tensors
from tests.triton.kernels import FULL, REGISTRY, called, exact, fused, gap, planned

SHAPES: dict[str, dict[str, Any]] = {
    "rows": {"kind": "rows", "rows": 64, "warps": 4},  # few programs: each costs the interpreter as much as its rows
    "loop": {"kind": "blocks", "rows": 1, "block": 64, "splits": 1, "warps": 4},
    "split": {"kind": "blocks", "rows": 1, "block": 64, "splits": 2, "warps": 4},
}
# Params with gradients, a scatter over classes, an array that the plan keeps between loops.
ALWAYS = ("std/focal", "std/logit_adjusted_ce", "std/correctness_aware")
SAMPLE = 2


def drawn() -> list[str]:
    names = sorted(REGISTRY.losses)
    return names if FULL else sorted({*ALWAYS, *random.Random(2).sample(names, SAMPLE)})


def scale(wanted: dict[str, Any]) -> float:
    """The largest finite entry of all results: what rounding of one is of, where another vanishes."""
    return max(float(np.abs(np.where(np.isfinite(w), w, 0)).max(initial=0.0)) for w in wanted.values())


# A root; sums so far with a scatter, an order with picks: rows that have to be on chip as a whole.
WHOLE = ("std/entmax15_loss", "std/emd2", "segmentation/lovasz_hinge")


@pytest.mark.parametrize("name", WHOLE)
def test_rows_as_a_whole(name: str) -> None:
    check(name, "rows", 9)


@pytest.mark.parametrize("name", ["llm/dpo_aot_unpaired", "std/emd2", *(["segmentation/lovasz_hinge"] if FULL else [])])
def test_rows_that_have_no_room(name: str) -> None:
    """Orders and sums so far through memory: what longer rows than a program holds go by, forced upon short ones."""
    assert any(long_stages_of(p) for p in fused(name))
    check(name, "loop", 9)


@pytest.mark.parametrize("name", ["std/entmax15_loss", "std/normmax_loss"])
def test_roots_in_blocks(name: str) -> None:
    """What halves a bracket goes over the row once a turn: a row of two whole blocks and an entry over."""
    for p in fused(name):
        if p.name.rpartition(".")[2] in ("value", "gradient"):
            given = tensors(planned(name)[0].checked, p, 2, 9)
            wanted = exact(p, given)
            for b, x in called(name, p, given, kind="blocks", rows=1, block=4, splits=2, warps=4).items():
                assert gap(x, wanted[b], 1e-3) < 1e-9, f"{p.name} {b}"


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", drawn())
def test_float64(name: str, shape: str) -> None:
    check(name, shape, 129)


def sized(
    p: KernelProgram, checked: CheckedLoss, long: str | None, classes: int, shape: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tensors with this axis long, and the shape of kernel. Where that makes hundreds of rows (pairs of a batch, each
    with entries), an eighth of the length in an eighth of the block, as many blocks and an entry over; less still of
    what is drawn, from where there are tens."""
    how, rows, part = SHAPES[shape], 3, 8 if FULL else 16
    if most_rows(checked, p, long, rows, classes) > (200 if FULL else 40):
        classes, rows = classes // part + 1, 2
        how = {**how, "block": 64 // part} if how["kind"] == "blocks" else how
    if how["kind"] == "rows" and any(stage.whole for stage in stages_of(p)):
        how = {**how, "rows": 4}  # sorting is slow in the interpreter, of rows that aren't there as well
    return tensors(checked, p, rows, classes, long=long), how


def check(name: str, shape: str, classes: int) -> None:
    for p in fused(name):
        if not FULL and "_" in p.name.rpartition(".")[2] and name not in ALWAYS:
            continue  # gradients by params or by some inputs: the same statements once more
        checked = planned(name)[0].checked
        for long in swept(checked, p):
            given, how = sized(p, checked, long, classes, shape)
            wanted = exact(p, given)
            most = scale(wanted)
            for b, x in called(name, p, given, **how).items():
                largest = np.abs(np.asarray(wanted[b], dtype=float)).max(initial=0.0)
                if largest > max(1e-9 * most, 1e-13):  # else it is rounding alone
                    assert gap(x, wanted[b], 1e-3) < 1e-9, f"{p.name} {b} along {long}"


# Of the largest entry of a result; both sides get the same rounded inputs. float32: 2⁻²⁴ for each of some tens of
# operations. Halves: one store of a float32 result, which rounds to nearest.
BOUNDS = {torch.float32: 2e-5, torch.bfloat16: 2**-8 + 2e-5, torch.float16: 2**-11 + 2e-5}
FEW = ["cross_entropy", "focal", "brier", "jsd", "label_smoothing_ce", "kd_kl"]


@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize("name", sorted(REGISTRY.losses) if FULL else FEW)
@pytest.mark.parametrize("shape", ["rows", "loop"])
def test_lower_precisions(name: str, dtype: torch.dtype, shape: str) -> None:
    lower(name, dtype, shape, FEW)


def lower(name: str, dtype: torch.dtype, shape: str, tight: Sequence[str]) -> None:
    """Against float64 at the same numbers, as float32 has it. A result may also be off by as much as it changes when an
    input is moved by half a unit of its last place in float32, some times over, or as it is by torch operations in
    float32: what a loss' conditioning, and its plan, cost any arithmetic of that precision. The `tight` may not."""
    strict = name.removeprefix("std/") in tight
    for p in fused(name):
        if p.name.rpartition(".")[2] not in ("value", "both" if strict else "gradient"):
            continue
        checked = planned(name)[0].checked
        for long in swept(checked, p):
            given, how = sized(p, checked, long, 129, shape)
            inputs = {b.name for b in p.buffers if b.role == "in" and b.dtype == "real"}
            given = {k: x.to(dtype) if k in inputs else x for k, x in given.items()}
            with np.errstate(over="ignore"):
                wanted = {b: np.asarray(y, dtype=np.float32).astype(float) for b, y in exact(p, given).items()}
            most, spread, plain = scale(wanted), {}, {}
            if not strict:
                spread = conditioning(p, given, wanted)
                single = {k: x.float() if k in inputs else x for k, x in given.items()}
                plain = {b: 4 * gap(x, wanted[b], 1.0) for b, x in called(name, p, single, plain=True).items()}
            for b, x in called(name, p, given, **how).items():
                half = b.startswith("grad_") and x.dtype != torch.float32
                assert x.dtype in ((dtype, torch.float32) if b.startswith("grad_") else (torch.float32, torch.int64))
                if np.abs(np.where(np.isfinite(wanted[b]), wanted[b], 0)).max(initial=0.0) <= 1e-7 * most:
                    continue  # rounding alone
                bound = BOUNDS[dtype] if half else BOUNDS[torch.float32]
                found = gap(x, wanted[b], 1.0)
                within = max(bound + spread.get(b, 0.0), plain.get(b, 0.0) + (bound if half else 0.0))
                assert found <= within, f"{p.name} {b} along {long}: {found:.2g}"


def conditioning(p: KernelProgram, given: dict[str, Any], wanted: dict[str, Any]) -> dict[str, float]:
    """By how much of its largest entry each result changes when every real input is moved at random by 2⁻²⁴ of itself,
    eight times the most of three trials."""
    found = dict.fromkeys(wanted, 0.0)
    for seed in range(3):
        torch.manual_seed(seed)
        near = {
            b.name: x.double() * (1 + 2**-24 * (2 * torch.rand(x.shape, dtype=torch.float64) - 1))
            for b in p.buffers
            if b.role in ("in", "param") and b.dtype == "real"
            for x in [torch.as_tensor(given[b.name])]
        }
        for b, y in exact(p, {**given, **near}).items():
            largest = float(np.abs(np.where(np.isfinite(wanted[b]), wanted[b], 0)).max(initial=0.0))
            change = np.abs(np.asarray(y, dtype=float) - np.asarray(wanted[b], dtype=float))
            change = np.where(np.isfinite(change), change, 0)
            found[b] = max(found[b], 8 * float(change.max(initial=0.0)) / max(largest, 1e-300))
    return found
