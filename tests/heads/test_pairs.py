"""Losses that multiply matrices themselves: by tiles they are what they are with the matrix whole."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import lossdsl
from lossdsl.runtime.tiling import Tiling
from tests.heads.compare import BOUND, few_rows, headed, off, own, pairwise
from tests.losses import FULL, ROOT, STANDARD


@pytest.mark.parametrize("path", pairwise(14), ids=lambda p: p.stem)
def test_tiles_are_the_whole(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = own(path)
    if case is None:
        return
    tiling = case.loss.compiled.tiling
    for way in filter(None, (tiling, tiling.across)):
        monkeypatch.setattr(Tiling, "cheapest", lambda self, call, operands, way=way: way)
        for reduction in ("mean", "none"):
            for learnt in (False, True):
                if reduction == "none" and not case.loss.compiled.signature.batch:
                    continue
                assert max(case.differences(reduction, learnt)) <= BOUND


@pytest.mark.parametrize(("n", "c", "across"), [(256, 1_000_000, True), (5000, 40, False), (4096, 10_000, False)])
def test_which_axis_is_cut(n: int, c: int, across: bool) -> None:
    """With few samples and many classes it costs less to compute classes' tiles again than to go over all classes'
    gradients for every few samples."""
    tiling = lossdsl.loss("arcface", backend="torch").compiled.tiling
    operands = [torch.empty(s, device="meta") for s in ((n, 128), (c, 128), (n,), (), ())]
    call = SimpleNamespace(sizes=(), memory=64 << 20)
    assert (tiling.cheapest(call, operands) is tiling.across) == across


def test_many_losses_are_tiled() -> None:
    from lossdsl.api import registry, source_of
    from lossdsl.ir.lower import lower
    from lossdsl.pipeline import front
    from lossdsl.plan.tiles.cut import cut
    from lossdsl.plan.tiles.tiling import Tiling as Tiled
    from lossdsl.plan.tiles.tiling import tile

    known = registry()
    cuts = [cut(lower(front(source_of(str(p)), known).checked, known), known) for p in pairwise(40)]
    tiled = [c for c in cuts if c is not None and isinstance(tile(c, known), Tiled)]
    assert len(tiled) >= 20


def test_points_that_are_close_keep_their_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    """|x|² + |w|² - 2x·w has no digits left at 1e-5 in float32: such pairs are taken of differences."""
    text = "loss near\ninput x[N, D]\ninput w[C, D]\nreturn sum[C](log(sqdist[D](x, w)))\n"
    loss = lossdsl.loss(lossdsl.loads(text), backend="torch")
    x = torch.randn(12, 8)
    w = torch.cat([x[:6] + 1e-5 * torch.randn(6, 8), torch.randn(4, 8)])

    def worst() -> float:
        results = []
        for dtype in (torch.float32, torch.float64):
            a, b = x.to(dtype).requires_grad_(), w.to(dtype).requires_grad_()
            value = loss(a, b, memory=2000)
            results.append([value.detach(), *torch.autograd.grad(value, (a, b))])
        return max(off(f.double(), d) for f, d in zip(*results, strict=True))

    assert worst() < 1e-5
    monkeypatch.setattr("lossdsl.runtime.matrices.NEAR", 0.0)
    assert worst() > 1e-2


@pytest.mark.parametrize("kind", ["dot", "sqdist"])
def test_a_cotangent_without_the_matrix(kind: str) -> None:
    """A sum of the entries has a gradient that reads none of them: tiles are not computed for it, their rows are."""
    text = f"loss plain\ninput x[N, D]\ninput w[C, D]\nreturn sum[C]({kind}[D](x, w))\n"
    loss = lossdsl.loss(lossdsl.loads(text), backend="torch")
    x = torch.randn(13, 5, dtype=torch.float64, requires_grad=True)
    w = torch.randn(7, 5, dtype=torch.float64, requires_grad=True)
    entries = x @ w.t() if kind == "dot" else (x[:, None] - w).square().sum(2)
    wanted = torch.autograd.grad(entries.sum(1).mean(), (x, w))
    found = torch.autograd.grad(loss(x, w, memory=few_rows(loss, (x, w))), (x, w))
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14)


def test_sampled_classes_are_felt_where_they_are_sampled() -> None:
    loss = lossdsl.loss("partial_fc", backend="torch")
    x = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
    w = torch.randn(30, 4, dtype=torch.float64, requires_grad=True)
    sampled = torch.tensor([3, 1, 20, 8, 9, 11, 12, 25])
    target = torch.tensor([3, 1, 8, 3, 12, 25])
    wanted = _gradients(loss, x, w, target, sampled, 1 << 30)
    found = _gradients(loss, x, w, target, sampled, 8 * 8 * 12)
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14)
    untouched = torch.ones(30, dtype=torch.bool)
    untouched[sampled] = False
    assert not found[2][untouched].any()


def _gradients(loss: object, x: torch.Tensor, w: torch.Tensor, y: torch.Tensor, s: torch.Tensor, memory: int) -> tuple:  # type: ignore[type-arg]
    value = loss(x, w, y, s, memory=memory)  # type: ignore[operator]
    return value.detach(), *torch.autograd.grad(value, (x, w))


def test_a_sample_out_of_range() -> None:
    loss = lossdsl.loss("partial_fc", backend="torch")
    with pytest.raises(IndexError, match=r"sampled\[1\] = 30, but w has 30 classes"):
        loss(torch.randn(2, 4), torch.randn(30, 4), torch.tensor([0, 1]), torch.tensor([0, 30]))


def test_a_sample_with_repeats() -> None:
    loss = lossdsl.loss("partial_fc", backend="torch")
    with pytest.raises(ValueError, match=r"sampled holds 5 more than once.*pass sampled.unique\(\)"):
        loss(torch.randn(2, 4), torch.randn(30, 4), torch.tensor([0, 5]), torch.tensor([0, 5, 7, 5]))


@pytest.mark.parametrize("name", ["clip_loss", *(["supcon", "triplet_batch_hard", "partial_fc"] if FULL else [])])
def test_fused_kernels_on_tiles(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOSSDSL_DISABLE", raising=False)
    if "cpu" not in lossdsl.backends():
        pytest.skip("the C++ backend is not installed")
    path = ROOT / f"plugins/lossdsl-metric/lossdsl_metric_losses/{name}.loss"
    case = own(path, backend="cpu")
    assert case is not None
    assert max(case.differences("mean", learnt=True)) <= BOUND


@pytest.mark.parametrize("name", ["focal", *(["symmetric_cross_entropy", "brier"] if FULL else [])])
def test_fused_kernels_with_a_head(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOSSDSL_DISABLE", raising=False)
    if "cpu" not in lossdsl.backends():
        pytest.skip("the C++ backend is not installed")
    case = headed(STANDARD / f"{name}.loss", backend="cpu")
    assert case is not None
    for reduction in ("mean", "none"):
        assert max(case.differences(reduction)) <= BOUND
