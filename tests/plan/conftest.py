"""What the tests of the planner share."""

from __future__ import annotations

import pytest

from lossdsl.primitives.scan import load_primitives
from lossdsl.reductions.scan import load_reductions
from lossdsl.registry import Registry


@pytest.fixture(scope="session")
def registry() -> Registry:
    """The built-in primitives and reductions, without packs and backends."""
    return Registry(load_primitives(), load_reductions())
