"""Every file that the language must be able to say is right, with the axes, kinds and reductions that it means."""

from __future__ import annotations

import pytest

from tests.check.helpers import CASES, checked

# name: (file's reduction, the axes it runs over, axes of the body, names of all axes)
EXPECTED = {
    "arcface": ("mean", ("N",), {"N"}, "N D C"),
    "supcon": ("mean", ("N",), {"N"}, "N N' D"),
    "clip_contrastive": ("mean", ("N",), {"N"}, "N N' D"),
    "nt_xent": ("mean", ("N", "V"), {"N", "V"}, "N N' V V' D"),
    "dice": (None, (), set(), "N C"),
    "sparsemax_loss": ("mean", ("N",), {"N"}, "N C"),
    "batch_hard_triplet": ("mean", ("N",), {"N"}, "N N' D"),
    "distillation": ("mean", ("N",), {"N"}, "N C"),
    "plackett_luce_distillation": ("mean", ("N",), {"N"}, "N C K K'"),
    "lovasz_softmax": (None, (), set(), "N C K"),
    "dapo": ("mean", ("B", "T"), {"B", "T"}, "B T"),
    "dpo": ("mean", ("N",), {"N"}, "N"),
    "smile_bound": (None, (), set(), "N N'"),
    "mcr2_expand": (None, (), set(), "N D D'"),
}


def test_every_case_is_expected() -> None:
    assert sorted(EXPECTED) == sorted(p.stem for p in CASES.glob("*.loss"))


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_case(name: str) -> None:
    loss = checked((CASES / f"{name}.loss").read_text())
    reduction, reduced, body, axes = EXPECTED[name]
    assert (loss.reduction, loss.reduced) == (reduction, reduced)
    assert loss.result.type.axes == body
    assert " ".join(a.name for a in loss.axes) == axes
    assert loss.warnings == ()
