"""The C++ backend, as any other."""

from __future__ import annotations

from lossdsl.testing.conformance import BackendTests


class TestCpu(BackendTests):
    backend = "cpu"
    every = False  # a kernel compiles in a second
