"""`C == k` for a number k: it is a place of the axis only below its size, which the file doesn't know. And inputs that
are folded away, which still say how long their axes are."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import lossdsl

X = [[0.5, 1.0, 2.0, 3.0]]
LSE = 3.460773489156851  # of X, by math.log(sum(math.exp(x)))

PLACES = [
    ("sum[C](if C == 7 then 1 else x)", 6.5),
    ("sum[C](if C == 0.5 then 100 else x)", 6.5),
    ("sum[C](if C == -1 then 9 else x)", 6.5),
    ("sum[C](if C == 3 then 9 else x)", 12.5),
    ("sum[C](if C == 0 then 9 else x)", 15.0),
    ("sum[C](softmax[C](x) where C != 0.5)", 1.0),
    ("sum[C](softmax[C](x) where C != 7)", 1.0),
    ("count[C](x where C == 7) + x[C -> 0] - x[C -> 0]", 0.0),
    ("mean[C](x where C != 7)", 1.625),
    ("mean[C](x where C != 0)", 2.0),
    ("logsumexp[C](x where C != 7)", LSE),
]


def worth(head: str, body: str, tmp_path: Path, *args: torch.Tensor) -> torch.Tensor:
    file = tmp_path / "l.loss"
    file.write_text(f"loss l\n{head}return {body}\n")
    found: torch.Tensor = lossdsl.loss(str(file))(*args)
    return found


@pytest.mark.parametrize(("body", "expected"), PLACES)
def test_a_number_is_a_place_only_below_the_size(body: str, expected: float, tmp_path: Path) -> None:
    x = torch.tensor(X, dtype=torch.float64)
    assert abs(worth("input x[N, C]\n", body, tmp_path, x).item() - expected) < 1e-14  # a few roundings


@pytest.mark.parametrize(
    ("head", "body", "expected", "slope"),
    [
        ("input x[N, C]\n", "count[C](x where C == 7) + 0 * x[C -> 0]", 0.0, 0.0),
        ("input x[N, C]\n", "0 * log(x[C -> 0]) + size(C)", 4.0, 0.0),
        ("input x[N, C]\ninput w[D]: fixed\n", "sum[C](x) + size(D)", 9.5, 1.0),
        ("input x[N, C]\ninput w[D]: fixed\n", "sum[C](x)", 6.5, 1.0),
        ("input x[N, C]\ninput w[N]\n", "0 * sum[C](x) + w", 1.0, 0.0),
    ],
)
def test_an_input_that_is_folded_away(head: str, body: str, expected: float, slope: float, tmp_path: Path) -> None:
    x = torch.tensor(X, dtype=torch.float64, requires_grad=True)
    more = [torch.ones(3 if "[D]" in head else 1, dtype=torch.float64)] if "w" in head else []
    found = worth(head, body, tmp_path, x, *more)
    assert found.item() == expected
    found.backward()
    assert x.grad is not None
    assert torch.equal(x.grad, torch.full_like(x, slope))
