"""Kernels compiled for devices that aren't there, and what their machine code is made of."""

from __future__ import annotations

import ast
import dataclasses
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import lossdsl
from lossdsl.api import source_of
from lossdsl.backends.api import KernelProgram, NotSupportedError, Plan
from lossdsl.backends.triton.arguments import arguments, sizes
from lossdsl.backends.triton.kernel import kernels
from lossdsl.backends.triton.offline import TARGETS, inspected
from lossdsl.backends.triton.offline_tiles import inspected_tiles
from lossdsl.backends.triton.shapes import Demand, Device, registers, shape_of
from lossdsl.backends.triton.spell import identifier
from lossdsl.backends.triton.staging import stages_of
from lossdsl.cli import group
from lossdsl.pipeline import middle
from lossdsl.plan.tiles.programs import tile_kernels
from lossdsl.plan.tiles.tiling import Tiling
from tests.triton.kernels import REGISTRY, planned
from tests.triton.products import products

FULL = os.environ.get("LOSSDSL_FULL_TESTS") == "1"
LENGTHS = (1000, 8192, 16384, 128256) if FULL else (1000, 128256)
DRAWN = TARGETS if FULL else ("sm_90", "gfx942")
LOSSES = ("cross_entropy", "focal", "brier", "jsd", "kd_kl", "label_smoothing_ce") if FULL else ("cross_entropy",)


def programs(name: str, *kinds: str) -> Plan:
    return Plan(tuple(p for p in planned(name)[1] if p.name.rpartition(".")[2] in kinds))


@pytest.mark.parametrize("target", DRAWN)
@pytest.mark.parametrize("name", LOSSES)
def test_sixteen_bytes_at_a_time_and_nothing_spilled(name: str, target: str) -> None:
    for machine in inspected(programs(name, "both"), REGISTRY, target, lengths=LENGTHS):
        assert machine.spilled == 0, machine
        if machine.shape.block == 1:
            continue  # what is done with a sum over the rows
        assert 128 in machine.loads, machine
        if machine.shape.splits == 1:
            assert 128 in machine.stores, machine


@pytest.mark.parametrize("target", DRAWN)
def test_kernels_of_a_head(target: str) -> None:
    """The row kernels between a head's matrix products, as they are for logits."""
    made = middle(source_of("cross_entropy"), REGISTRY, {"head": "linear"})
    assert isinstance(made.tiling, Tiling)
    kernels = tile_kernels("cross_entropy", made.tiling, REGISTRY).all
    found = inspected(
        Plan(tuple(k.program for k in kernels if k.name == "tile_matrix_1")), REGISTRY, target, lengths=LENGTHS
    )
    assert found
    assert not any(machine.spilled for machine in found)


@pytest.mark.parametrize("target", TARGETS if FULL else ("gfx942",))
@pytest.mark.parametrize("name", ["cross_entropy", "focal", "clip_loss"] if FULL else ["cross_entropy"])
def test_kernels_that_multiply_spill_nothing(name: str, target: str) -> None:
    """Sums of as many features as the runtime lets them multiply: 128 numbers in float32, 64 in float64."""
    for dtype, features in (("float32", (16, 64, 128)), ("float64", (64,))) if FULL else (("float32", (128,)),):
        plan = products(name) if FULL else Plan(products(name).programs[1:2])
        found = list(inspected_tiles(plan, REGISTRY, target, dtype, features))
        assert found
        assert not [machine for machine in found if machine.spilled]
        shared = {"sm_80": 163, "sm_90": 227, "sm_100": 227, "gfx942": 64, "gfx950": 160}[target]  # KiB a program
        assert max(machine.shared for machine in found) <= shared << 10


def test_exponentials_are_those_of_the_plan() -> None:
    """One an entry where the row is on chip; in blocks one in each of the two sweeps."""
    for machine in inspected(programs("cross_entropy", "value", "both"), REGISTRY, "sm_90", lengths=(1000, 10**6)):
        if machine.shape.block == 1:
            continue  # what is done with a sum over the rows
        wanted = {"both_0 blocks": 2, "value 1- blocks": 0}.get(machine.kernel, 1)
        assert machine.exps == wanted, machine


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
def test_exponentials_in_float64_are_counted(target: str) -> None:
    """They are polynomials, which no instruction names."""
    for name in ("cross_entropy", "bce"):
        (found,) = inspected(programs(name, "value"), REGISTRY, target, "float64", lengths=(500,))
        assert found.exps == 1


