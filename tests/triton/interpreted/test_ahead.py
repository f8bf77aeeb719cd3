"""The gradient in the same visit as the value, as on a device: nothing waits for numbers, the upstream comes later."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from torch import Tensor

import lossdsl
from lossdsl.backends.triton import launch
from lossdsl.backends.triton.rescale import rescale
from lossdsl.runtime import calling

IGNORED = -100
WAITS = ("item", "tolist", "nonzero", "cpu", "numpy", "__bool__", "__float__", "__int__", "__index__")


def by_runtime() -> bool:
    """Whether a function of the run time is being called."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and not frame.f_code.co_filename.startswith(str(Path(calling.__file__).parent)):
        frame = frame.f_back
    return frame is not None


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """As if tensors were on a device: whatever would wait for one raises, but for the interpreter's own launches. The
    stages that are launched, by name."""
    names: list[str] = []
    launching = [0]
    run = launch.Launch.run

    def watched(self: launch.Launch, *given: Any) -> None:
        names.append(self.whole.__name__.strip("_").removesuffix("_rows"))
        launching[0] += 1
        try:
            run(self, *given)
        finally:
            launching[0] -= 1

    def guarded(name: str) -> Any:
        plain = getattr(Tensor, name)

        def method(self: Tensor, *given: Any, **options: Any) -> Any:
            assert launching[0] or not by_runtime(), f"Tensor.{name} waits for the device"
            return plain(self, *given, **options)

        return method

    monkeypatch.setattr(launch.Launch, "run", watched)
    monkeypatch.setattr(calling, "bind_quickly", lambda *_: None)  # for tensors on the CPU alone
    monkeypatch.setattr(calling, "on_host", lambda _: False)
    for name in WAITS:
        monkeypatch.setattr(Tensor, name, guarded(name))
    return names


@pytest.fixture
def data() -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    target = torch.randint(70, (6,))
    target[2] = IGNORED
    return torch.randn(6, 70, dtype=torch.float64) * 4, target


def wanted(x: Tensor, y: Tensor, **options: Any) -> tuple[Tensor, Tensor]:
    z = x.clone().requires_grad_()
    value = torch.nn.functional.cross_entropy(z, y, **options)
    return value.detach(), torch.autograd.grad(value, z)[0]


def same(found: Tensor, exact: Tensor) -> None:
    """Up to the rounding of a few float64 operations."""
    torch.testing.assert_close(found, exact, rtol=1e-12, atol=1e-17, equal_nan=True)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_one_visit_whatever_comes_from_behind(reduction: str, data: tuple[Tensor, Tensor], started: list[str]) -> None:
    x, y = data
    value, exact = wanted(x, y, reduction=reduction)
    loss = lossdsl.loss("cross_entropy", backend="triton", reduction=reduction)
    for upstream in (1.0, 2.5):
        started.clear()
        z = x.clone().requires_grad_()
        found = loss(z, y)
        (first,) = torch.autograd.grad(found, z, torch.tensor(upstream, dtype=torch.float64), retain_graph=True)
        assert {s.partition("_")[0] for s in started} <= {"both", "weight"}
        same(found, value)
        same(first, upstream * exact)
        (second,) = torch.autograd.grad(found, z, torch.tensor(-3.0, dtype=torch.float64))
        assert "gradient" in started  # the first one's memory is the caller's
        same(second, -3 * exact)
        same(first, upstream * exact)


def test_denominators(data: tuple[Tensor, Tensor], started: list[str]) -> None:
    x, y = data
    total, exact = wanted(x, y, reduction="sum")
    for denominator, by in (("elements", 6), (7.0, 7), (torch.tensor(4.0), 4), ("valid", 5)):
        z = x.clone().requires_grad_()
        found = lossdsl.loss("cross_entropy", backend="triton", denominator=denominator)(z, y)
        same(found, total / by)
        same(torch.autograd.grad(found, z)[0], exact / by)


@pytest.mark.parametrize("empty", ["zero", "nan"])
def test_a_mean_over_nothing(empty: str, data: tuple[Tensor, Tensor], started: list[str]) -> None:
    x, y = data
    z = x.clone().requires_grad_()
    found = lossdsl.loss("cross_entropy", backend="triton", empty=empty)(z, torch.full_like(y, IGNORED))
    fill = torch.tensor(0.0 if empty == "zero" else float("nan"), dtype=torch.float64)
    (grad,) = torch.autograd.grad(found, z)
    same(found, fill)
    same(grad, torch.zeros_like(x))


