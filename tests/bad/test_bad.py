"""Files that are wrong, with everything a user is told about them, to the letter.

Each `*.loss` here (in any folder below this one) has its whole rendered output beside it as `*.txt`; those of RENDERED
have what programs get too, as `*.json` and `*.github`. A new file joins by being there;
`*_head.loss` are compiled with a linear head.
`LOSSDSL_UPDATE_GOLDEN=1 pytest tests/bad` writes the texts, which are read before they are committed.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from lossdsl.derive.claims.decide import decide
from lossdsl.derive.examples import run_examples
from lossdsl.pipeline import middle
from lossdsl.plugins import discover
from lossdsl.source.codes import all_codes
from lossdsl.source.diagnostic import Diagnostic, DiagnosticError
from lossdsl.source.render import render_github, render_json, render_terminal
from lossdsl.source.text import Source

REGISTRY = discover({})  # found once: looking takes longer than most of what is tested here

HERE = Path(__file__).parent
FILES = sorted(HERE.rglob("*.loss"))
UPDATE = os.environ.get("LOSSDSL_UPDATE_GOLDEN") == "1"


def diagnostics(source: Source) -> tuple[Diagnostic, ...]:
    """What is wrong with a file: its errors, or its warnings if it has none, or else what it says of itself."""
    modes = {"head": "linear"} if source.name.endswith("_head.loss") else {}
    try:
        made = middle(source, REGISTRY, modes)
    except DiagnosticError as error:
        return error.diagnostics
    examples = run_examples(made.checked, REGISTRY, lambda modes: made.graph)
    verdicts = decide(made.lossdef, made.checked, REGISTRY, timeout=0)
    problems = [*(r.problem for r in examples if r.problem is not None), *(p for v in verdicts for p in v.problems)]
    return (*made.checked.warnings, *problems)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(HERE).with_suffix("").as_posix())
def test_rendered_output(path: Path) -> None:
    source = Source(path.name, path.read_text(encoding="utf-8"))
    rendered = render_terminal(source, diagnostics(source))
    golden = path.with_suffix(".txt")
    if UPDATE:
        golden.write_text(rendered, encoding="utf-8")
    assert rendered, "nothing is wrong with this file"
    assert golden.exists(), "LOSSDSL_UPDATE_GOLDEN=1 writes it"
    assert rendered == golden.read_text(encoding="utf-8")


OTHERS = {"json": render_json, "github": render_github}
RENDERED = ("check/no_cascade", "check/E0204_twice", "check/W0504", "syntax/wide_characters", "newcomers/matrices")


@pytest.mark.parametrize("name", RENDERED)
@pytest.mark.parametrize("form", OTHERS)
def test_output_for_programs(name: str, form: str) -> None:
    path = HERE / f"{name}.loss"
    source = Source(path.name, path.read_text(encoding="utf-8"))
    rendered = OTHERS[form](source, diagnostics(source))
    golden = path.with_suffix(f".{form}")
    if UPDATE:
        golden.write_text(rendered, encoding="utf-8")
    assert rendered == golden.read_text(encoding="utf-8")


def test_there_is_a_file_for_every_code() -> None:
    told = {code for path in HERE.rglob("*.txt") for code in re.findall(r"\[([EW]\d{4})\]", path.read_text("utf-8"))}
    assert told == {code for code in all_codes() if code[1:3] != "07"}  # those are of plugins


def test_no_text_without_its_file() -> None:
    assert {p.with_suffix("") for p in HERE.rglob("*.txt")} == {p.with_suffix("") for p in FILES}
