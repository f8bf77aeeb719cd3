"""What every backend has to pass, by Triton's interpreter on the CPU."""

from __future__ import annotations

from lossdsl.testing.conformance import BackendTests


class TestTriton(BackendTests):
    backend = "triton"
    device = "cpu"
