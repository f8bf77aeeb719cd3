"""Each row of `examples/migrating/`: the call of the other library and ours give the same value and gradient."""

from __future__ import annotations

from importlib import import_module

import pytest

from lossdsl.api import registry
from lossdsl.packs.lookup import find_loss
from lossdsl.packs.migrating import Row, alike, near, read_rows
from tests.migrating.harness import compare

ROWS = read_rows()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.library}-{row.theirs}")
def test_row(row: Row) -> None:
    compare(row, vars(import_module(f"tests.migrating.{row.library}")))


def test_a_row_that_is_wrong_is_seen() -> None:
    row = alike(ROWS, "timm.PolyCrossEntropy")[0]
    wrong = Row(row.library, row.theirs, (), row.ours.replace("epsilon=2", "epsilon=2.001"), row.note)
    with pytest.raises(AssertionError, match="the value is off"):
        compare(wrong, vars(import_module("tests.migrating.timm")))


def test_every_row_leads_to_losses_that_are_here() -> None:
    for row in ROWS:
        assert row.losses, row
        for name in row.losses:
            assert find_loss(registry().losses, name).name == name


@pytest.mark.parametrize(
    ("wanted", "first"),
    [
        ("kornia.FocalLoss", "focal"),
        ("kornia.losses.focal_loss", "focal"),
        ("torch.nn.CrossEntropyLoss", "cross_entropy"),
        ("smp.DiceLoss", "dice_multiclass"),
        ("pml.ArcFaceLoss", "arcface"),
        ("torchvision.ops.sigmoid_focal_loss", "sigmoid_focal"),
        ("TripletMarginLoss", "triplet_all"),
        ("BatchHardMiner", "triplet_batch_hard"),
        ("trl.apo_zero", "dpo_apo_zero"),
        ("trl.DPOConfig", "dpo_hinge"),
    ],
)
def test_names_are_found(wanted: str, first: str) -> None:
    assert first in [name for row in alike(ROWS, wanted) for name in row.losses]


def test_a_slip_is_helped() -> None:
    assert not alike(ROWS, "kornia.FocalLos")
    assert "kornia.FocalLoss" in near(ROWS, "kornia.FocalLos")
