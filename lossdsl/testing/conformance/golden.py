"""Numbers of other people's code and of 50-digit arithmetic: what the interpreter can't be wrong about together with a
backend.

`golden.json` holds, for each case, the loss, where the numbers come from, inputs, params, the reduction, the value and
every gradient; floats are in full, infinities as words.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

import pytest
import torch
from torch import Tensor

import lossdsl
from lossdsl.testing.conformance.calling import UsableBackend

# The public codes are right to 1e-9 where none of their own constants matter; in single a loss is good to some 1e-6,
# and a gradient entry to that share of the largest one.
BOUNDS = {torch.float64: 1e-9, torch.float32: 2e-5}


@cache
def cases() -> dict[str, Any]:
    """The file, by case."""
    found = json.loads((files(__package__) / "golden.json").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def as_tensor(value: Any) -> Tensor:
    """An array of the file."""
    data = [float(x) if isinstance(x, str) else x for x in value["data"]]
    return torch.tensor(data, dtype=getattr(torch, value["dtype"])).reshape(value["shape"])


class GoldenTests(UsableBackend):
    @pytest.mark.parametrize("dtype", BOUNDS, ids=str)
    @pytest.mark.parametrize("case", cases())
    def test_golden(self, case: str, dtype: torch.dtype) -> None:
        golden = cases()[case]
        if dtype == torch.float32 and not self.whole and golden["loss"] != "cross_entropy":
            pytest.skip("a sample: LOSSDSL_FULL_TESTS=1 takes all")
        loss = lossdsl.loss(f"std/{golden['loss']}", backend=self.backend, device=self.place, **golden["params"])
        given = {}
        for name, value in golden["inputs"].items():
            x = as_tensor(value).to(self.place)
            given[name] = x.to(dtype) if x.is_floating_point() else x
        leaves = [given[name].requires_grad_() for name in golden["gradients"]]
        value = loss(**given, reduction=golden["reduction"])
        assert value.dtype == dtype
        close(value, as_tensor(golden["value"]), BOUNDS[dtype], "the value")
        found = torch.autograd.grad(value.sum(), leaves)
        for name, gradient in zip(golden["gradients"], found, strict=True):
            close(gradient, as_tensor(golden["gradients"][name]), BOUNDS[dtype], f"the gradient by {name}")


def close(found: Tensor, wanted: Tensor, rtol: float, what: str) -> None:
    """Within `rtol` of the largest entry."""
    assert found.shape == wanted.shape, f"{what} has the shape {tuple(found.shape)}, not {tuple(wanted.shape)}"
    error, scale = (found.detach().cpu().double() - wanted).abs().max(), wanted.abs().max()
    assert error <= rtol * scale, f"{what} is off by {error:.3g} of {scale:.3g}"
