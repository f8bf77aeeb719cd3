"""What authors of plugins test with: a suite that every backend has to pass, and random programs.

The whole test file of a backend:

    from lossdsl.testing.conformance import BackendTests

    class TestMine(BackendTests):
        backend = "mine"
"""

from __future__ import annotations
