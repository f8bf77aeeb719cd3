"""log Σ f - log f_y by the others over f_y, at 50 digits: where f_y is all of the sum, a part of it, or nothing."""

from __future__ import annotations

from collections.abc import Callable

import mpmath
import pytest
import torch

import lossdsl
from lossdsl.api import registry
from lossdsl.derive.others import by_the_others
from lossdsl.ir.lower import lower

Number = mpmath.mpf
ROWS = [
    [90.0, 0.25, -0.5, 1.0],
    [300.0, 1.0, 2.0, -1.0],
    [0.25, 90.0, 1.0, 2.0],
    [1.0, 1.0, 1.0, 1.0],
    [1e-4, 3e4, 0.5, 2],
]
WEIGHTS: dict[str, tuple[str, Callable[[Number], Number], float]] = {
    "spherical": ("f = z^2 + 0.001", lambda z: z * z + mpmath.mpf("0.001"), 0),
    "Taylor": ("f = 1 + z + z^2 / 2", lambda z: 1 + z + z * z / 2, 0),
    "choices": ("f = if z >= 0 then z + 1 else 1 / (1 - z)", lambda z: z + 1 if z >= 0 else 1 / (1 - z), 0),
    "with a floor": ("f = z^2 + 0.001", lambda z: z * z + mpmath.mpf("0.001"), 0.5),
    "steep": ("f = z^6 + 1e-30", lambda z: z**6 + mpmath.mpf("1e-30"), 0),
}


def built(line: str, floor: float = 0) -> lossdsl.Spec:
    whole = f"sum[C](f) + {floor}" if floor else "sum[C](f)"
    return lossdsl.loads(f"loss t\ninput z[N, C]\ninput y[N]: index C\n{line}\nreturn log({whole}) - log(f[y])\n")


@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_value_and_slope(name: str, dtype: torch.dtype) -> None:
    line, weight, floor = WEIGHTS[name]
    z = torch.tensor(ROWS, dtype=dtype, requires_grad=True)
    value = lossdsl.loss(built(line, floor), backend="torch", reduction="none")(z, torch.zeros(len(ROWS)).long())
    (slope,) = torch.autograd.grad(value.sum(), z)
    eps, tiny = torch.finfo(dtype).eps, torch.finfo(dtype).tiny
    with mpmath.workdps(150):

        def loss(row: list[Number]) -> Number:
            f = [weight(x) for x in row]
            return mpmath.log((mpmath.fsum(f) + floor) / f[0])

        step = mpmath.mpf("1e-40")
        for row, found, steep in zip(z.tolist(), value.tolist(), slope.tolist(), strict=True):
            at = [mpmath.mpf(x) for x in row]
            assert abs(found - loss(at)) <= 8 * eps * abs(loss(at)), (row, found)
            for k in range(len(at)):
                beside = [[x + sign * step * (i == k) for i, x in enumerate(at)] for sign in (1, -1)]
                should = (loss(beside[0]) - loss(beside[1])) / (2 * step)
                if name == "Taylor":  # 1 + z itself is rounded, the sum of its terms is what counts
                    should_size = max(abs(should), abs((1 + abs(at[k])) / weight(at[k]) * should))
                else:
                    should_size = abs(should)
                assert abs(steep[k] - should) <= 12 * eps * max(should_size, tiny / eps), (row, k, steep[k], should)


@pytest.mark.parametrize(
    ("row", "exact"),
    [([-3.0, 1.0, 5.0], "nan"), ([-3.0, 1.0, -5.0], "nan"), ([2.0, -1.0, -5.0], "nan"), ([0.0, 1, 5], "inf")],
)
def test_no_number_where_there_was_none(row: list[float], exact: str) -> None:
    """Both logarithms of numbers below 0 are NaN; the others over f_y are a number."""
    value = lossdsl.loss(built("f = z"), backend="torch", reduction="none")(torch.tensor([row]), torch.tensor([0]))
    assert str(value.item()) == exact


def test_of_any_sign() -> None:
    """Where the others are below 0 and the sum is not."""
    z = torch.tensor([[8.0, -1.0, -5.0]], requires_grad=True)
    value = lossdsl.loss(built("f = z"), backend="torch", reduction="none")(z, torch.tensor([0]))
    (slope,) = torch.autograd.grad(value.sum(), z)
    assert value.item() == pytest.approx(-1.3862943611198906, rel=2e-7)
    assert slope.tolist() == [pytest.approx([1 / 2 - 1 / 8, 1 / 2, 1 / 2], rel=4e-7)]


@pytest.mark.parametrize(
    ("line", "there"),
    [
        ("return log(sum[C](z^2 + 2)) - log(z[y]^2 + 2)", True),
        ("return log(sum[C](z^2 + 2)) - log(z[y]^2 + 3)", False),
        ("return log(sum[C](z^2 + 2 where C != 0)) - log(z[y]^2 + 2)", False),
        ("return log(sum[C](z^2 + 2)) - log(mean[C](z)^2 + 2)", False),
    ],
)
def test_of_a_part_alone(line: str, there: bool) -> None:
    """Another number than f_y, or a sum that may not hold it, stays as it is."""
    spec = lossdsl.loads(f"loss t\ninput z[N, C]\ninput y[N]: index C\n{line}\n")
    graph = lower(spec.checked, registry())
    assert (by_the_others(graph, registry()) is not graph) == there
