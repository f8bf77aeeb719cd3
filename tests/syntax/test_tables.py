"""The parser's tables are kept between runs, and nothing depends on them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
from lossdsl.source.text import Source
from lossdsl.syntax.parse import parse
print(parse(Source("a", "loss a\\ninput x[N]\\nreturn x * 2\\n")).name)
"""


def parse_in(cache: Path | str) -> str:
    environment = os.environ | {"LOSSDSL_CACHE_DIR": str(cache)}
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, env=environment)
    assert done.stderr == ""
    return done.stdout.strip()


def test_kept_tables_are_used_and_damaged_ones_are_not(tmp_path):
    assert parse_in(tmp_path / "new") == "a"
    [kept] = (tmp_path / "new").iterdir()
    before = kept.stat().st_mtime_ns
    assert parse_in(tmp_path / "new") == "a"
    assert kept.stat().st_mtime_ns == before
    whole = kept.read_bytes()
    for damaged in (b"", whole[:100], whole[: len(whole) // 2], b"nothing like it"):
        kept.write_bytes(damaged)
        assert parse_in(tmp_path / "new") == "a"
        assert len(kept.read_bytes()) > len(whole) // 2 + 1  # made anew


@pytest.mark.parametrize("place", ["/dev/null/nowhere", "/proc/nowhere", "~nobody_of_this_name/x"])
def test_without_a_place_to_keep_them_all_works(place):
    assert parse_in(place) == "a"
