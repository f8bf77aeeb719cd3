"""Programs that multiply matrices and go over them: planned, given tensors, and run by the plan's interpreter."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch

from lossdsl.api import source_of
from lossdsl.backends.api import KernelProgram, Plan
from lossdsl.pipeline import middle
from lossdsl.plan.interpret import run
from lossdsl.plan.tiles.programs import TileKernel, tile_kernels
from lossdsl.plan.tiles.tiling import Tiling
from tests.triton.kernels import REGISTRY

ROWS, COLUMNS, FEATURES = 37, 53, 11  # no multiples of a tile


@functools.cache
def sweeps(name: str) -> tuple[TileKernel, ...]:
    """The sweeps of a loss that can multiply their matrices; with a head where its file multiplies none."""
    made = middle(source_of(name), REGISTRY)
    if not isinstance(made.tiling, Tiling):
        made = middle(source_of(name), REGISTRY, {"head": "linear"})
    assert isinstance(made.tiling, Tiling)
    return tuple(k for k in tile_kernels(name, made.tiling, REGISTRY).all if k.product is not None)


def products(name: str) -> Plan:
    """Their programs."""
    return Plan(tuple(k.product for k in sweeps(name) if k.product is not None))


def drawn(program: KernelProgram) -> dict[str, Any]:
    """Tensors for a program: in float64, indices in range, rows in order."""
    named = {"C": COLUMNS}
    sizes = {a: FEATURES if a.startswith("Feature") else named.get(a, ROWS) for a in program.axes}
    rng = np.random.default_rng(3)
    found: dict[str, Any] = {}
    for b in program.buffers:
        shape = [sizes[a] for a in b.axes]
        if b.role not in ("in", "param"):
            continue
        if b.name == "tiny":
            found[b.name] = np.float64(np.finfo(np.float64).tiny)
        elif b.role == "param":
            found[b.name] = np.asarray(0.7) if b.dtype == "real" else np.asarray(-100)
        elif b.name == "row":
            found[b.name] = np.arange(*shape)
        elif b.dtype == "int":
            found[b.name] = rng.integers(0, ROWS, shape)
        elif b.dtype == "bool":
            found[b.name] = rng.random(shape) < 0.5
        else:
            found[b.name] = rng.standard_normal(shape) * (0.3 if "_left" in b.name or "_right" in b.name else 1)
    return found


def exact(program: KernelProgram, given: dict[str, Any]) -> dict[str, Any]:
    """The results of the plan's interpreter, in float64."""
    return run(program, REGISTRY, given, sizes={})


def called(module: Any, program: KernelProgram, given: dict[str, Any], **options: Any) -> dict[str, Any]:
    """The results of the emitted function by buffer; None for a cotangent that was not wanted."""
    arguments = [torch.as_tensor(given[b.name]) for b in program.buffers if b.role in ("in", "param")]
    found = getattr(module, program.name.rpartition(".")[2])(*arguments, **options)
    return dict(zip([b.name for b in program.buffers if b.role == "out"], found, strict=True))


def off(found: dict[str, Any], wanted: dict[str, Any]) -> float:
    """How far results are off, each relative to its largest entry."""
    gaps = [
        np.abs(x.double().numpy() - wanted[name]).max() / max(np.abs(wanted[name]).max(), 1e-9)
        for name, x in found.items()
        if x is not None
    ]
    return float(np.max(gaps))
