"""What the analysis of tiles finds: sweeps, what is merged, and what needs the whole matrix."""

from __future__ import annotations

import pytest

from lossdsl.api import registry, source_of
from lossdsl.pipeline import middle, where_from
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
