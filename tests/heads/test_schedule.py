"""What the analysis of tiles finds: sweeps, what is merged, and what needs the whole matrix."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lossdsl.api import registry, source_of
from lossdsl.explain_tiles import tiles_at
from lossdsl.pipeline import build, middle, where_from
from lossdsl.plan.interpret import run
from lossdsl.plan.kernel import Buffer, KernelProgram
from lossdsl.plan.tiles.programs import tile_kernels
from lossdsl.plan.tiles.text import schedule_in_words, tiling_text
from lossdsl.plan.tiles.tiling import Tiling, Untiled
from lossdsl.plan.verify import verify


def tiling(name: str, **modes: str) -> Tiling:
    found = middle(source_of(name), registry(), modes).tiling
    assert isinstance(found, Tiling)
    return found


@pytest.mark.parametrize(
    ("name", "products", "manner"),
    [
        ("nt_xent", 3, "each tile is kept"),  # rows alone
        ("supcon", 3, "each tile is kept"),
        ("clip_loss", 4, "computed again"),  # log-sum-exps over columns, too
    ],
)
def test_how_often_the_matrix_is_multiplied_out(name: str, products: int, manner: str) -> None:
    found = tiling(name)
    matrix = next(v for v in found.variants if v.name == "matrix")
    words = schedule_in_words(found, matrix)
    assert words.startswith(f"{products} matrix products ({2 * products}·")
    assert manner in words


def test_a_transposed_matrix_is_no_second_one() -> None:
    found = tiling("clip_loss")
    assert len(found.matrices) == 1
    value = next(v for v in found.variants if v.name == "value")
    sweeps = [s for s in value.schedule.steps if s.sweep]
    assert len(sweeps) == 1
    assert sorted(g.how for g in sweeps[0].gives) == ["logsumexp", "rows", "rows"]


def test_a_head_takes_one_sweep() -> None:
    text = tiling_text(tiling("focal", head="linear"))
    assert text.startswith("tiles of rows along N\n  z0[N; C] = dot[D] + bias\n  rows that are left out")
    assert text.count("    sweep: out.rows (rows), grad.@z0 (matrix)") >= 1


def test_why_a_matrix_stays_whole() -> None:
    source = source_of("von_neumann_entropy")
    found = middle(source, registry()).tiling
    assert isinstance(found, Untiled)
    assert "eigvals over N needs all rows of the matrix at once: `eigvals[N, N' -> K]" in where_from(source, found)


@pytest.mark.parametrize(
    ("memory", "rows"),
    [("64MiB", 384), ("8MiB", 48), ("130000", 1)],  # the second: 8 MiB / 128 kB = 65, of which whole blocks of 16 fit
)
def test_tiles_at_given_sizes(memory: str, rows: int) -> None:
    sizes = {"N": 4096, "C": 32000, "D": 512}
    first, chosen = tiles_at(fused("cross_entropy", head="linear"), sizes, memory)
    assert first.startswith("at N = 4096, C = 32000, D = 512 and memory = ")
    assert f"chosen: tiles of {rows} along N, {-(-4096 // rows)} of them, each kept till it is used: " in chosen
    assert f"{6 * 4096 * 32000 * 512:.3g} flops" in chosen


def test_ways_to_take_tiles() -> None:
    lines = tiles_at(fused("arcface"), {"N": 256, "C": 10**6, "D": 128}, "64MiB")
    assert "chosen: tiles of 4096 along C" in lines[1]
    assert "computed again once the statistics are known" in lines[1]
    assert "or: tiles of 16 along N" in lines[2]


@pytest.mark.parametrize(
    ("features", "said"),
    [
        (32, "on chip, no tile in memory: to multiply 3 times"),  # 4·32 flops an entry, against 5 passes of 4 bytes
        (64, "tiles in memory: to multiply 3 times"),
        (129, "tiles in memory, since so many features"),
    ],
)
def test_short_sums_are_multiplied_again_and_long_ones_kept(features: int, said: str) -> None:
    """By sizes alone: products that are computed again, against the traffic of tiles."""
    ways = fused("cross_entropy", head="linear")
    variants = tuple(
        replace(v, steps=tuple(replace(s, product="product" if s.sweep else "") for s in v.steps))
        for v in ways.spec.variants
    )
    kernels = {**ways.sizes.functions, "product": SimpleNamespace(times=3)}
    ways = type(ways)(ways.signature, replace(ways.spec, variants=variants), kernels)
    lines = tiles_at(ways, {"N": 4096, "C": 32000, "D": features}, "64MiB")
    assert f"matrix, tile_matrix_1: {said}" in lines[3]


def test_a_size_that_is_missing() -> None:
    with pytest.raises(ValueError, match="--size says nothing of D"):
        tiles_at(fused("cross_entropy", head="linear"), {"N": 4, "C": 3}, "64MiB")


def fused(name: str, **modes: str) -> Any:
    """The tiling of a module whose kernels write cotangents over tiles; nothing is run."""
    from lossdsl.runtime.tiling import Tiling as Ways

    built = build(source_of(name), registry(), "torch", modes=modes)
    found = built.artifact.load().COMPILED.tiling

    def over(ways: Ways) -> Ways:
        spec = replace(ways.spec, temporaries=0)
        steps = [s for v in spec.variants for s in v.steps]
        kernels = {s.kernel: _kernel({i: 0 for i, g in enumerate(s.gives) if g.how == "matrix"}) for s in steps}
        return Ways(ways.signature, spec, kernels, None if ways.across is None else over(ways.across))

    return over(found)


def _kernel(over: dict[int, int]) -> Any:
    return SimpleNamespace(over=over)


@pytest.mark.parametrize(("name", "head"), [("focal", True), ("clip_loss", False)])
def test_a_product_within_the_sweep_means_the_same(name: str, head: bool) -> None:
    """The program that is given factors, against the sweep that is given the matrix, both as the plan says."""
    found = tiling(name, **({"head": "linear"} if head else {}))
    kernels = [k for k in tile_kernels(name, found, registry()).all if k.product is not None]
    assert kernels
    rng = np.random.default_rng(0)
    for kernel in kernels:
        program = kernel.product
        assert program is not None
        verify(program, registry())
        sizes = {a: 3 if a.startswith("Feature") else 5 for a in program.axes}
        given = {
            b.name: rng.integers(0, 5, shape) if b.dtype == "int" else rng.random(shape)
            for b in (*program.buffers, *kernel.program.buffers)
            for shape in [[sizes[a] for a in b.axes]]
        }
        x, w = given["z0_left"], given["z0_right"]
        given["z0"] = x @ w.T + given.get("z0_bias", 0)
        whole = run(kernel.program, registry(), {b.name: given[b.name] for b in arguments(kernel.program)}, sizes={})
        apart = run(program, registry(), {b.name: given[b.name] for b in arguments(program)}, sizes={})
        if "grad_z0" in whole:
            g = whole.pop("grad_z0")
            whole |= {"grad_z0_left": g @ w, "grad_z0_right": g.T @ x}
            whole |= {"grad_z0_bias": g.sum(0)} if head else {}
        assert set(apart) == set(whole)
        for result, value in whole.items():
            np.testing.assert_allclose(apart[result], value, rtol=1e-12, atol=1e-14)


def arguments(program: KernelProgram) -> list[Buffer]:
    return [b for b in program.buffers if b.role in ("in", "param")]
