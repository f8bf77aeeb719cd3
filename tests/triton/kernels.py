"""Emitted Triton functions as modules, and tensors to call them with."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lossdsl.api import source_of
from lossdsl.backends.api import KernelProgram, NotSupportedError, Plan, free_axes, size_argument
from lossdsl.backends.triton.launch import shaped
from lossdsl.backends.triton.offline import module_of
from lossdsl.backends.triton.staging import stages_of
from lossdsl.pipeline import Middle, middle, module_kernels
from lossdsl.plan.interpret import run
from lossdsl.plan.plan import plan
from lossdsl.plugins import discover

REGISTRY = discover({})
IGNORED = -100
FULL = os.environ.get("LOSSDSL_FULL_TESTS") == "1"


@functools.cache
def planned(name: str) -> tuple[Middle, tuple[KernelProgram, ...]]:
    """A loss and the programs of its module."""
    made = middle(source_of(name), REGISTRY)
    return made, tuple(k.program for k in module_kernels(made, REGISTRY, True))


def fused(name: str) -> tuple[KernelProgram, ...]:
    """The programs of a loss; skips it if they aren't row-wise."""
    programs = planned(name)[1]
    try:
        for p in programs:
            stages_of(p)
    except NotSupportedError as error:
        pytest.skip(f"not row-wise: {error}")
    return programs


@functools.cache
def emitted(name: str) -> ModuleType:
    return module_of(Plan(planned(name)[1]), REGISTRY)


@functools.cache
def composed(name: str) -> ModuleType:
    """The same programs as torch operations."""
    from lossdsl.backends.torch.emit import emit
    from lossdsl.testing.conformance.calling import emitted_module

    return emitted_module(emit(Plan(planned(name)[1]), registry=REGISTRY))


def called(
    name: str, program: KernelProgram, given: Mapping[str, Any], *, plain: bool = False, **shape: Any
) -> dict[str, Tensor]:
    """The results of an emitted function by buffer, with the kernel's shape fixed if one is given. `plain`: those of
    torch operations."""
    arguments = [torch.as_tensor(given[b.name]) for b in program.buffers if b.role in ("in", "param")]
    sizes = {size_argument(a): given[f"size {a}"] for a in free_axes(program)}
    forced: AbstractContextManager[None] = shaped(**shape) if shape else nullcontext()
    with forced:
        module = composed(name) if plain else emitted(name)
        found = getattr(module, program.name.rpartition(".")[2])(*arguments, **sizes)
    return dict(zip([b.name for b in program.buffers if b.role == "out"], found, strict=True))


def exact(program: KernelProgram, given: Mapping[str, Any]) -> dict[str, Any]:
    """The same of the plan's interpreter, in float64."""
    tensors = {
        b.name: np.asarray(x.double() if isinstance(x, Tensor) and x.is_floating_point() else x)
        for b in program.buffers
        if b.role in ("in", "param")
        for x in [given[b.name]]
    }
    return run(program, REGISTRY, tensors, sizes={a: given[f"size {a}"] for a in free_axes(program)})


def gap(found: Tensor, wanted: Any, floor: float = 0.0) -> float:
    """The largest difference relative to the wanted entry, or to `floor` of the largest one where that is more;
    infinite where an infinity or a NaN is not met by the same."""
    x, y = found.double().numpy(), np.asarray(wanted, dtype=np.float64)
    assert x.shape == y.shape
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    if same.all():
        return 0.0
    if not (np.isfinite(x[~same]).all() and np.isfinite(y[~same]).all()):
        return float("inf")
    size = np.maximum(np.abs(y), floor * np.abs(np.where(np.isfinite(y), y, 0)).max())
    return float((np.abs(x - y)[~same] / np.maximum(size, 1e-300)[~same]).max())


__all__ = ["FULL", "IGNORED", "REGISTRY", "called", "composed", "emitted", "exact", "fused", "gap", "plan", "planned"]
