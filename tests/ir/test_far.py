"""Logarithms of what is nearly 0 itself: against 50 digits on both sides of where their form changes, and far out."""

from __future__ import annotations

import mpmath
import pytest
import torch

import lossdsl

PLACES = [-1e4, -700.0, -200.0, -104.0, -88.0, -40.0, -18.0, -17.5, -17.0, -16.5, -9.0, -1.0, 0.0, 3.0, 40.0, 200.0]


def log_softplus(x: mpmath.mpf) -> mpmath.mpf:
    return mpmath.log(mpmath.log1p(mpmath.exp(x)))


def log_any(n: float) -> object:
    return lambda x: mpmath.log(-mpmath.expm1(n * mpmath.log1p(-mpmath.exp(x))))


FORMS = {
    "log of softplus": ("return log(softplus(x))", log_softplus, PLACES),
    "log of any of 16": ("param n = 16 in [1, inf)\nreturn log(1 - (1 - exp(x))^n)", log_any(16), PLACES[:12]),
    "log of any of 2.5": ("return log(1 - (1 - exp(x))^2.5)", log_any(2.5), PLACES[:12]),
    "log of 1 + tanh": (
        "return log((1 + tanh(x / 2)) / 2)",
        lambda x: -mpmath.log1p(mpmath.exp(-x)),
        [x for x in PLACES if x < 10],
    ),
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_value_and_slope(name: str, dtype: torch.dtype) -> None:
    line, exact, places = FORMS[name]
    interval = " in (-inf, 0)" if "any" in name else ""
    spec = lossdsl.loads(f"loss t\ninput x[N]{interval}\n{line}\n")
    x = torch.tensor(places, dtype=dtype, requires_grad=True)
    value = lossdsl.loss(spec, backend="torch", reduction="none")(x)
    (slope,) = torch.autograd.grad(value.sum(), x)
    eps = torch.finfo(dtype).eps
    with mpmath.workdps(150):
        for place, found, steep in zip(x.tolist(), value.tolist(), slope.tolist(), strict=True):
            at = mpmath.mpf(place)
            should = exact(at)
            assert abs(found - should) <= 8 * eps * abs(should), (place, found, mpmath.nstr(should))
            step = mpmath.mpf("1e-50")
            slope_ = (exact(at + step) - exact(at - step)) / (2 * step)
            room = (8 + min(abs(place), 20)) * eps * max(abs(slope_), torch.finfo(dtype).tiny / eps)
            assert abs(steep - slope_) <= room, (place, steep, mpmath.nstr(slope_))