def test_an_index_outside_spoils_its_row(data: tuple[Tensor, Tensor], started: list[str]) -> None:
    x, y = data
    _, exact = wanted(x, y)
    y = y.clone()
    y[4] = 70
    z = x.clone().requires_grad_()
    found = lossdsl.loss("cross_entropy", backend="triton")(z, y)
    (grad,) = torch.autograd.grad(found, z)
    exact[4] = float("nan")
    same(found, torch.tensor(float("nan"), dtype=torch.float64))
    same(grad, exact)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_ignored_labels_of_probabilities(reduction: str, data: tuple[Tensor, Tensor], started: list[str]) -> None:
    x, y = data
    value, exact = wanted(x, y, reduction=reduction)
    text = "loss soft\ninput z[N, C]\ninput q[N, C]: prob C\nreturn -sum[C](q * log_softmax(z))\n"
    loss = lossdsl.loss(lossdsl.loads(text), backend="triton", reduction=reduction)
    z = x.clone().requires_grad_()
    found = loss(z, y)
    same(found, value)
    same(torch.autograd.grad(found, z)[0], exact)
    y = y.clone()
    y[4] = 70
    rows = loss(x, y, reduction="none")
    assert rows.isnan().tolist() == [i == 4 for i in range(6)]


def test_half_precision_of_little_range_waits_for_its_scale(data: tuple[Tensor, Tensor], started: list[str]) -> None:
    """2^16 · 2^-30 is a float16, 2^-30 is none."""
    x = torch.zeros(2**14, 2, dtype=torch.float16)
    x[:, 0] = 10
    z = x.requires_grad_()
    y = torch.zeros(2**14, dtype=torch.int64)
    found = lossdsl.loss("cross_entropy", backend="triton")(z, y)
    assert "both" not in "".join(started)
    (grad,) = torch.autograd.grad(found, z, torch.tensor(2.0**16))
    assert (grad[:, 1] > 0).all()
    (ahead,) = torch.autograd.grad(lossdsl.loss("cross_entropy", backend="torch")(z, y), z)
    assert not (ahead[:, 1] * 2.0**16 > 0).any()


def test_create_graph_is_as_without(data: tuple[Tensor, Tensor], started: list[str]) -> None:
    x, y = data
    z, w = x.clone().requires_grad_(), x.clone().requires_grad_()
    (first,) = torch.autograd.grad(lossdsl.loss("cross_entropy", backend="triton")(z, y), z, create_graph=True)
    (exact,) = torch.autograd.grad(torch.nn.functional.cross_entropy(w, y), w, create_graph=True)
    same(torch.autograd.grad(first.square().sum(), z)[0], torch.autograd.grad(exact.square().sum(), w)[0])


@pytest.mark.parametrize("shape", [(5, 3), (3, 5000), (2, 3, 70_000), (4096, 1), (7,), (0, 4)])
def test_rescale(shape: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    x = torch.randn(shape)
    for factor in (
        torch.tensor(1.0),
        torch.tensor(0.25),
        torch.where(torch.rand(shape[:1]) < 0.5, 1.0, 3.0).reshape(-1, *[1] * (len(shape) - 1)),
    ):
        y = x.clone()
        rescale(y, factor)
        assert torch.equal(y, x * factor)
    if x.dim() == 2 and x.numel():
        by = torch.rand(1, shape[1], dtype=torch.float64)
        y = x.clone()
        rescale(y, by)
        assert torch.equal(y, (x.double() * by).float())


def test_rescale_leaves_what_is_right() -> None:
    """Rows whose factor is 1 are neither read nor written: so it costs nothing where the upstream is 1."""
    x = torch.full((3, 4), float("nan")).view(torch.int32)
    x += torch.arange(12, dtype=torch.int32).reshape(3, 4)  # NaNs that arithmetic would change
    before = x.clone()
    version = x._version
    rescale(x.view(torch.float32), torch.ones(()))
    assert torch.equal(x, before)
    assert x._version == version


def test_checkpointing_reads_what_is_saved_once() -> None:
    """It lets a backward unpack the saved tensors a single time."""
    from torch.utils.checkpoint import checkpoint

    x = torch.randn(4, 9, generator=torch.Generator().manual_seed(0), requires_grad=True)
    y = torch.tensor([1, 8, -100, 0])
    loss = lossdsl.loss("cross_entropy", backend="triton")
    value = checkpoint(lambda z: loss(z * 1.0, y), x, use_reentrant=False)
    (found,) = torch.autograd.grad(value, x)
    (wanted,) = torch.autograd.grad(torch.nn.functional.cross_entropy(x, y), x)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-7)
