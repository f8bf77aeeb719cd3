"""Every hand-written KernelProgram as C++ against the interpreter."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from cpu_harness import NAMES, arguments, compiled, error, interpreted, program

from lossdsl.registry import Registry

SIZES = [(5, 7), (1, 1), (37, 10), (3, 4100), (0, 4), (130, 100)]


def inputs(name: str, n: int, c: int, dtype: torch.dtype, seed: int = 0) -> dict[str, Any]:
    """Random tensors for a program's buffers, by what they are called."""
    torch.manual_seed(seed)
    given: dict[str, Any] = {}
    for b in program(name).buffers:
        if b.role == "param":
            given[b.name] = {"ignore_index": -100, "@rows": 0.37}.get(b.name, 0.4)
        elif b.role == "in":
            shape = tuple({"N": n}.get(a, c) for a in b.axes)
            if b.dtype == "int":
                given[b.name] = torch.randint(c, shape)
                if "ignore_index" in [x.name for x in program(name).buffers] and n > 3:
                    given[b.name][3] = -100
            else:
                given[b.name] = (torch.randn(shape, dtype=torch.float64) * 3).to(dtype)
    return given


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_float64_agrees_with_the_interpreter(name: str, size: tuple[int, int], registry: Registry) -> None:
    n, c = size
    if name.startswith("batch_hard"):
        n, c = min(n, 20), min(c, 8)
    p = program(name)
    given = inputs(name, n, c, torch.float64)
    found = compiled(p)(*arguments(p, given))
    wanted = interpreted(p, registry, given)
    for b, x in zip((b for b in p.buffers if b.role == "out"), found, strict=True):
        assert error(x, wanted[b.name], 1e-3) < 1e-12, b.name
