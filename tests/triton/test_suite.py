"""The Triton backend, as any other, where there is a device; without one only its record is looked at."""

from __future__ import annotations

from lossdsl.testing.conformance import BackendTests


class TestTriton(BackendTests):
    backend = "triton"
