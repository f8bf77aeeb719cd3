"""`benchmarks/backends.md` says what backends do now."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from lossdsl.api import registry
from lossdsl.coverage import COMPOSED, FUSED, NO, TILES, coverage
from lossdsl.pipeline import middle
from lossdsl.source.text import Source
from tests.losses import FULL

TABLE = Path(__file__).parents[2] / "benchmarks/backends.md"
ROWS = {
    cells[0]: cells[1:]
    for line in TABLE.read_text().splitlines()
    if (cells := [c.strip() for c in line.strip("|").split(" | ")])[0].count("/") == 1 and line.startswith("| ")
}
HEAD = next(line for line in TABLE.read_text().splitlines() if line.startswith("| | ")).strip("| ").split(" | ")
DRAWN = sorted(ROWS) if FULL else random.Random(2).sample(sorted(ROWS), 12)


@pytest.fixture(autouse=True)
def every_backend(the_backend_of_the_library: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOSSDSL_DISABLE")


def test_every_loss_has_a_row() -> None:
    assert set(ROWS) == set(registry().losses), "run make tables"


@pytest.mark.parametrize("full", DRAWN)
def test_a_row_holds(full: str) -> None:
    known = registry()
    file = known.losses[full]
    made = middle(Source(file.path, file.read()), known)
    for name, said in zip(HEAD, ROWS[full], strict=True):
        found = coverage(made, known).get(name)
        if found is not None:
            assert said.split(" ")[0].rstrip(",:") == found.how, f"{name}: {found}; run make tables"


def test_the_words_mean_what_they_say() -> None:
    known = registry()

    def how(text: str) -> str:
        found = coverage(middle(Source("t", text), known), known)
        assert found["torch"].how in (COMPOSED, TILES)
        return found["triton"].how

    assert how("loss t\ninput z[N, C]\nreturn logsumexp(z)\n") == FUSED
    assert how("loss t\ninput z[N, C]\nreturn logsumexp(z[descending[C -> K](z)])\n") == COMPOSED  # several launches
    assert how("loss t\ninput a[N, D, D']\nreturn logdet[D, D'](a)\n") == NO
