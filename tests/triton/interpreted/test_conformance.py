"""What every backend has to pass, by Triton's interpreter on the CPU."""

from __future__ import annotations

import pytest

from lossdsl.testing.conformance import BackendTests


@pytest.mark.full
class TestTriton(BackendTests):
    backend = "triton"
    device = "cpu"
