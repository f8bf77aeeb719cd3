"""Kernels compiled for devices that aren't there, and what their machine code is made of."""

from __future__ import annotations

import pytest

from lossdsl.backends.api import Plan
from lossdsl.backends.triton.offline import inspected
from tests.triton.kernels import REGISTRY, planned


@pytest.mark.parametrize("target", ["sm_90"])
def test_cross_entropy_moves_sixteen_bytes_and_spills_none(target: str) -> None:
    programs = tuple(p for p in planned("cross_entropy")[1] if p.name.endswith((".value", ".both")))
    for machine in inspected(Plan(programs), REGISTRY, target, lengths=[1000, 32000]):
        assert machine.spilled == 0, machine
        assert 128 in machine.loads, machine
        if machine.kernel.startswith("both"):
            assert 128 in machine.stores, machine
            assert machine.exps == (1 if machine.shape.kind == "rows" else 2), machine
