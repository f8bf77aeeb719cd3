"""Checks a text against the built-in records and a few losses that it may call."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import lossdsl
from lossdsl.check.check import check
from lossdsl.check.typed import CheckedLoss, Term
from lossdsl.primitives.scan import load_primitives
from lossdsl.reductions.scan import load_reductions
from lossdsl.registry import LossFile, Registry
from lossdsl.source.diagnostic import Diagnostic, DiagnosticError
from lossdsl.source.text import Source
from lossdsl.syntax.parse import parse

CASES = Path(__file__).parents[1] / "ir" / "cases"
CALLED = Path(__file__).parent / "called"
STANDARD = Path(lossdsl.__file__).parent / "packs" / "std"


@cache
def registry() -> Registry:
    """The built-in records, the standard pack, and the losses of `called/` as the pack `demo`."""
    losses: dict[str, LossFile] = {}
    for pack, folder in (("std", STANDARD), ("demo", CALLED)):
        for path in sorted(folder.glob("*.loss")):
            losses[f"{pack}/{path.stem}"] = LossFile(pack, path.stem, str(path), "lossdsl 0")
    return Registry(load_primitives(), load_reductions(), losses)


def checked(text: str, modes: dict[str, str] | None = None, name: str = "test.loss") -> CheckedLoss:
    """The checked form of a text; DiagnosticError if it is wrong."""
    source = Source(name, text)
    return check(parse(source), source, registry(), modes or {})


def findings(text: str, name: str = "test.loss") -> tuple[Diagnostic, ...]:
    """What is found in a text, errors or else warnings."""
    try:
        return checked(text, name=name).warnings
    except DiagnosticError as error:
        return error.diagnostics


def codes(text: str) -> list[str]:
    """The codes of what is found, in the order of the text."""
    return [d.code for d in findings(text)]


def value(body: str, head: str = "input x[N, C]\ninput target[N]: index C\n", returned: str = "") -> Term:
    """The term of an expression, as the value `e` of a file with this head."""
    text = f"map test\nbatch N\n{head}e = {body}\nreturn e{returned}\n"
    return checked(text).result
