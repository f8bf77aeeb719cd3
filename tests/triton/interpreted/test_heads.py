"""Linear heads and pairwise losses whose row kernels are Triton's: tiles by matrix products, the kernels between."""

from __future__ import annotations

import pytest

from lossdsl.runtime import tilesizes
from tests.heads.compare import headed, own
from tests.losses import ROOT, STANDARD

BOUND = 1e-9  # float64; only the order of sums differs
METRIC = ROOT / "plugins/lossdsl-metric/lossdsl_metric_losses"


@pytest.fixture(autouse=True)
def _tiles_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tilesizes, "FEATURES", 0)  # longer sums than any kernel multiplies itself


@pytest.mark.parametrize(
    ("name", "reduction"),
    [("cross_entropy", "mean"), ("focal", "none"), ("emd2", "mean")],  # the last: sums so far, read at a copy's places
)
def test_a_head_in_chunks(name: str, reduction: str) -> None:
    case = headed(STANDARD / f"{name}.loss", backend="triton")
    assert case is not None
    assert any("Launch" in type(x).__name__ for x in vars(_module(case.loss)).values())
    assert max(case.differences(reduction)) <= BOUND


@pytest.mark.parametrize("name", ["clip_loss", "cosface", "supcon"])
def test_pairs_in_chunks(name: str) -> None:
    case = own(METRIC / f"{name}.loss", backend="triton")
    assert case is not None
    assert max(case.differences("mean", learnt=True)) <= BOUND


def _module(loss: object) -> object:
    import sys

    return sys.modules[type(loss).__module__]
