"""Every loss of the ranking pack against values from public code and from 50-digit arithmetic, in float64."""

from __future__ import annotations

import pytest

from tests.catalogue.golden import verify
from tests.catalogue.ranking import TABLE


@pytest.mark.parametrize("stem", TABLE)
def test_golden(stem: str) -> None:
    verify(stem, TABLE[stem])
