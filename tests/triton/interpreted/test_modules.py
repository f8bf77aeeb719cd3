"""Modules with Triton kernels, called as users do: layouts, ignored rows, reductions, both ways to a gradient."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import lossdsl
from lossdsl.backends.triton import launch
from lossdsl.backends.triton.launch import shaped
from tests.triton.kernels import FULL

IGNORED = -100
LOOP = {"kind": "blocks", "rows": 1, "block": 64, "splits": 2, "warps": 4}


def data(rows: int = 6, classes: int = 70, seed: int = 0) -> tuple[Tensor, Tensor]:
    torch.manual_seed(seed)
    target = torch.randint(classes, (rows,))
    if rows > 3:
        target[2] = IGNORED
    return torch.randn(rows, classes, dtype=torch.float64) * 4, target


def gradient(x: Tensor, y: Tensor, **options: object) -> tuple[Tensor, Tensor]:
    x = x.detach().requires_grad_() if x.is_contiguous() else x.requires_grad_()
    value = lossdsl.loss("cross_entropy", backend="triton", **options)(x, y)
    (found,) = torch.autograd.grad(value.sum(), x)
    return value.detach(), found


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": lambda x: x.clone(),
    "transposed": lambda x: x.t().contiguous().t(),
    "sliced": lambda x: torch.cat([x, x, x], 1)[:, x.shape[1] : 2 * x.shape[1]],
    "every other row": lambda x: torch.stack([x, x], 1).reshape(-1, x.shape[1])[::2],
    "strided": lambda x: torch.stack([x, x], 2)[..., 1],
    "padded": lambda x: torch.nn.functional.pad(x, (0, 8 - x.shape[1] % 8))[:, : x.shape[1]],
}


@pytest.mark.parametrize("how", [{}, LOOP], ids=["rows", "split"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str, how: dict[str, object]) -> None:
    x, y = data()
    y = torch.stack([y, y], 1)[:, 1]
    wanted = torch.nn.functional.cross_entropy(x.requires_grad_(), y)
    (exact,) = torch.autograd.grad(wanted, x)
    with shaped(**how):
        value, found = gradient(LAYOUTS[layout](x.detach()), y)
    torch.testing.assert_close(value, wanted.detach(), rtol=1e-13, atol=0)
    torch.testing.assert_close(found, exact, rtol=1e-12, atol=1e-18)


def test_expanded_logits_and_an_upstream_without_memory() -> None:
    x, y = data(1)
    wide = x.expand(4, -1)
    rows = lossdsl.loss("cross_entropy", backend="triton", reduction="none")
    z = wide.detach().requires_grad_()
    (found,) = torch.autograd.grad(rows(z, y.expand(4)).sum(), z)  # whose upstream has stride 0
    plain = wide.contiguous().requires_grad_()
    (exact,) = torch.autograd.grad(torch.nn.functional.cross_entropy(plain, y.expand(4), reduction="sum"), plain)
    torch.testing.assert_close(found, exact, rtol=1e-12, atol=1e-18)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("ahead", [True, False], ids=["gradient in forward", "recomputed"])
def test_both_ways_to_a_gradient(reduction: str, ahead: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from lossdsl.runtime import autograd

    if not ahead:
        monkeypatch.setattr(autograd, "known", lambda *_: False)
        monkeypatch.setattr(autograd, "is_ahead", lambda *_: False)
    x, y = data()
    loss = lossdsl.loss("focal", backend="triton", reduction=reduction)
    plain = lossdsl.loss("focal", backend="torch", reduction=reduction)
    z, w = x.clone().requires_grad_(), x.clone().requires_grad_()
    found, wanted = loss(z, y), plain(w, y)
    upstream = torch.rand_like(found)
    for _ in range(2):  # a second backward is right, too
        (a,) = torch.autograd.grad(found, z, upstream, retain_graph=True)
        (b,) = torch.autograd.grad(wanted, w, upstream, retain_graph=True)
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-17)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=0)


def test_ignored_rows_may_hold_anything() -> None:
    x, y = data()
    spoiled = x.clone()
    spoiled[2] = float("nan")
    for how in ({}, LOOP):
        with shaped(**how):
            value, found = gradient(x, y)
            again, other = gradient(spoiled, y)
        assert torch.equal(value, again)
        assert torch.equal(found, other)
        assert torch.equal(found[2], torch.zeros(70, dtype=torch.float64))


def test_an_empty_batch() -> None:
    x, y = data(0)
    value, found = gradient(x, y)
    assert value == 0
    assert found.shape == (0, 70)
    rows, _ = gradient(x, y, reduction="none")
    assert rows.shape == (0,)


@pytest.mark.parametrize("how", [{}, {**LOOP, "splits": 1}, LOOP], ids=["rows", "loop", "split"])
def test_blocks_that_are_ruled_out(how: dict[str, object]) -> None:
    """The first block, the last, and all but one entry at -inf."""
    x, _ = data(3, 200)
    x[0, :64] = float("-inf")
    x[1, 128:] = float("-inf")
    x[2] = float("-inf")
    x[2, 150] = 1.0
    y = torch.tensor([100, 3, 150])
    wanted = torch.nn.functional.cross_entropy(x.requires_grad_(), y, reduction="none")
    (exact,) = torch.autograd.grad(wanted.sum(), x)
    with shaped(**how):
        value, found = gradient(x.detach(), y, reduction="none")
    torch.testing.assert_close(value, wanted.detach(), rtol=1e-13, atol=1e-300)
    torch.testing.assert_close(found, exact, rtol=1e-12, atol=1e-18)


@pytest.mark.parametrize("how", [{"kind": "rows"}, {"kind": "blocks", "block": 2, "splits": 1}], ids=["rows", "loop"])
def test_a_sum_of_infinities_is_one(how: dict[str, object]) -> None:
    """Two of them in one lane, too."""
    text = "loss all\ninput x[N, C]\nreturn logsumexp[C](x)\n"
    x = torch.tensor([[float("inf"), 1.0, float("inf"), 2.0], [3.0, 1.0, 3.0, 2.0]])
    with shaped(rows=1, warps=4, **how):
        found = lossdsl.loss(lossdsl.loads(text), backend="triton", reduction="none")(x)
    torch.testing.assert_close(found, x.logsumexp(1), rtol=1e-6, atol=0)


def test_nan_reaches_its_row_alone() -> None:
    x, y = data()
    x[0, 5] = float("nan")
    for how in ({}, LOOP):
        with shaped(**how):
            _, found = gradient(x, y, reduction="none")
        assert found[0].isnan().all()
        assert found[1:].isfinite().all()


def test_targets_outside_read_nothing() -> None:
    """As on a device, where no check waits for the numbers: the kernel by itself."""
    from tests.triton.kernels import called, planned

    x, _ = data(3)
    given = {"logits": x, "target": torch.tensor([2**40, -7, 1]), "ignore_index": torch.tensor(IGNORED)}
    program = planned("cross_entropy")[1][0]
    for how in ({"kind": "rows", "rows": 1, "warps": 4}, LOOP):
        rows = called("cross_entropy", program, given, **how)["rows"]
        assert rows.isnan().tolist() == [True, True, False]


@pytest.mark.parametrize("how", [{"rows": 1}, {"rows": 4}, {**LOOP, "splits": 1}, LOOP], ids=str)
@pytest.mark.parametrize("name", ["cross_entropy", "label_smoothing_ce", "emd2"])
def test_targets_outside_are_nan_in_their_row(name: str, how: dict[str, object]) -> None:
    """Value and gradient, whether a loss looks an entry up, compares indices or scatters; those that are ignored count
    for nothing. With `check=True` the call raises."""
    x, _ = data(6, 9)
    y = torch.tensor([3, 9, IGNORED, -1, 2**40, 8])
    bad = [False, True, False, True, True, False]
    x.requires_grad_()
    loss = lossdsl.loss(name, backend="triton", reduction="none")
    with shaped(**how):
        rows = loss(x, y)
        (found,) = torch.autograd.grad(rows.sum(), x)
    assert rows.isnan().tolist() == bad
    assert found.isnan().all(1).tolist() == bad
    assert found.isnan().any(1).tolist() == bad
    with pytest.raises(IndexError, match="but logits has 9 classes"):
        loss(x, y, check=True)


def test_params_are_numbers_of_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """A schedule of gamma changes no constant of a kernel, so it is compiled once."""
    seen: list[dict[str, object]] = []
    start = launch.Launch.start

    def watched(self: launch.Launch, *given: object) -> None:
        seen.append({"options": repr(given[-1]), "types": [type(x).__name__ for x in given[-2]]})  # type: ignore[index,union-attr]
        start(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(launch.Launch, "start", watched)
    loss = lossdsl.loss("focal", backend="triton")
    x, y = data()
    values = {float(loss(x.float(), y, gamma=g)) for g in (0.5, 1.0, 2.5, 3.0)}
    assert len(values) == 4
    assert all(s == seen[0] for s in seen)


def test_second_derivatives() -> None:
    x, y = data(3, 9)
    loss = lossdsl.loss("cross_entropy", backend="triton")
    assert torch.autograd.gradgradcheck(lambda z: loss(z, y), x.requires_grad_())


def test_a_module_of_its_own_runs(tmp_path: object) -> None:
    """`--standalone`: with torch and triton alone."""
    import subprocess
    import sys
    from pathlib import Path

    folder = Path(str(tmp_path))
    text = lossdsl.compile("cross_entropy", backend="triton", standalone=True).text
    (folder / "mine.py").write_text(text, encoding="utf-8")
    code = (
        "import sys, torch, mine\n"
        "assert not any(m.partition('.')[0] == 'lossdsl' for m in sys.modules)\n"
        "x = torch.randn(4, 9, dtype=torch.float64, requires_grad=True); y = torch.tensor([1, 2, 3, -100])\n"
        "v = mine.CrossEntropy()(x, y); v.backward()\n"
        "z = x.detach().clone().requires_grad_(); w = torch.nn.functional.cross_entropy(z, y); w.backward()\n"
        "torch.testing.assert_close(v, w); torch.testing.assert_close(x.grad, z.grad)\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)


@pytest.mark.parametrize("backend", ["aot_eager", "eager", "inductor"] if FULL else ["aot_eager"])
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_compiled_by_torch_as_one_graph(reduction: str, backend: str) -> None:
    """torch.compile with fullgraph: ignored rows, and a target outside, are numbers that no branch looks at."""
    x, y = data()
    loss = lossdsl.loss("focal", backend="triton", reduction=reduction)
    step = torch.compile(lambda z, y, g: loss(z, y, gamma=g), backend=backend, fullgraph=True)
    for ignored in (y, torch.where(torch.arange(6) < 3, y, IGNORED), torch.full_like(y, IGNORED)):
        for gamma in (2.0, 0.5):
            z, w = x.clone().requires_grad_(), x.clone().requires_grad_()
            found = step(z, ignored, torch.tensor(gamma))
            wanted = lossdsl.loss("focal", backend="torch", reduction=reduction)(w, ignored, gamma=gamma)
            torch.testing.assert_close(found, wanted, rtol=1e-12, atol=0)
            (a,) = torch.autograd.grad(found.sum(), z)
            (b,) = torch.autograd.grad(wanted.sum(), w)
            torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-17)
    outside = y.clone()
    outside[4] = 70
    z = x.clone().requires_grad_()
    found = step(z, outside, torch.tensor(2.0))
    (a,) = torch.autograd.grad(found.sum(), z)
    assert found.reshape(-1)[-1 if reduction == "mean" else 4].isnan()
    assert a.isnan().any(1).tolist() == [False, False, False, False, True, False]