@pytest.mark.parametrize("target", DRAWN)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
def test_entries_of_no_axis_move_sixteen_bytes_at_a_time(dtype: str, target: str) -> None:
    """Any number of entries: the last ones are behind a mask of their own. Logits, targets, rows, gradients."""
    for name in ("bce", "sigmoid_focal") if FULL else ("bce",):
        kinds = ("value", "gradient", "both") if FULL else ("both",)
        for machine in inspected(programs(name, *kinds), REGISTRY, target, dtype):
            if machine.kernel == "both_1 rows":
                continue  # what is done with a sum over the rows
            assert set(machine.loads) <= {64, 128} if dtype == "float64" else set(machine.loads) == {128}, machine
            assert 128 in machine.loads
            assert set(machine.stores) == {128}
            assert machine.spilled == 0


def test_a_thread_has_the_entries_of_sixteen_bytes() -> None:
    """Of rows that are long enough, as far as registers go."""
    for run in (2, 4, 8):
        for tiles in range(1, 26):
            for power in range(11, 21):
                shape = shape_of(10**6, 2**power, (Demand(tiles), Demand(tiles)), False, Device(), run=run)
                assert shape.rows * shape.block // (shape.warps * 32) >= run


def test_rows_that_have_no_room_spill_nothing_either() -> None:
    """Sums so far and orders: on chip up to a length, through memory from there on."""
    for name, kind in (("wasserstein1_cdf", "value"), ("dpo_aot", "value"))[: 2 if FULL else 1]:
        for machine in inspected(programs(name, kind), REGISTRY, "sm_90", lengths=(8192, 65536)):
            assert machine.spilled == 0, machine


def test_rows_that_start_anywhere_are_moved_as_alignment_allows() -> None:
    """V = 50257 packed: entries of 2 bytes one by one."""
    (one,) = inspected(programs("cross_entropy", "gradient"), REGISTRY, "sm_90", lengths=(300,), aligned=False)
    assert max(one.loads) <= 64  # the target index; no run of entries
    assert set(one.stores) == {16}


