"""Values and gradients against float64: nothing that is wrong is timed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import torch
from torch import Tensor

from lossdsl.accuracy.exact import written
from lossdsl.accuracy.measure import VALUE
from lossdsl.accuracy.terms import terms
from lossdsl.bench.candidates import IGNORED, Run, by_module
from lossdsl.check.types import base_axis
from lossdsl.ir.interpret import trace
from lossdsl.pipeline import Built
from lossdsl.registry import Registry

SOME = 16  # rows, whose terms are as large as those of all


class WrongGradientError(Exception):
    """What was to be timed gives a wrong value or gradient."""


def compared(
    runs: dict[str, Run],
    whole: Built,
    registry: Registry,
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
    unit = torch.finfo(dtype if dtype == torch.float64 else torch.float32).eps
    room = cache(lambda: VALUE * unit * terms_of_value(whole, registry, exact))
    bound = {torch.float64: 1e-9, torch.float32: 2e-4}.get(dtype, 2e-2)
    failures: dict[str, str] = {}
    for name, run in list(runs.items()):
        broken = False
        try:
            reason = difference(results(run(tensors)), wanted, bound, room)
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


def terms_of_value(whole: Built, registry: Registry, tensors: Sequence[Tensor]) -> float:
    """The sum of the sizes of what the equation adds up for a row, in the mean of some rows; 0 for a loss whose rows
    hang on each other.

    A value that nearly cancels can't be more exact than its terms, however it is computed: `check --accuracy` has its
    bar for a value in units of the last place of these.
    """
    loss = written(whole.checked, registry)
    if not loss.rowwise:
        return 0.0
    batch = {axis.name for axis in whole.checked.axes if axis.batch}
    given: dict[str, object] = {p.name: p.default for p in whole.checked.params if not p.modes}
    given["@ignore_index"] = IGNORED
    sizes: dict[str, int] = {}
    for i, x in zip(whole.checked.inputs, tensors, strict=True):
        part = x.detach().cpu()[tuple(slice(SOME if base_axis(a) in batch else None) for a in i.axes)]
        given[i.name] = part.numpy()
        sizes |= {base_axis(a): n for a, n in zip(i.axes, part.shape, strict=True)}
    graph = loss.plain
    extents = {a: sizes[base_axis(a)] for a in graph.axes if base_axis(a) in sizes}
    leaves = {leaf.name: given[leaf.name] for leaf in graph.leaves if leaf.name in given}
    found = trace(graph, registry, leaves, ["rows"], sizes=extents)
    return float(np.mean(terms(graph, found.values, found.sizes)[graph.output("rows")]))


def difference(
    found: Sequence[Tensor], wanted: Sequence[Tensor], bound: float, room: Callable[[], float] = lambda: 0.0
) -> str:
    """Where a result is off by more than the bound of its row's largest finite entry; empty if nowhere.
    The value, which comes first, has this room in any case, which is asked for where it is off.

    What isn't finite must be the same in both, entry by entry: no comparison with NaN is true.
    """
    for i, (x, y) in enumerate(zip(found, wanted, strict=True)):
        x, y = x.double(), y.double()
        known = y.abs().nan_to_num(0.0, 0.0)
        scale = known.amax(-1, keepdim=True) if y.dim() else known
        near = y.isfinite() & ((x - y).abs() <= bound * scale + bound * 1e-6)
        off = ~(near | (x == y) | (x.isnan() & y.isnan()))
        if i == 0 and bool(off.any()):
            off &= ~((x - y).abs() <= room())
        if bool(off.any()):
            what = "the value" if i == 0 else f"gradient {i}"
            return f"{what} is wrong in {int(off.sum())} of {off.numel()} entries"
    return ""
