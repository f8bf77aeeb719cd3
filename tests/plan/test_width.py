"""Which programs are computed in float64: by what they are made of, and what that is good for."""

from __future__ import annotations

import pytest
import torch

import lossdsl
from lossdsl.api import registry
from lossdsl.pipeline import middle
from lossdsl.plan.width import why_double


def reasons(name: str) -> set[str]:
    made = middle(lossdsl.load(name).checked.source, registry())
    return {why_double(p) for p in made.plan.programs if not p.name.endswith(".second")}


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("arcface", "vectors"),
        ("dice_semimetric_loss", "quotients"),
        ("rlcd_pg", "mean"),
        ("bsl", "vectors"),
        ("cacr", "pairs"),
        ("synib_dirichlet", "trigamma"),
        ("mcr2", "logdet"),
        ("dpo_apo_down", "slopes"),
        ("triplet_margin", "directions"),
        ("gaussian_crps", "1e-40"),
        ("repa_alignment", "1e-40"),
        ("harmonic_chebyshev", "1e-40"),
    ],
)
def test_what_cancels_is_computed_in_float64(name: str, word: str) -> None:
    assert any(word in reason for reason in reasons(name))


@pytest.mark.parametrize(
    "name", ["cross_entropy", "brier", "kd_kl", "dist_kd", "linear_cross_entropy", "dpo", "smooth_l1", "logit_clip_ce"]
)
def test_no_more_than_that(name: str) -> None:
    """Rows of classes, an input times a matrix, and directions over a batch stay in single precision."""
    assert reasons(name) == {""}


def test_nearly_parallel_vectors() -> None:
    """1 - cos = 10^-6: float32 knows a cosine to 6e-8, so the gradient, which has 1 / (1 - cos) in it, to one digit."""
    angle = torch.tensor([0.0015, 0.002, 0.003], dtype=torch.float32)
    x = torch.stack([angle.cos(), angle.sin()], -1).requires_grad_()
    w = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    target = torch.zeros(3, dtype=torch.long)
    found = []
    for dtype in (torch.float32, torch.float64):
        module = lossdsl.loss("harmonic_cosine", backend="torch", reduction="none")
        given = x.detach().to(dtype).requires_grad_()
        value = module(given, w.to(dtype), target)
        assert value.dtype == dtype
        value.sum().backward()
        assert given.grad is not None
        found.append(given.grad.double())
    assert (found[0] - found[1]).abs().max() <= 2.0**-24 * found[1].abs().max()
    torch.testing.assert_close(found[0], found[1], rtol=2.0**-23, atol=0)


VECTORS = {  # of a vector x: what hangs on its direction alone, at any length
    "a direction": "return 1 - normalize[C](x)[y]",
    "a cosine": "return 1 - cosine[C](x, C == y)",
    "a standardised entry": "m = mean[C](x)\nreturn (x[y] - m) / sqrt(mean[C]((x - m)^2))",
    "an entry over the largest": "return x[y] / max[C](abs(x))",
}


@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize("length", [1e-20, 1e-30, 1e-37])
def test_a_direction_is_that_of_any_length(name: str, length: float) -> None:
    """x and x · 1e-30 have one direction; the gradient at the latter is 1e30 times the other. In single precision the
    squares of such a vector are 0, and its direction that of the zero vector."""
    module = lossdsl.loss(
        lossdsl.loads(f"loss t\ninput x[N, C]\ninput y[N]: index C\n{VECTORS[name]}\n"),
        backend="torch",
        reduction="none",
    )
    y = torch.tensor([0, 2])
    x = torch.tensor([[3.0, 1.0, -2.0, 0.5], [1.0, 7.0, 4.0, -1.0]])
    small = (x * length).requires_grad_()
    large = (small.detach().double() / length).requires_grad_()
    found, exact = module(small, y), module(large, y)
    torch.testing.assert_close(found.double(), exact, rtol=2.0**-23, atol=2.0**-23)
    (got,) = torch.autograd.grad(found.sum(), small)
    (should,) = torch.autograd.grad(exact.sum(), large)
    torch.testing.assert_close(got.double() * length, should, rtol=2.0**-22, atol=1e-12)


def test_slopes_of_two_sigmoids() -> None:
    """Of two sigmoids whose slopes are equal to 10^-5 their difference is known to no digit in single precision."""
    text = "loss t\ninput a[N], b[N]\nreturn sigmoid(a) - sigmoid(a - b)\n"
    module = lossdsl.loss(lossdsl.loads(text), backend="torch", reduction="none")
    a = torch.tensor([0.001, 2.0, -0.3], requires_grad=True)
    b = torch.tensor([0.003, 1e-5, -0.6])
    wide = a.detach().double().requires_grad_()
    (found,) = torch.autograd.grad(module(a, b).sum(), a)
    (exact,) = torch.autograd.grad(module(wide, b.double()).sum(), wide)
    torch.testing.assert_close(found.double(), exact, rtol=2.0**-23, atol=0)


def test_two_directions() -> None:
    text = "loss t\ninput x[N, D], y[N, D], z[N, D]\nreturn norm[D](x - y) - norm[D](x - z)\n"
    module = lossdsl.loss(lossdsl.loads(text), backend="torch", reduction="none")
    x = torch.tensor([[90.0, 1.0, -0.5], [0.5, 40.0, 0.25]], requires_grad=True)
    y, z = torch.tensor([[0.5, 0.25, 1.0], [0.0, 1.0, 0.5]]), torch.tensor([[0.25, 1.5, -1.0], [1.0, 0.0, 0.75]])
    wide = x.detach().double().requires_grad_()
    (found,) = torch.autograd.grad(module(x, y, z).sum(), x)
    (exact,) = torch.autograd.grad(module(wide, y.double(), z.double()).sum(), wide)
    torch.testing.assert_close(found.double(), exact, rtol=2.0**-23, atol=0)
