"""Public bug reports about the numbers that losses give, as tests of the right value.

The source of each is in its docstring: project and number of the report.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import lossdsl

INF, NAN = math.inf, math.nan


def run(
    name: str, *inputs: object, dtype: torch.dtype = torch.float64, **options: object
) -> tuple[Tensor, list[Tensor]]:
    """The loss and its gradients in the real inputs; lists of floats are made tensors of `dtype`."""
    tensors = [torch.tensor(x, dtype=dtype) if _has_floats(x) else torch.tensor(x) for x in inputs]
    real = [t.requires_grad_() for t in tensors if t.is_floating_point()]
    value = lossdsl.loss(name, backend="torch", **options)(*tensors)
    found = torch.autograd.grad(value.sum(), real, allow_unused=True)
    return value.detach(), [torch.zeros_like(t) if g is None else g for g, t in zip(found, real, strict=True)]


def _has_floats(x: object) -> bool:
    return any(_has_floats(y) for y in x) if isinstance(x, list) else isinstance(x, float)


def same(found: Tensor, expected: object, rtol: float = 1e-9, atol: float = 0.0) -> None:
    torch.testing.assert_close(found, torch.tensor(expected, dtype=found.dtype), rtol=rtol, atol=atol)


@pytest.mark.parametrize("row", [[-INF, -INF], [NAN, 1.0], [INF, 1.0]])
@pytest.mark.parametrize("loss", ["cross_entropy", "focal", "brier", "label_smoothing_ce", "z_loss_ce", "squentropy"])
def test_an_ignored_row_does_not_leak(loss: str, row: list[float]) -> None:
    """open-instruct 1685: the gradient of an ignored row was NaN and poisoned the shared weights."""
    alone, (expected,) = run(loss, [[0.0, 0.5]], [0])
    value, (grad,) = run(loss, [row, [0.0, 0.5]], [-100, 0])
    same(value, alone.item())
    same(grad, [[0.0, 0.0], expected[0].tolist()])


def test_focal_at_zero_gamma_is_cross_entropy() -> None:
    """optax 1267: pow(0, 0)'s derivative was NaN."""
    value, (grad, _) = run("sigmoid_focal", [1000.0], [1.0], gamma=0.0, alpha=1.0)
    assert value == 0
    assert grad.item() == 0
    ce, (expected,) = run("cross_entropy", [[2.0, 0.0, -1.0], [90.0, 0.0, 0.0]], [0, 0])
    value, (grad,) = run("focal", [[2.0, 0.0, -1.0], [90.0, 0.0, 0.0]], [0, 0], gamma=0.0)
    same(value, ce.item())
    same(grad, expected.tolist())


def test_half_precision_sums_in_single() -> None:
    """pytorch 85791: a float16 sum overflowed to inf; also a log-sum-exp of 65 536 zeros."""
    z = torch.zeros(10_000, 1500, dtype=torch.float16)
    value = lossdsl.loss("cross_entropy", reduction="sum", backend="torch")(z, torch.zeros(10_000, dtype=torch.long))
    assert value.dtype == torch.float32
    same(value, 10_000 * math.log(1500), rtol=1e-6)
    z = torch.zeros(1, 65_536, dtype=torch.float16, requires_grad=True)
    value = lossdsl.loss("cross_entropy", backend="torch")(z, torch.tensor([0]))
    same(value.detach(), math.log(65_536), rtol=1e-6)
    (grad,) = torch.autograd.grad(value, z)
    assert grad.dtype == torch.float16
    assert grad[0, 1] == 2.0**-16


@pytest.mark.parametrize("name", ["soft_target_ce", "kl_div_logp"])
def test_a_one_hot_target_of_floats_has_the_gradient_of_its_index(name: str) -> None:
    """p - q of a confident row: 0 where the index gives -5.7e-8."""
    logits = torch.tensor([[18.0, 0.0, 1.0]])
    found = []
    for loss, target in ((name, torch.tensor([[1.0, 0.0, 0.0]])), ("cross_entropy", torch.tensor([0]))):
        z = logits.clone().requires_grad_()
        lossdsl.loss(loss, backend="torch")(z, target).backward()
        assert z.grad is not None
        found.append(z.grad[0].tolist())
    assert found[0] == pytest.approx(found[1], rel=4 * 2.0**-23)
    assert found[0][0] == pytest.approx(-5.662935799e-8, rel=1e-6)


def test_divergence_gradients_in_half_precision() -> None:
    """speculators 788: p - q of rounded probabilities was 76 % off."""
    teacher = torch.tensor([[1.0, 0.0, -1.0]], dtype=torch.bfloat16)
    student = (teacher.float() + torch.tensor([[0.0078125, 0.0, 0.0]])).bfloat16().requires_grad_()
    (grad,) = torch.autograd.grad(lossdsl.loss("kd_kl", t=1.0, backend="torch")(student, teacher), student)
    p, q = (x.detach().double().softmax(-1) for x in (student, teacher))
    torch.testing.assert_close(grad.double(), p - q, rtol=1e-2, atol=0)


def test_half_inputs_give_the_loss_of_their_values() -> None:
    """TransformerEngine 3193: equal inputs, equal losses; the caller's logits are never written."""
    torch.manual_seed(0)
    z = torch.randn(16, 33).bfloat16()
    y = torch.randint(0, 33, (16,))
    before = z.clone()
    loss_fn = lossdsl.loss("cross_entropy", backend="torch")
    half = z.clone().requires_grad_()
    loss = loss_fn(half, y)
    loss.backward()
    same(loss.detach(), loss_fn(z.float(), y).item(), rtol=1e-6)
    assert torch.equal(half.detach(), before)


def test_a_common_offset_changes_nothing() -> None:
    """pytorch 195829: logsumexp(z) - z[y] at an offset of 1e6 was 0.03 off."""
    plain, _ = run("cross_entropy", [[1.0, 2.0, 3.0]], [0], dtype=torch.float32)
    same(plain, 2.4076059644, rtol=3e-7)
    for offset in (1e2, -1e2, 1e4, -1e4, 1e6, -1e6):
        value, (grad,) = run("cross_entropy", [[1 + offset, 2 + offset, 3 + offset]], [0], dtype=torch.float32)
        assert value == plain
        assert grad.sum().abs() <= 2 * 2.0**-24
