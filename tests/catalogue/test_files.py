"""Every file of the packs: in the formatter's spelling, right without warnings, and its examples hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from lossdsl.api import registry
from lossdsl.cli import group
from lossdsl.source.text import Source
from lossdsl.syntax.format import format_loss

FILES = {full: file for full, file in registry().losses.items() if "/" in full}


@pytest.mark.parametrize("full", sorted(FILES))
def test_file(full: str) -> None:
    path = Path(FILES[full].path)
    text = path.read_text()
    assert format_loss(Source(str(path), text)) == text
    result = CliRunner().invoke(group, ["check", "--strict", "--json", str(path)])
    [record] = json.loads(result.stdout)
    assert record["ok"], [d["message"] for d in record["diagnostics"]]
    assert record["examples"] or text.startswith("map "), "a loss shows a number"
    assert all(example["ok"] for example in record["examples"])
