"""Checks a text against the built-in records and a few losses that it may call."""

from __future__ import annotations

from pathlib import Path

from lossdsl.check.check import check
from lossdsl.check.typed import CheckedLoss
from lossdsl.primitives.scan import load_primitives
from lossdsl.reductions.scan import load_reductions
from lossdsl.registry import LossFile, Registry
from lossdsl.source.text import Source
from lossdsl.syntax.parse import parse

CASES = Path(__file__).parent / "cases"
CALLED = Path(__file__).parent / "called"


def registry() -> Registry:
    """The built-in records, and the losses of `called/` as the pack `std`."""
    losses = {f"std/{p.stem}": LossFile("std", p.stem, str(p), "lossdsl 0") for p in sorted(CALLED.glob("*.loss"))}
    return Registry(load_primitives(), load_reductions(), losses)


def checked(text: str, modes: dict[str, str] | None = None, name: str = "test.loss") -> CheckedLoss:
    source = Source(name, text)
    return check(parse(source), source, registry(), modes or {})
