"""A check of a loss for the tests of a pack."""

from __future__ import annotations

import os
from pathlib import Path

from lossdsl.api import read_source, registry
from lossdsl.derive.claims.decide import decide
from lossdsl.derive.examples import run_examples
from lossdsl.pipeline import middle
from lossdsl.source.diagnostic import DiagnosticError


def check_loss(path: str | os.PathLike[str]) -> None:
    """Everything that `lossdsl check` looks at: the file compiles without a warning, has an example at least, its
    examples hold and no claim is false. DiagnosticError or AssertionError says what is wrong."""
    source = read_source(Path(path))
    made = middle(source, registry())
    assert not made.checked.warnings, f"{path}: {made.checked.warnings[0].message}"
    results = run_examples(made.checked, registry(), lambda modes: middle(source, registry(), modes).graph)
    assert results, f"{path} has no example: one pins what the equation means"
    problems = [r.problem for r in results if r.problem is not None]
    problems += [p for v in decide(made.lossdef, made.checked, registry()) for p in v.problems]
    wrong = [p for p in problems if p.severity == "error"]
    if wrong:
        raise DiagnosticError(source, wrong)
