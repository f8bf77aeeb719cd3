"""The caller's reduction."""

from __future__ import annotations

import math

import pytest
import torch
from handmade import Focal
from handmade_others import BCE, Dice, WeightedCE


@pytest.fixture
def z():
    return torch.randn(6, 5, requires_grad=True)


@pytest.fixture
def y():
    return torch.tensor([0, 1, 2, 3, -100, 4])


def test_mean_sum_none_and_denominators(z, y):
    rows = Focal(reduction="none")(z, y).detach().double()
    assert rows[4] == 0
    total = rows.sum()
    for options, expected in [
        ({}, total / 5),
        ({"reduction": "sum"}, total),
        ({"denominator": "elements"}, total / 6),
        ({"denominator": 40}, total / 40),
        ({"denominator": torch.tensor(40)}, total / 40),
    ]:
        for loss in (Focal(**options)(z, y), Focal()(z, y, **options)):
            torch.testing.assert_close(loss.detach().double(), expected, rtol=1e-7, atol=0)


def test_gradients_are_scaled_alike(z, y):
    unit = torch.autograd.grad(Focal()(z, y, reduction="sum"), z)[0]
    for denominator, by in [("valid", 5), ("elements", 6), (2.5, 2.5), (torch.tensor(8), 8)]:
        torch.testing.assert_close(torch.autograd.grad(Focal()(z, y, denominator=denominator), z)[0], unit / by)


@pytest.mark.parametrize("count", [0, 3])
def test_a_mean_over_nothing_is_a_zero_that_still_depends_on_its_input(count):
    z = torch.full((count, 5), float("nan"), requires_grad=True)
    y = torch.full((count,), -100)
    loss = Focal()(z, y)
    assert loss == 0
    loss.backward()
    assert z.grad is not None
    assert (z.grad == 0).all()
    assert math.isnan(Focal(empty="nan")(z, y).detach())
    z = torch.randn(0, requires_grad=True)
    loss = BCE()(z, torch.rand(0))
    assert loss == 0
    loss.backward()
    assert z.grad.shape == (0,)
    assert math.isnan(BCE(empty="nan")(z, torch.rand(0)).detach())


def test_weights_that_are_all_zero(z, y):
    w = torch.zeros(5, requires_grad=True)
    loss = WeightedCE()(z, y.clamp(0), w)
    assert loss == 0
    loss.backward()
    assert (z.grad == 0).all()
    assert (w.grad == 0).all()
    assert math.isnan(WeightedCE(empty="nan")(z, y.clamp(0), w).detach())


def test_a_row_of_nan_that_is_ignored_reaches_nothing(y):
    z = torch.randn(6, 5)
    z[4] = float("nan")
    z.requires_grad_()
    loss = Focal()(z, y)
    loss.backward()
    assert loss.isfinite()
    assert (z.grad[4] == 0).all()
    assert z.grad.isfinite().all()


def test_a_long_half_batch_keeps_its_digits():
    z = torch.zeros(70_000, 2, dtype=torch.float16)
    y = torch.zeros(70_000, dtype=torch.long)
    loss = Focal(gamma=0.0)(z, y)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(math.log(2), rel=1e-7)
    assert Focal(gamma=0.0)(z, y, reduction="sum").item() == pytest.approx(70_000 * math.log(2), rel=1e-7)


def test_a_denominator_of_zero_is_a_mean_over_nothing(z, y):
    for denominator in (0, 0.0, torch.tensor(0)):
        assert Focal()(z, y, denominator=denominator) == 0
        assert Focal()(z, y, denominator=denominator, empty="nan").isnan()
        grad = torch.autograd.grad(Focal()(z, y, denominator=denominator), z)[0]
        assert (grad == 0).all()
        assert (torch.func.grad(lambda z, d=denominator: Focal()(z, y, denominator=d))(z) == 0).all()


def test_options_that_mean_nothing(z, y):
    for options, match in [
        ({"reduction": "avg"}, 'reduction is "mean", "sum" or "none", not \'avg\''),
        ({"empty": "one"}, 'empty is "zero" or "nan"'),
        ({"denominator": "rows"}, 'denominator is "valid", "elements"'),
        ({"denominator": torch.ones(2)}, r"0-d tensor, not one of shape \(2,\)"),
        ({"denominator": torch.tensor(1.0, requires_grad=True)}, "denominator.detach"),
    ]:
        with pytest.raises(ValueError, match=match):
            Focal()(z, y, **options)
        with pytest.raises(ValueError, match=match):
            Focal(**options)


def test_a_batch_loss_has_no_rows_and_no_denominator():
    x, y = torch.randn(4), torch.tensor([True, False, True, True])
    torch.testing.assert_close(Dice()(x, y, reduction="sum"), Dice()(x, y))
    with pytest.raises(ValueError, match="no rows"):
        Dice()(x, y, reduction="none")
    with pytest.raises(ValueError, match="no denominator"):
        Dice()(x, y, denominator="elements")
