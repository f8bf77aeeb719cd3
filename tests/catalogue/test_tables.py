"""The tables of all packs together: each golden file once, each name of the catalogue there, each construct used."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.catalogue import coverage
from tests.catalogue.differences import PACKS, rows
from tests.catalogue.golden import FOLDER


def test_every_golden_file_has_one_row() -> None:
    rows = Counter(stem for pack in PACKS.values() for stem in pack.TABLE)
    assert rows == Counter({path.stem: 1 for path in FOLDER.glob("*.json")})


def test_a_looser_bound_says_why() -> None:
    assert not [stem for stem, row in rows().items() if row.rtol > 1e-9 and not row.differs]
    assert not [stem for stem, row in rows().items() if row.rtol > 1e-5]


@pytest.mark.parametrize("pack", PACKS)
def test_every_name_is_there(pack: str) -> None:
    """MISSING says why a name isn't: the list shrinks, and nothing that is there stays on it."""
    promised = [entry for entry in coverage.catalogue() if entry.pack == pack]
    absent = {entry.name for entry in promised if coverage.found(entry) is None}
    assert absent == set(PACKS[pack].MISSING)


def test_every_construct_is_used_twice() -> None:
    """A construct that one loss alone has is another's under a name of its own."""
    assert not {construct: names for construct, names in coverage.users().items() if len(names) < 2}
