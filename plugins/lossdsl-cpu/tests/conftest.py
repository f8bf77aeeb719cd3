"""Tests of the C++ backend: kernels are kept between runs, in the user's cache."""

from __future__ import annotations

import pytest

from lossdsl.primitives.scan import load_primitives
from lossdsl.reductions.scan import load_reductions
from lossdsl.registry import Registry


@pytest.fixture(scope="session")
def registry() -> Registry:
    return Registry(load_primitives(), load_reductions())
