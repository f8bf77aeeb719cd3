"""The typed tree's text, to the letter. `LOSSDSL_UPDATE_GOLDEN=1 pytest tests/check/test_dump.py` writes it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lossdsl.check.dump import dump
from tests.check.helpers import CASES, STANDARD, checked

GOLDEN = Path(__file__).parent / "golden"
NAMES = ("dapo", "plackett_luce_distillation", "sparsemax_loss", "sigmoid_focal", "weighted_cross_entropy")


def _text(name: str) -> str:
    path = CASES / f"{name}.loss"
    return (path if path.exists() else STANDARD / path.name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_golden(name: str) -> None:
    lines = [line for line in dump(checked(_text(name))).splitlines() if not line.startswith("uses ")]
    text = "\n".join(lines) + "\n"
    path = GOLDEN / f"{name}.typed"
    if os.environ.get("LOSSDSL_UPDATE_GOLDEN") == "1":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_the_same_text_each_time() -> None:
    assert dump(checked(_text("supcon"))) == dump(checked(_text("supcon")))


def test_what_a_loss_is_written_out_from_is_recorded() -> None:
    loss = checked(_text("sigmoid_focal"))
    assert [name for name, _ in loss.dependencies] == ["std/bce"]
    assert all(len(digest) == 64 for _, digest in loss.dependencies)
