"""A log-sum-exp of a whole matrix: rows of nothing, infinite entries, and ties between rows."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.triton.interpreted.test_losses import SHAPES
from tests.triton.kernels import called, exact, gap, planned

NAME = "info/dv_bound"  # over all pairs but those of a row with itself


def scores(kind: str) -> Tensor:
    torch.manual_seed(len(kind))
    x = torch.randn(5, 5, dtype=torch.float64) * 3
    match kind:
        case "one pair":
            return x[:1, :1].clone()
        case "a row of nothing":
            x[2] = -math.inf
        case "nothing but the diagonal":
            x[~torch.eye(5, dtype=torch.bool)] = -math.inf
        case "an infinite one":
            x[1, 3] = math.inf
        case "ties":
            x[:] = 2.5
        case "far apart":
            x *= 400
    return x


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "kind",
    ["plain", "one pair", "a row of nothing", "nothing but the diagonal", "an infinite one", "ties", "far apart"],
)
def test_matrix(kind: str, shape: str) -> None:
    f = scores(kind)
    how: dict[str, Any] = {**SHAPES[shape]}
    if how["kind"] == "blocks":
        how["block"] = 2
    for program in planned(NAME)[1]:
        if program.name.rpartition(".")[2] not in ("value", "gradient"):
            continue
        given = {"f": f, "seed_rows": torch.tensor(0.7, dtype=torch.float64)}
        wanted = exact(program, given)
        for name, x in called(NAME, program, given, **how).items():
            assert gap(x, wanted[name], 1e-3) < 1e-12, f"{program.name} {name}"
