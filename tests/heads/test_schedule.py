"""What the analysis of tiles finds: sweeps, what is merged, and what needs the whole matrix."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from lossdsl.api import registry, source_of
from lossdsl.explain_tiles import tiles_at
from lossdsl.pipeline import build, middle, where_from
from lossdsl.plan.tiles.text import schedule_in_words, tiling_text
from lossdsl.plan.tiles.tiling import Tiling, Untiled


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
