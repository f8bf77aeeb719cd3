"""What printed functions leave out, and what launches don't load."""

from __future__ import annotations

import ast

import pytest

import lossdsl
from lossdsl.backends.api import Load, Reduce
from lossdsl.backends.manager import BackendError
from lossdsl.backends.triton.stages import Stage, flattened
from lossdsl.backends.triton.staging import long_stages_of, stages_of
from lossdsl.backends.triton.trimming import trimmed
from tests.losses import FIRST
from tests.triton.kernels import FULL, fused

SAMPLE = lossdsl.losses() if FULL else ("std/focal", "std/label_smoothing_ce", "std/crossmax", "metric/wcdas")


def test_what_nothing_reads_goes_with_what_it_alone_read() -> None:
    text = """\
def kernel(x, out):
    n = x.shape[0]
    m = n + 1
    long = load_(
        x,
        m,
    )
    found = tl.atomic_add(x, 1)
    total = 0
    count = 0
    for i in range(3):
        last = i
    for i in range(3):
        total += i
        other = i
        tl.store(x, count)
"""
    assert (
        trimmed(text)
        == """\
def kernel(x, out):
    found = tl.atomic_add(x, 1)
    total = 0
    count = 0
    for i in range(3):
        last = i
    for i in range(3):
        total += i
        tl.store(x, count)
"""
    )


@pytest.mark.parametrize("name", SAMPLE)
def test_every_name_is_read(name: str) -> None:
    try:
        text = lossdsl.compile(name, backend="triton").text
    except BackendError as error:
        pytest.skip(str(error))
    for function in ast.walk(ast.parse(text)):
        if isinstance(function, ast.FunctionDef):
            names = [n for n in ast.walk(function) if isinstance(n, ast.Name)]
            read = {n.id for n in names if not isinstance(n.ctx, ast.Store)}
            plain = [n for n in ast.walk(function) if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)]
            assert {n.targets[0].id for n in plain} <= read, function.name


@pytest.mark.parametrize("name", ["info/treet_dv", *(FIRST if FULL else FIRST[:4])])
def test_a_launch_loads_no_number_that_it_makes(name: str) -> None:
    """Memory that another program of the same launch is writing."""
    for program in fused(name):
        for stage in (*stages_of(program), *long_stages_of(program)):
            if isinstance(stage, Stage):
                made = {v.name for s in flattened(stage.items) if isinstance(s, Reduce) for v in s.values}
                assert not made & {s.value.name for s in stage.scalars if isinstance(s, Load)}, stage.name
