"""Gradients in memory that the caller gives: that of the logits above all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from cpu_harness import arguments, compiled
from test_cpu_losses import REGISTRY, SIZES, planned, sample, tensors
from torch import Tensor

import lossdsl
from lossdsl.backends.api import overwritable


def computed(x: Tensor) -> Tensor:
    """The same numbers, as logits that a network has made."""
    return x * 1


@pytest.fixture
def x() -> Tensor:
    torch.manual_seed(0)
    return (torch.randn(9, 5) * 3).requires_grad_()


@pytest.fixture
def y() -> Tensor:
    return torch.tensor([0, 1, 2, 3, 4, 0, -100, 2, 3])


@pytest.mark.parametrize("path", sample(), ids=lambda x: x.stem)
def test_results_over_arguments_are_the_same_bits(path: Path) -> None:
    """Every program that says so: the kernel reads what it overwrites no later, in any layout."""
    checked, programs = planned(path)
    for p in programs:
        over = overwritable(p)
        if not over or not p.name.rpartition(".")[2].startswith("both"):
            continue
        function = compiled(p, REGISTRY)
        ins = [b.name for b in p.buffers if b.role in ("in", "param")]
        outs = [b.name for b in p.buffers if b.role == "out"]
        for size in SIZES.values():
            args = arguments(p, tensors(checked, p, *size, torch.float32))
            wanted = function(*args)
            into = [args[ins.index(over[name])] if name in over else None for name in outs]
            found = function(*args, into=into)
            for a, b, there in zip(found, wanted, into, strict=True):
                assert there is None or a is there
                torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("upstream", [1.0, -2.5, 0.0])
def test_value_and_gradient_are_those_of_a_fresh_one(x: Tensor, y: Tensor, upstream: float) -> None:
    fresh, loss = (
        lossdsl.loss("cross_entropy", backend="cpu"),
        lossdsl.loss("cross_entropy", backend="cpu", inplace=True),
    )
    wanted = fresh(x, y)
    (g,) = torch.autograd.grad(upstream * wanted, x)
    z = computed(x)
    value = loss(z, y)
    assert value.item() == wanted.item()
    assert torch.equal(z.detach(), torch.autograd.grad(fresh(x, y), x)[0])
    for _ in range(2):
        (found,) = torch.autograd.grad(upstream * value, x, retain_graph=True)
        assert torch.equal(found, g)
    (found,) = torch.autograd.grad(value, x)
    torch.testing.assert_close(found, torch.autograd.grad(fresh(x, y), x)[0])


def test_no_memory_as_large_as_the_logits(y: Tensor) -> None:
    loss = lossdsl.loss("cross_entropy", backend="cpu", inplace=True)
    seen: list[Tensor] = []
    z = computed(torch.randn(9, 5, requires_grad=True))
    z.register_hook(seen.append)
    place = z.data_ptr()
    loss(z, y).backward()
    assert [g.data_ptr() for g in seen] == [place], "the gradient that is handed back lies elsewhere"


@pytest.mark.parametrize(
    ("shape", "class_dim"), [((2, 5, 3, 4), 1), ((1, 5, 3), 1), ((2, 3, 5), -1), ((2, 3, 4, 5), -1)]
)
def test_further_dimensions(shape: tuple[int, ...], class_dim: int) -> None:
    torch.manual_seed(1)
    x = torch.randn(*shape, requires_grad=True)
    inside = x.movedim(class_dim, 1)
    y = torch.randint(0, 5, (inside.shape[0], *inside.shape[2:]))
    y[0, 0] = -100
    loss = lossdsl.loss("cross_entropy", backend="cpu", inplace=True, class_dim=class_dim)
    wanted = F.cross_entropy(inside, y)
    (g,) = torch.autograd.grad(wanted, x)
    value = loss(computed(x), y)
    torch.testing.assert_close(value, wanted)
    torch.testing.assert_close(torch.autograd.grad(value, x)[0], g)


def test_two_inputs_of_which_one_has_a_gradient() -> None:
    torch.manual_seed(2)
    s, t = torch.randn(7, 6, requires_grad=True), torch.randn(7, 6)
    wanted = torch.autograd.grad(lossdsl.loss("kd_kl", backend="cpu")(s, t), s)[0]
    value = lossdsl.loss("kd_kl", backend="cpu", inplace=True)(computed(s), t)
    assert torch.equal(torch.autograd.grad(value, s)[0], wanted)


def test_without_a_gradient_nothing_is_overwritten(x: Tensor, y: Tensor) -> None:
    loss = lossdsl.loss("cross_entropy", backend="cpu")
    before = x.detach().clone()
    with torch.no_grad():
        assert loss(x, y, inplace=True).item() == loss(x, y).item()
    assert loss(x.detach(), y, inplace=True).item() == loss(x, y).item()
    assert torch.equal(x, before)


APART = torch.zeros(2, 5, 4).mT  # rows that lie no single stride apart
REFUSED: dict[str, tuple[Callable[[Tensor, Tensor], object], str]] = {
    "leaf": (lambda x, y: ce(x, y), "a leaf that requires grad"),
    "view": (lambda x, y: ce(computed(x)[:4], y[:4]), "a view of another tensor"),
    "expanded": (lambda x, y: ce(Made.apply(x, torch.zeros(1, 5).expand(9, 5)), y), "share memory"),
    "turned": (lambda x, y: ce(Made.apply(x, APART), y[:8].view(2, 4), class_dim=-1), "read where they lie"),
    "none": (lambda x, y: ce(computed(x), y, reduction="none"), 'use reduction="mean" or "sum"'),
    "same": (lambda x, y: kd(z := computed(x), z.detach()), "student and teacher lie in the same memory"),
    "both": (lambda x, y: kd(computed(x), computed(x)), "student is read again"),
    "trace": (lambda x, y: torch.func.grad(lambda z: ce(z, y))(x.detach()), "inside torch.compile, torch.func"),
    "wrong": (lambda x, y: ce(computed(x), y + 9), "logits has 5 classes"),
}


def ce(*tensors: Tensor, **options: Any) -> Tensor:
    loss: Tensor = lossdsl.loss("cross_entropy", backend="cpu", inplace=True)(*tensors, **options)
    return loss


def kd(*tensors: Tensor) -> Tensor:
    loss: Tensor = lossdsl.loss("kd_kl", backend="cpu", inplace=True)(*tensors)
    return loss


class Made(torch.autograd.Function):
    """Logits that lie in memory in some way."""

    @staticmethod
    def forward(ctx: object, x: Tensor, found: Tensor) -> Tensor:
        return found.detach()

    @staticmethod
    def backward(ctx: object, grad: Tensor) -> tuple[Tensor, None]:
        return grad, None


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_the_inputs_as_they_were(case: str, x: Tensor, y: Tensor) -> None:
    before = x.detach().clone()
    call, reason = REFUSED[case]
    with pytest.raises((ValueError, IndexError), match=reason):
        call(x, y)
    assert torch.equal(x, before)


def test_backends_and_losses_that_have_it_not() -> None:
    with pytest.raises(ValueError, match="the backend torch makes every gradient in memory of its own"):
        lossdsl.loss("cross_entropy", backend="torch", inplace=True)
    with pytest.raises(ValueError, match="its matrix is never in memory"):
        lossdsl.loss("cross_entropy", backend="cpu", head="linear", inplace=True)
    assert lossdsl.loss("cross_entropy", backend="torch", inplace=False) is not None


def test_later_uses_are_seen(x: Tensor, y: Tensor) -> None:
    z = computed(x)
    value = ce(z, y) + z.sum()
    with pytest.raises(RuntimeError, match="used again"):
        value.backward()
    z = x.exp()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        ce(z, y).backward()
    with pytest.raises(RuntimeError, match="second derivative"):
        torch.autograd.grad(ce(computed(x), y), x, create_graph=True)


def test_memory_of_another_shape_is_refused() -> None:
    from lossdsl_cpu.load import result

    for there in (torch.empty(2, 3), torch.empty(3, 2, dtype=torch.float64), torch.empty(1, 2).expand(3, 2)):
        with pytest.raises(ValueError, match="result 0"):
            result([there], 0, (3, 2), torch.float32)
