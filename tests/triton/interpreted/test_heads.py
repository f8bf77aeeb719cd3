"""Linear heads and pairwise losses whose row kernels are Triton's: tiles by matrix products, the kernels between."""

from __future__ import annotations

import pytest
import torch

import lossdsl
from lossdsl.backends.triton.launch import shaped
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


def test_the_cotangent_may_lie_over_the_tile() -> None:
    """Whole rows on chip, and rows in blocks, of which several programs would share one if it lay elsewhere."""
    case = headed(STANDARD / "cross_entropy.loss", backend="triton")
    assert case is not None
    kernel = vars(_module(case.loss))["tile_matrix_1"]
    assert kernel.over == {1: 2}
    g = torch.Generator().manual_seed(0)
    z, seed = (torch.randn(*shape, dtype=torch.float64, generator=g) for shape in ((6, 300), (6,)))
    labels, rest = [torch.arange(6) * 50, torch.tensor(-100)], [seed, torch.tensor(0.0, dtype=torch.float64)]
    wanted = kernel(*labels, z, *rest)
    for shape in ({"kind": "rows"}, {"kind": "blocks", "block": 32, "splits": 4}):
        with shaped(**shape):
            room = z.clone()
            rows, cotangent = kernel(*labels, room, *rest, into=(None, room))
        assert cotangent is room
        torch.testing.assert_close(rows, wanted[0], rtol=1e-14, atol=0)
        torch.testing.assert_close(cotangent, wanted[1], rtol=1e-13, atol=0)


@pytest.mark.parametrize("features", [4, 700])  # multiplied by the kernel; a tile in memory
def test_rows_that_are_ignored_stay_in_their_tiles(features: int) -> None:
    """As if they had been left out, whatever is in them; and all of them may be."""
    loss = lossdsl.loss("focal", head="linear", backend="triton", memory=400_000)
    g = torch.Generator().manual_seed(3)
    hidden = torch.randn(20, features, dtype=torch.float64, generator=g)
    weight = torch.randn(300, features, dtype=torch.float64, generator=g, requires_grad=True)
    target = torch.arange(20) * 13
    there = torch.arange(20) % 3 > 0
    filled = hidden.masked_fill(~there[:, None], float("nan")).requires_grad_()
    kept = hidden[there].requires_grad_()
    found = loss(filled, weight, None, target.where(there, -100))
    wanted = loss(kept, weight, None, target[there])
    torch.testing.assert_close(found, wanted, rtol=1e-13, atol=0)
    own, shared = torch.autograd.grad(found, (filled, weight))
    one, other = torch.autograd.grad(wanted, (kept, weight))
    torch.testing.assert_close(own[there], one, rtol=1e-11, atol=1e-16)
    torch.testing.assert_close(shared, other, rtol=1e-11, atol=1e-16)
    assert not own[~there].any()
    nothing = loss(filled, weight, None, torch.full_like(target, -100))
    assert nothing.item() == 0
    assert not any(x.any() for x in torch.autograd.grad(nothing, (filled, weight)))


def _module(loss: object) -> object:
    import sys

    return sys.modules[type(loss).__module__]
