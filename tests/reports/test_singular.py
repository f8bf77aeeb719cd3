"""Public bug reports about singular points: kinks, branches, norms at zero, masks before exponentials.

The source of each is in its docstring: project and number of the report.
"""

from __future__ import annotations

import math
import time
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

import lossdsl

INF, NAN = math.inf, math.nan


def built(text: str, **options: object) -> Any:
    return lossdsl.loss(lossdsl.loads(text), backend="torch", **options)


def derivatives(text: str, x: Tensor, order: int = 1) -> list[Tensor]:
    """The loss of each entry, and its first derivatives one after the other."""
    x = x.clone().requires_grad_()
    found = [built(text, reduction="none")(x)]
    for _ in range(order):
        (slope,) = torch.autograd.grad(found[-1].sum(), x, create_graph=True)
        found.append(slope)
    return [f.detach() for f in found]


def test_an_angular_margin_goes_on_punishing() -> None:
    """pytorch-metric-learning 537, insightface 247: beyond pi - m the plain formula rewards a worse angle."""
    text = "loss arced\ninput c[N] in [-1, 1]\nparam m = 0.5\nreturn arc(c, m)\n"
    m = math.pi / 6
    angles = torch.linspace(0.001, math.pi - 0.001, 1000, dtype=torch.float64)
    value, slope = derivatives(text.replace("0.5", repr(m)), torch.cos(angles))
    assert (value.diff() < 0).all()
    assert (slope >= 0).all()


@pytest.mark.parametrize("name", ["arcface_cosine", "arcface_straight_through"])
@pytest.mark.parametrize("end", [1.0, -1.0])
def test_a_cosine_that_rounding_has_carried_too_far(name: str, end: float) -> None:
    """torch.acos(1 + 1e-7) is NaN, and normalised float32 vectors have such cosines: they count as ±1."""
    loss_fn = lossdsl.loss(name, backend="torch", reduction="none")
    found = []
    for first in (end, end * (1 + 1.2e-7)):
        cosine = torch.tensor([[first, 0.2, -0.3]], requires_grad=True)
        value = loss_fn(cosine, torch.tensor([0]))
        found.append((value.item(), *torch.autograd.grad(value.sum(), cosine)[0][0].tolist()))
    assert all(math.isfinite(x) for x in found[1])
    assert found[1] == pytest.approx(found[0], rel=1e-6)
    if name == "arcface_cosine":
        assert found[0][1] == 0.0  # the angle's slope at the end is 0, as that of a norm at 0


def test_only_the_branch_that_is_taken_is_felt() -> None:
    """sympy 11306: both branches of a Piecewise are evaluated; by torch.where the gradient at 0 was NaN."""
    text = "loss guarded\ninput q[N] in [0, 1]\nreturn if q > 0 then q * log(q) - 2 * q else 0\n"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value, slope, bend = derivatives(text, torch.tensor([0.0, 0.5]), 2)
    assert value.tolist() == pytest.approx([0.0, 0.5 * math.log(0.5) - 1])
    assert slope.tolist() == pytest.approx([0.0, math.log(0.5) - 1])
    assert bend.tolist() == pytest.approx([0.0, 2.0])


def test_a_value_for_one_point_is_pointed_at() -> None:
    """sympy 11402: sinc as a Piecewise has the second derivative 0 at 0 for -1/3, and nothing says so."""
    guarded = lossdsl.loads("loss sinc\ninput x[N]\nreturn if x == 0 then 1 else sin(x) / x\n")
    assert [w.code for w in guarded.checked.warnings] == ["W0512"]
    text = "loss sinc\ninput x[N]\nreturn if abs(x) < 0.01 then 1 - x^2 / 6 + x^4 / 120 else sin(x) / x\n"
    series = lossdsl.loads(text)
    assert not series.checked.warnings
    loss_fn = lossdsl.loss(series, backend="torch", reduction="sum")
    x = torch.tensor([0.0, 0.5], dtype=torch.float64)
    second = torch.autograd.functional.hessian(loss_fn, x).diagonal()
    at = 0.5
    expected = -math.sin(at) / at - 2 * math.cos(at) / at**2 + 2 * math.sin(at) / at**3
    assert second.tolist() == pytest.approx([-1 / 3, expected], rel=1e-12)


def test_compiling_never_hangs() -> None:
    """sympy 19136, 24696: simplify of a Hessian of nested log-sum-exps didn't finish; here none is on the way."""
    text = "loss pairs\ninput v[N, C]\nreturn sum[C](logsumexp[C'](v[C -> C'] - v))\n"
    started = time.process_time()
    v = torch.arange(8, dtype=torch.float64)[None].requires_grad_()
    value = built(text)(v)
    (grad,) = torch.autograd.grad(value, v, create_graph=True)
    (second,) = torch.autograd.grad(grad[0, 0], v)
    assert time.process_time() - started < 20
    p = torch.softmax(torch.arange(8, dtype=torch.float64), 0)
    torch.testing.assert_close(grad.detach()[0], 8 * p - 1, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(second[0], 8 * (torch.diag(p) - p[:, None] * p)[0], rtol=1e-12, atol=1e-12)
