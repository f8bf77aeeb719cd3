"""Running emitted functions beside the interpreter of KernelPrograms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lossdsl_cpu.emit import emit
from torch import Tensor

from lossdsl.backends.api import KernelProgram, Plan
from lossdsl.plan.interpret import run
from lossdsl.plan.text import parse_kernel
from lossdsl.registry import Registry
from lossdsl.testing.conformance.calling import emitted_module

PROGRAMS = Path(__file__).parents[3] / "tests" / "kernel"
NAMES = sorted(p.stem for p in PROGRAMS.glob("*.kernel")) if PROGRAMS.is_dir() else []


def program(name: str) -> KernelProgram:
    """A hand-written program of the core's tests."""
    return parse_kernel((PROGRAMS / f"{name}.kernel").read_text(encoding="utf-8"))


def compiled(p: KernelProgram, registry: Registry | None = None) -> Callable[..., tuple[Tensor, ...]]:
    """The emitted function of a program, imported from a file as a user's would be."""
    module = emitted_module(emit(Plan((p,)), registry))
    function: Callable[..., tuple[Tensor, ...]] = getattr(module, p.name.rpartition(".")[2])
    return function


def arguments(p: KernelProgram, given: Mapping[str, Any]) -> list[Tensor]:
    """The call's tensors in order: params as float64."""
    ins = [b for b in p.buffers if b.role == "in"] + [b for b in p.buffers if b.role == "param"]
    return [
        given[b.name] if isinstance(given[b.name], Tensor) else torch.tensor(given[b.name], dtype=torch.float64)
        for b in p.buffers
        if b in ins
    ]


def interpreted(
    p: KernelProgram, registry: Registry, given: Mapping[str, Any], number: str = "float64"
) -> dict[str, Any]:
    """The interpreter's results for the same tensors, from their exact values."""
    values = {}
    for b in p.buffers:
        if b.role in ("in", "param"):
            x = given[b.name]
            if isinstance(x, Tensor):
                x = x.double().numpy() if x.is_floating_point() else x.numpy()
            values[b.name] = x
    with np.errstate(all="ignore"):
        return run(p, registry, values, number=number)


def error(found: Tensor, wanted: Any, scale: float = 0.0) -> float:
    """The largest difference relative to the wanted value (and `scale` of the largest one); inf where an infinity or a
    NaN is not met by the same."""
    x, y = found.double().numpy(), np.asarray(wanted, dtype=np.float64)
    if x.shape != y.shape:
        return float("inf")
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    if x.size == 0 or same.all():
        return 0.0
    x, y = x[~same], y[~same]
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        return float("inf")
    floor = max(scale * float(np.abs(y).max()), 1e-300)
    return float((np.abs(x - y) / np.maximum(np.abs(y), floor)).max())
