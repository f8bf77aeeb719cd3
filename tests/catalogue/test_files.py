"""Every file of the packs: in the formatter's spelling, right without warnings, and its examples hold.

Their claims are decided in tests/derive/test_library_claims.py;
each is derived and planned in tests/plan/test_packs.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from lossdsl.api import registry
from lossdsl.derive.examples import run_examples
from lossdsl.ir.graph import Graph
from lossdsl.ir.lower import lower
from lossdsl.packs.header import read_header
from lossdsl.pipeline import front
from lossdsl.source.text import Source
from lossdsl.syntax.format import format_loss
from tests.catalogue.lengths import saying

FILES = {full: file for full, file in registry().losses.items() if "/" in full}
LONG = {
    "ranking/lambda_loss",  # four schemes of weights, a line each, and seven params
    "std/aldr_kl",  # a temperature is found first, and goes back to the caller
    "llm/rlcd_pg",  # five inputs, two baselines
}


def graph(source: Source, modes: Mapping[str, str]) -> Graph:
    return lower(front(source, registry(), modes).checked, registry())


@pytest.mark.parametrize("full", sorted(FILES))
def test_file(full: str) -> None:
    path = Path(FILES[full].path)
    source = Source(str(path), path.read_text())
    assert format_loss(source) == source.text
    made = front(source, registry())
    assert not made.checked.warnings, [w.message for w in made.checked.warnings]
    assert all((made.checked.doc, made.checked.cites, read_header(source.text).tags)), "the head is complete"
    assert not [p.name for p in made.checked.params if not (p.bounds or p.modes or p.learnable)], "without interval"
    assert made.checked.examples, "it shows a number"
    assert saying(source.text) <= 15 or full in LONG
    results = run_examples(made.checked, registry(), lambda modes: graph(source, modes))
    assert all(result.ok for result in results), results
