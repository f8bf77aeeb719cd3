"""The language, sentence by sentence: each case is a few lines of a file against the same mathematics typed in torch.

Value and gradients are those of the module of the torch backend, in float64, against torch's autograd; tensors are
drawn anew for each case. The quick suite draws a sample, `make test-all` runs all of them.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

import lossdsl
from tests.ir import sentences_of_form, sentences_of_meaning
from tests.ir.sentence import draw

FIXED = ("q", "r", "w")  # names that stand for inputs without a gradient
CASES = {**sentences_of_form.CASES, **sentences_of_meaning.CASES}


def result(value: Tensor, leaves: list[Tensor]) -> list[Tensor]:
    """The value and its gradients, zero where nothing depends on a leaf."""
    total = (value * torch.arange(1, value.numel() + 1, dtype=value.dtype).reshape(value.shape)).sum()
    if not total.requires_grad:
        return [value, *(torch.zeros_like(x) for x in leaves)]
    found = torch.autograd.grad(total, leaves, allow_unused=True)
    return [value.detach(), *(torch.zeros_like(x) if g is None else g for x, g in zip(leaves, found, strict=True))]


@pytest.mark.parametrize("name", CASES)
def test_sentence(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    path = tmp_path / "t.loss"
    path.write_text(f"{case.head}{case.lines}\n", encoding="utf-8")
    given = draw(len(name)) if case.head != "loss t\n" else {}
    given |= case.more
    order = [n for n, t in given.items() if t.is_floating_point() and n not in FIXED]
    leaves = [given[n].clone().requires_grad_() for n in order]
    full = given | dict(zip(order, leaves, strict=True))
    got = result(lossdsl.loss(path, backend="torch")(**full, **case.how), leaves)
    wanted = result(case.worth(**full), leaves)
    for a, b in zip(got, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)
