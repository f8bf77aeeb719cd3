"""Every loss of every pack on the C++ backend: value and gradient of a training step in every dtype and layout, against
the interpreter of its program in float64 at the same numbers. A sample here, all of them in `make test-all`."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lossdsl.artifacts.describe import Kernel
from lossdsl.backends.api import KernelProgram, NotSupportedError
from lossdsl.pipeline import middle, module_kernels
from lossdsl.plugins import discover
from lossdsl.source.text import Source
from lossdsl.testing.conformance.calling import call, drawn, emit_programs, interpreted, rounded

REGISTRY = discover()
FULL = os.environ.get("LOSSDSL_FULL_TESTS") == "1"
DTYPES = {"double": torch.float64, "single": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
# Rows, and elements of a row: a transposed tile with rows left over, along in one block and in two.
SHAPES = {"lanes": (18, 7), "along": (5, 70), "blocks": (2, 2100)}
SAMPLE = (("llm/dpo", "single"), ("metric/arcface_cosine", "bf16"), ("std/focal", "f16"))
BOUNDS = {torch.float64: 1e-10, torch.float32: 1e-5, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-10}


@functools.cache
def planned(full: str) -> tuple[Kernel, ...]:
    """Value and gradient of a training step: in one visit where there is one."""
    file = REGISTRY.losses[full]
    kernels = module_kernels(middle(Source(file.path, file.read()), REGISTRY), REGISTRY, one_visit=True)
    by_name = {k.name: k for k in kernels}
    return tuple(by_name[name] for name in ("value", "both", "gradient") if name in by_name)[:2]


def cases() -> Sequence[tuple[str, str]]:
    return [(full, name) for full in sorted(REGISTRY.losses) for name in DTYPES] if FULL else SAMPLE


def sizes(kernel: Kernel, rows: int, wide: int) -> dict[str, int]:
    """As many elements on the axis that a row has most tensors along; 6 on further ones."""
    axes = [a for a in kernel.graph.axes if a.rstrip("'") not in {b.rstrip("'") for b in kernel.graph.batch}]
    inner = [a for leaf in kernel.graph.leaves for a in leaf.axes[-1:] if a in axes]
    main = max(axes, key=inner.count, default="")
    return {
        **{a.rstrip("'"): wide if a.rstrip("'") == main.rstrip("'") else 6 for a in axes},
        **{b.rstrip("'"): rows for b in kernel.graph.batch},
    }


@pytest.mark.parametrize(("full", "name"), cases())
def test_value_and_gradient(full: str, name: str) -> None:
    dtype = DTYPES[name]
    for kernel in planned(full):
        p = kernel.program
        try:
            function = getattr(emit_programs(REGISTRY.backends["cpu"], [p]), kernel.name)
        except NotSupportedError:
            continue  # which `benchmarks/backends.md` lists, and a test compares with
        for i, (layout, (rows, wide)) in enumerate(SHAPES.items()):
            if layout == "blocks" and name != "double":
                continue  # the interpreter takes its time
            extents = sizes(kernel, rows, wide)
            if np.prod(list(extents.values())) > 20_000:
                continue
            given = rounded(p, drawn(kernel.graph, p, seed=i, ignored=True, **extents), dtype)
            found = call(function, p, given, "cpu", dtype)
            with np.errstate(all="ignore"):
                wanted = interpreted(p, given)
            far = beyond(p, found, wanted, dtype)
            if far and dtype != torch.float64:  # as far off as the same statements are in torch's float32: terms cancel
                other = getattr(emit_programs(REGISTRY.backends["torch"], [p]), kernel.name)
                far = beyond(p, found, wanted, dtype, call(other, p, given, "cpu", dtype))
            assert not far, f"{layout}: {far}"


def beyond(
    p: KernelProgram,
    found: Sequence[Tensor],
    wanted: dict[str, Any],
    dtype: torch.dtype,
    others: Sequence[Tensor | None] = (),
) -> str:
    """Where a result is too far from the wanted one: entry by entry, those below a hundredth of the largest by that
    share of it, since a sum of terms that cancel is no better. `others` may be as far off, four times over.

    A half is what a float32 is rounded to: within a unit of its last place; what is too small or too large for it is
    the nearest that it has.
    """
    outs = [b for b in p.buffers if b.role == "out"]
    for b, x, other in zip(outs, found, others or [None] * len(outs), strict=True):
        y = torch.as_tensor(np.asarray(wanted[b.name], dtype=float))
        bound, floor = BOUNDS[x.dtype], 1e-3 if x.dtype == torch.float64 else 1e-2
        if x.dtype == dtype:
            y = y.to(dtype).double()
        finite = y.isfinite()
        scale = float(y[finite].abs().max()) if bool(finite.any()) else 0.0
        own = bound * y.abs()
        if x.dtype.itemsize < 4:  # both sides are rounded: beside a tie that is a whole unit of the last place
            own = torch.finfo(x.dtype).eps * torch.exp2(torch.frexp(y).exponent - 1.0)
        room = own + BOUNDS[torch.float32 if x.dtype.itemsize < 8 else x.dtype] * floor * scale
        if other is not None:
            gap = (other.double() - y).abs()
            room = room + 4 * float(gap[finite].max() if bool(finite.any()) else 0.0)
        same = (x.double() == y) | (x.isnan() & y.isnan())
        over = ~same & ~((x.double() - y).abs() <= room + torch.finfo(x.dtype).smallest_normal / 256)
        if bool(over.any()):
            at = over.nonzero()[0].tolist()
            return f"{p.name}: {b.name}{at} is {x[tuple(at)].item()}, not {y[tuple(at)].item()}"
    return ""
