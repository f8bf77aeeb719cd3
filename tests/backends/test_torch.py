"""The torch backend, as any other."""

from __future__ import annotations

from lossdsl.testing.conformance import BackendTests


class TestTorch(BackendTests):
    backend = "torch"
