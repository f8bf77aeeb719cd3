"""An entry that is compared with itself is the same number: where a sweep has it, and where a row picked it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import lossdsl

TEXT = """loss l
input z[N, C]: fixed
input t[N]: index C
p = softmax[C](z)
return count[C](z where {})
"""
INCREASING = {  # of p, by how it is compared with that of the target
    "p": "p < p[t]",
    "a power": "p^3 < p[t]^3",
    "a multiple": "2 - 3*p > 2 - 3*p[t]",
    "with another number": "z + p^2 < z[t] + p[t]^2",
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("classes", [7, 300, 4500], ids=["lanes", "along", "blocks"])
@pytest.mark.parametrize("what", INCREASING)
def test_an_entry_is_not_below_itself(what: str, classes: int, dtype: torch.dtype, tmp_path: Path) -> None:
    file = tmp_path / "l.loss"
    equal = INCREASING[what].replace("<", "==").replace(">", "==")
    file.write_text(TEXT.format(equal))
    rows = 40 if classes > 1000 else 200
    z = torch.randn(rows, classes, dtype=dtype, generator=torch.Generator().manual_seed(classes))
    z[:, 0] += 8.0  # the others are far apart from it, so that blocks have maxima of their own
    t = torch.arange(rows) % classes
    at_least_itself = lossdsl.loss(file, backend="cpu")(z, t, reduction="none")
    assert (at_least_itself >= 1).all()
    if what == "p":  # decided by the logits, exactly
        file.write_text(TEXT.format(INCREASING[what]))
        below = lossdsl.loss(file, backend="cpu")(z, t, reduction="none")
        assert torch.equal(below, (z < z.gather(1, t[:, None])).sum(1).to(dtype))