@pytest.mark.skipif(not FULL, reason="every shape that can be chosen takes minutes: in `make test-all`")
@pytest.mark.parametrize("name", ["cross_entropy", "focal", "brier"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_no_shape_spills(name: str, dtype: str) -> None:
    for machine in inspected(programs(name, "value", "gradient", "both"), REGISTRY, "sm_90", dtype):
        assert machine.spilled == 0, machine


@pytest.mark.parametrize("device", [Device(32, 132), Device(64, 304)], ids=["cuda", "hip"])
def test_shapes_fit_the_registers(device: Device) -> None:
    for tiles in range(1, 24):
        for wide in (False, True):
            for power in range(1, 21):
                shape = shape_of(10**5, 2**power, (Demand(tiles), Demand(tiles)), wide, device)
                threads = shape.warps * device.warp
                assert threads <= 1024
                assert shape.splits == 1
                if shape.kind == "rows":
                    entries = max(1, shape.rows * shape.block // threads)
                    assert registers(Demand(tiles), entries, wide) <= 65536 // threads
    assert shape_of(1, 10**6, (Demand(3), Demand(3)), False, device).splits > 1
    assert shape_of(10**6, 20_000, (Demand(3), Demand(3)), False, device).kind == "blocks"


def _every() -> Iterator[KernelProgram]:
    """Some losses' programs; all that are printed in a full run."""
    for name in (
        sorted(REGISTRY.losses) if FULL else ("cross_entropy", "focal", "logit_adjusted_ce", "jsd", "wasserstein1_cdf")
    ):
        for program in planned(name)[1]:
            try:
                stages_of(program)
            except NotSupportedError:
                break
            yield program


Made = dict[str, list[ast.expr]]  # what each name of a kernel is made of


def _is_wide(x: ast.expr, made: Made) -> bool:
    """Whether an expression is an int64: the row, a cast, what is computed of one, or a name that is only that."""
    match x:
        case ast.Name(id=name):
            texts = made.get(name, [])
            return bool(texts) and all(_is_wide(y, {**made, name: []}) for y in texts)
        case ast.Call(func=ast.Name(id="order_")):  # places, by its own text
            return True
        case (
            ast.Call(func=ast.Attribute(attr="to"), args=[kind])
            | ast.Call(func=ast.Attribute(attr="zeros" | "full"), args=[*_, kind])
        ):
            return ast.unparse(kind) == "tl.int64"
        case ast.Call(func=ast.Name(id="scalar_"), args=[_, kind]):
            return ast.unparse(kind) == "tl.int64"
        case ast.Call(func=ast.Attribute(attr="where"), args=[_, y, z]) | ast.BinOp(left=y, right=z):
            return _is_wide(y, made) or _is_wide(z, made)
        case ast.Call(args=[y, *_]):
            return _is_wide(y, made)
    return False


def _factors(text: str, strides: set[str]) -> Iterator[tuple[ast.expr, Made]]:
    """What is multiplied by a stride."""
    for kernel in ast.parse(text).body:
        made: Made = {}
        for node in ast.walk(kernel):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                made.setdefault(node.targets[0].id, []).append(node.value)
        for node in ast.walk(kernel):
            match node:
                case ast.BinOp(left=x, op=ast.Mult(), right=ast.Name(id=name)) if name in strides:
                    yield x, made


def test_every_index_is_multiplied_in_64_bits() -> None:
    """N·V > 2³¹ for N = 43 000, V = 50 257: what a stride is multiplied by is an int64 of its own."""
    seen = 0
    for program in _every():
        for stage in stages_of(program):
            text = "\n".join(kernels(stage))
            strides = {f"{identifier(b.name)}_{identifier(a)}" for b in stage.buffers for a in b.axes}
            assert strides <= set(arguments(stage))
            # of its own accord Triton takes a whole number that is 1 for a constant, which has no type
            numbers = {identifier(b.name) for b in stage.buffers if not b.axes and b.dtype != "real"}
            numbers |= {f"n_{identifier(a)}" for a in sizes(stage)}
            for kernel in ast.parse(text).body:
                assert isinstance(kernel, ast.FunctionDef)
                kept = {x.value for x in ast.walk(kernel.decorator_list[0]) if isinstance(x, ast.Constant)}
                assert kept == numbers, f"{program.name}: {kernel.name}"
            for factor, made in _factors(text, strides):
                seen += 1
                assert _is_wide(factor, made), f"{program.name}: {ast.unparse(factor)}"
    assert seen > 100


@pytest.mark.parametrize("name", ["cross_entropy", "focal", "kd_kl"])
def test_what_is_written_reads_well(name: str, tmp_path: Path) -> None:
    """A kernel says what it does; nothing is imported or assigned that nobody uses."""
    text = lossdsl.compile(name, backend="triton").text
    found = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    kernels_of = [node for node in found if node.name.startswith("_")]
    assert kernels_of
    assert all(ast.get_docstring(node) for node in kernels_of)
    (tmp_path / "written.py").write_text(text, encoding="utf-8")
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "E7,E9,F"]
    # an extent that a function reads for another of its kernels' arguments may go unused
    done = subprocess.run([*ruff, "."], cwd=tmp_path, capture_output=True, text=True)
    said = [line for line in done.stdout.splitlines() if re.match(r"[EF]\d+ ", line)]
    assert not [line for line in said if not re.search("`n_\\w+` is assigned", line)], done.stdout


def test_inspect_prints_records() -> None:
    found = CliRunner().invoke(group, ["inspect", "cross_entropy", "--target", "sm_80", "--length", "64", "--json"])
    assert found.exit_code == 0, found.output
    records = json.loads(found.output)
    assert [r["kernel"] for r in records][:3] == ["value rows", "gradient rows", "both_0 rows"]
    assert {
        f.name
        for f in dataclasses.fields(next(iter(inspected(programs("cross_entropy", "weight"), REGISTRY, "sm_80"))))
    } == set(records[0])


def test_inspect_says_what_it_cannot() -> None:
    assert (
        "is not in the range"
        in CliRunner().invoke(group, [*["inspect", "brier", "--target", "sm_90", "--length"], "9" * 20]).output
    )
    assert "is no target" in CliRunner().invoke(group, ["inspect", "brier", "--target", "h100"]).output
    said = CliRunner().invoke(group, ["inspect", "mcr2", "--target", "sm_90"])
    assert said.exit_code == 2
    assert "the Triton backend can't print this loss: the island 'logdet'" in said.output


def test_inspect_goes_over_to_the_kernels_that_multiply() -> None:
    """A loss of a matrix product has no row-wise kernels. A cosine's table for large angles is no spill."""
    found = CliRunner().invoke(group, ["inspect", "arcface", "--target", "sm_90", "--length", "16"])
    assert found.exit_code == 0, found.output
    kernels_of = [x.partition(":") for x in found.output.splitlines() if not x.startswith(" ")]
    assert {name.split()[0] for name, *_ in kernels_of} >= {"tile_value_1_product", "tile_matrix_1_product"}
    assert all(text.startswith(" tiles of ") for *_, text in kernels_of)
    assert found.output.count(" 0 bytes spilled") == len(kernels_of)
