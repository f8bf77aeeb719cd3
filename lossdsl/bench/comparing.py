"""Values and gradients against float64: nothing that is wrong is timed."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lossdsl.bench.candidates import Run, by_module
from lossdsl.pipeline import Built


class WrongGradientError(Exception):
    """What was to be timed gives a wrong value or gradient."""


def compared(
    runs: dict[str, Run],
    whole: Built,
    tensors: Sequence[Tensor],
    places: Sequence[int],
    dtype: torch.dtype,
    required: set[str],
    inaccurate: bool,
) -> dict[str, str]:
    """Compare each run with the loss in float64; drop baselines that fail (not those that are but `inaccurate`, where
    these are wanted), and say why."""
    exact = [x.detach().double().requires_grad_(x.requires_grad) if x.is_floating_point() else x for x in tensors]
    wanted = results(by_module(whole, places)(exact))
    bound = {torch.float64: 1e-9, torch.float32: 2e-4}.get(dtype, 2e-2)
    failures: dict[str, str] = {}
    for name, run in list(runs.items()):
        broken = False
        try:
            reason = difference(results(run(tensors)), wanted, bound)
        except Exception as error:
            if name in required:
                raise
            broken = True
            reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        if reason:
            if name in required:
                raise WrongGradientError(f"{whole.checked.name} by {name}: {reason}")
            failures[name] = reason
            if broken or not inaccurate:
                del runs[name]
    return failures


def results(found: object) -> list[Tensor]:
    assert isinstance(found, tuple)
    return [x.detach() for x in found]


def difference(found: Sequence[Tensor], wanted: Sequence[Tensor], bound: float) -> str:
    """Where a result is off by more than the bound of its row's largest finite entry; empty if nowhere.

    What isn't finite must be the same in both, entry by entry: no comparison with NaN is true.
    """
    for i, (x, y) in enumerate(zip(found, wanted, strict=True)):
        x, y = x.double(), y.double()
        known = y.abs().nan_to_num(0.0, 0.0)
        scale = known.amax(-1, keepdim=True) if y.dim() else known
        near = y.isfinite() & ((x - y).abs() <= bound * scale + bound * 1e-6)
        off = ~(near | (x == y) | (x.isnan() & y.isnan()))
        if bool(off.any()):
            what = "the value" if i == 0 else f"gradient {i}"
            return f"{what} is wrong in {int(off.sum())} of {off.numel()} entries"
    return ""
