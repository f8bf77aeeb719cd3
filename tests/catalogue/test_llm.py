"""Every loss of the llm pack against values from public code and from 50-digit arithmetic, in float64."""

from __future__ import annotations

import pytest

from tests.catalogue.golden import verify
from tests.catalogue.llm import TABLE


@pytest.mark.parametrize("stem", TABLE)
def test_golden(stem: str) -> None:
    verify(stem, TABLE[stem])
