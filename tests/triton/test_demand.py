"""The estimate of registers that shapes are chosen by: kernels near the limit, on either side of it."""

from __future__ import annotations

import pytest

from lossdsl.backends.triton.demand import demand
from lossdsl.backends.triton.offline import inspected, shapes, target_of
from lossdsl.backends.triton.shapes import Demand, available, registers
from lossdsl.backends.triton.stages import Stage
from lossdsl.backends.triton.staging import stages_of
from tests.triton.kernels import FULL, REGISTRY, planned
from tests.triton.test_offline import programs


def stage(name: str, kind: str, number: int = 0) -> Stage:
    (program,) = (p for p in planned(name)[1] if p.name.rpartition(".")[2] == kind)
    return stages_of(program)[number]


# Compiled for sm_90 in bfloat16 with 64 registers a thread: what holds on chip, and what spilled (by how many bytes).
CASES = [
    ("std/cross_entropy", "both", 0, 16384, True),
    ("std/multi_margin", "value", 0, 16384, False),  # 24, by way of a power in float64
    ("llm/dco", "value", 0, 16384, False),  # 56 on sm_100, 24 in float32: eleven values of a row
    ("ranking/bpr", "gradient", 1, 8192, False),  # 40: entries of a matrix' columns, each with an address
    *([("metric/arcface_cosine", "value", 0, 8192, False)] if FULL else []),  # 804: an angle
]


@pytest.mark.parametrize(("name", "kind", "number", "length", "fits"), CASES)
def test_rows_are_on_chip_where_they_spill_nothing(name: str, kind: str, number: int, length: int, fits: bool) -> None:
    device = target_of("sm_90")[1]
    ((shape, _), *_) = shapes(stage(name, kind, number), "bfloat16", device, (length,))
    assert (shape.kind == "rows") == fits


def test_what_it_counts() -> None:
    """Of a softmax with a gradient: its logits and exponentials, and what else a row needs at the end."""
    both = stage("std/cross_entropy", "both")
    whole, blocks = demand(both, on_chip=True), demand(both, on_chip=False)
    assert whole.values == 3
    assert whole.rows == 7
    assert blocks.values > whole.values  # the states of its log-sum-exp stay from block to block
    assert whole.beside == 4  # a quotient
    assert registers(whole, 16, False) <= available(32, target_of("sm_90")[1]) < registers(whole, 16, True)
    assert registers(Demand(3, 9), 8, False, rows=4) > registers(Demand(3, 9), 8, False)


@pytest.mark.skipif(not FULL, reason="four kernels at their limits: in `make test-all`")
@pytest.mark.parametrize("name", ["cross_entropy", "multi_margin", "arcface_cosine"])
def test_nothing_spills_at_the_limits(name: str) -> None:
    for machine in inspected(programs(name, "value", "both"), REGISTRY, "sm_90", lengths=(2, 4096, 8192, 16384)):
        assert machine.spilled == 0, machine
