"""Tensors for any loss: within what its file says of its inputs, some rows ignored."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from lossdsl.backends.api import Buffer, KernelProgram, free_axes
from lossdsl.backends.triton.staging import stages_of
from lossdsl.check.sizes import ordered, tree
from lossdsl.check.typed import CheckedLoss, Input
from lossdsl.runtime.extents import extent
from tests.triton.kernels import IGNORED


def tensors(
    checked: CheckedLoss, program: KernelProgram, rows: int, classes: int, seed: int = 0, long: str | None = None
) -> dict[str, Any]:
    """Float64 tensors by the names of buffers; params at their defaults, axes of vector params as long as these.

    `long`: the one axis with `classes` entries, where the others have `rows`; without it all have, but for the batch.
    """
    torch.manual_seed(seed)
    inputs = {i.name: i for i in checked.inputs}
    params = {q.name: q.default for q in checked.params}
    sizes = _sizes(program, params)
    batch = {a.name for a in checked.axes if a.batch}
    terms = {axis for axis, _ in ordered(checked.axes)}
    given: dict[str, Any] = {}
    for axis in program.axes:
        base = axis.rstrip("'")
        if base not in terms:
            short = base in batch if long is None else base != long
            sizes.setdefault(base, rows if short else classes)
    numbers = {name: torch.tensor(float(x)) for name, x in params.items() if isinstance(x, int | float)}
    for axis, term in ordered(checked.axes):
        sizes[axis] = int(extent(tree(term, {name: name for name in params}), sizes, numbers))
    given |= {f"size {axis}": sizes[axis.rstrip("'")] for axis in free_axes(program)}
    for b in program.buffers:
        shape = tuple(sizes[a.rstrip("'")] for a in b.axes)
        if b.role == "param":
            given[b.name] = _param(b, params)
        elif b.role == "in":
            given[b.name] = _tensor(b, shape, inputs.get(b.name), sizes)
    return given


def swept(checked: CheckedLoss, program: KernelProgram) -> tuple[str | None, ...]:
    """The axes that kernels of a program go along within a row, each to be `long` once: all of them at once would make
    as many programs as the others have entries. (None,) where there is none, or where an extent follows from others."""
    found = {axis.rstrip("'") for stage in stages_of(program) for axis in stage.axes}
    if not found or found & {axis for axis, _ in ordered(checked.axes)}:
        return (None,)
    return tuple(a for a in program.axes if a in found)


def most_rows(checked: CheckedLoss, program: KernelProgram, long: str | None, rows: int, classes: int) -> int:
    """The rows of the largest launch for tensors of these extents: each costs the interpreter a program."""
    batch = {a.name for a in checked.axes if a.batch}

    def extent_of(axis: str) -> int:
        base = axis.rstrip("'")
        return rows if (base in batch if long is None else base != long) else classes

    return max((math.prod(map(extent_of, stage.rows)) for stage in stages_of(program)), default=0)


def _sizes(program: KernelProgram, params: dict[str, Any]) -> dict[str, int]:
    found = {}
    for b in program.buffers:
        value = params.get(b.name)
        if b.role == "param" and b.axes and isinstance(value, tuple | list):
            found[b.axes[0]] = len(value)
    return found


def _param(b: Buffer, params: dict[str, Any]) -> Tensor:
    value = {"ignore_index": IGNORED, "seed_rows": 0.37}.get(b.name, params.get(b.name))
    if value is None:
        value = 0.4
    whole = b.dtype == "int"
    numbers = [float(x) for x in value] if isinstance(value, tuple | list) else float(value)
    return torch.tensor(numbers, dtype=torch.int64 if whole else torch.float64)


def _tensor(b: Buffer, shape: tuple[int, ...], i: Input | None, sizes: dict[str, int]) -> Tensor:
    if b.dtype == "bool":
        return torch.rand(shape) < 0.7
    if b.dtype == "int":
        target = None if i is None or not i.kind.startswith("index") else i.kind.removeprefix("index ").strip()
        high = sizes.get(target or "", 3)
        low = 0 if i is None or i.bounds is None or math.isinf(i.bounds.low) else int(i.bounds.low)
        x = torch.randint(low, low + high, shape)
        if target is not None and x.numel() > 2:
            x.reshape(-1)[1] = IGNORED
        return x
    x = torch.randn(shape, dtype=torch.float64) * 3
    if i is not None and i.kind.startswith("prob"):
        return torch.softmax(x, -1)
    if i is not None and i.bounds is not None:
        low = i.bounds.low if math.isfinite(i.bounds.low) else -8.0
        high = i.bounds.high if math.isfinite(i.bounds.high) else max(low, 0.0) + 2
        x = low + (0.05 + 0.9 * torch.rand(shape, dtype=torch.float64)) * (high - low)
    return x
