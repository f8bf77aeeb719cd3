"""Every kernel shape at every awkward length of row, in float64, against the plan's interpreter."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.triton.kernels import IGNORED, called, exact, gap, planned

LENGTHS = (1, 2, 3, 127, 128, 129, 1000, 1025, 50257)
SHAPES: dict[str, dict[str, Any]] = {
    "small rows": {"kind": "rows", "rows": 4, "warps": 4},
    "one block": {"kind": "rows", "rows": 1, "warps": 4},
    "loop": {"kind": "blocks", "rows": 1, "block": 64, "splits": 1, "warps": 4},
    "split row": {"kind": "blocks", "rows": 1, "block": 64, "splits": 3, "warps": 4},
}


def tensors(length: int, rows: int = 5) -> dict[str, Any]:
    torch.manual_seed(length)
    target = torch.randint(length, (rows,))
    target[1] = IGNORED
    return {
        "logits": torch.randn(rows, length, dtype=torch.float64) * 5,
        "target": target,
        "ignore_index": torch.tensor(IGNORED),
        "seed_rows": torch.rand(rows, dtype=torch.float64),
        "seed_grad_logits": torch.randn(rows, length, dtype=torch.float64),
    }


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("shape", SHAPES)
def test_cross_entropy(shape: str, length: int) -> None:
    how = dict(SHAPES[shape])
    if length > 500 and how["kind"] == "blocks":
        how["block"] = 256 if length < 2000 else 16384
    given = tensors(length, 5 if length < 500 else 3)
    for program in planned("cross_entropy")[1]:
        own = dict(given)
        if program.name.endswith("both"):
            own["seed_rows"] = torch.tensor(0.3, dtype=torch.float64)
        found, wanted = called("cross_entropy", program, own, **how), exact(program, own)
        for name, x in found.items():
            # a sum of n rounded terms, in another order; S - 1 terms of the second derivative cancel
            assert gap(x, wanted[name], 1e-3) < 1e-12, f"{program.name} {name}"
