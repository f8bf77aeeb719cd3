"""The language reference is right: files compile, examples hold, and mistakes get the errors that they name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lossdsl.check.check import check
from lossdsl.derive.claims.decide import decide
from lossdsl.derive.examples import run_examples
from lossdsl.ir.lower import lower
from lossdsl.pipeline import build
from lossdsl.plugins import discover
from lossdsl.source.diagnostic import DiagnosticError
from lossdsl.source.text import Source
from lossdsl.syntax.parse import parse

REGISTRY = discover({})  # found once: looking takes longer than most of what is tested here

TEXT = (Path(__file__).parents[2] / "grammar/REFERENCE.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```loss ?([^\n]*)\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(("head", "text"), BLOCKS, ids=[t.split()[1] for _, t in BLOCKS])
def test_block(head: str, text: str) -> None:
    source = Source("REFERENCE.md", text)
    if head.startswith("error"):
        with pytest.raises(DiagnosticError) as caught:
            check(parse(source), source, REGISTRY)
        assert [d.code for d in caught.value.diagnostics] == [head.split()[1]]
        return
    checked = check(parse(source), source, REGISTRY)
    assert checked.examples, "a block that is no error has an example"
    results = run_examples(
        checked, REGISTRY, lambda modes: lower(check(parse(source), source, REGISTRY, modes), REGISTRY)
    )
    for result in results:
        assert result.ok, f"{result.expected} was said, {result.got} came out"
    for verdict in decide(parse(source), checked, REGISTRY, timeout=0):
        assert verdict.status in ("proved", "held"), f"{verdict.claim}: {verdict.detail}"
    assert build(source, REGISTRY, "torch").artifact.load()


def test_there_are_blocks_of_both_kinds() -> None:
    assert len(BLOCKS) >= 15
    assert any(head for head, _ in BLOCKS)
