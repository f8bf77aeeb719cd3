"""The language reference is right: its files compile and their examples hold, and its mistakes get the errors they name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lossdsl.check.check import check
from lossdsl.plugins import discover
from lossdsl.source.diagnostic import DiagnosticError
from lossdsl.source.text import Source
from lossdsl.syntax import parse
from lossdsl.testing.examples import run_examples

TEXT = (Path(__file__).parents[2] / "grammar/REFERENCE.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```loss ?([^\n]*)\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
