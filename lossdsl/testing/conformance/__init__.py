"""What every backend has to pass, as one class of pytest tests.

    from lossdsl.testing.conformance import BackendTests

    class TestMine(BackendTests):
        backend = "mine"

Values and gradients of row-wise losses are compared with the interpreter of KernelPrograms and with numbers of other
people's code; primitives, reductions and other constructs must be right or be refused with NotSupportedError. Where the
backend's probe says no, its tests are skipped with the probe's reason; under LOSSDSL_STRICT_PLUGINS=1 they fail.
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(
    *(f"{__name__}.{part}" for part in ("calling", "constructs", "declared", "golden", "tensors", "use", "values"))
)

from lossdsl.testing.conformance.constructs import ConstructTests  # noqa: E402
from lossdsl.testing.conformance.declared import DeclaredTests  # noqa: E402
from lossdsl.testing.conformance.golden import GoldenTests  # noqa: E402
from lossdsl.testing.conformance.tensors import TensorTests  # noqa: E402
from lossdsl.testing.conformance.use import UseTests  # noqa: E402
from lossdsl.testing.conformance.values import ValueTests  # noqa: E402


class BackendTests(DeclaredTests, GoldenTests, ValueTests, ConstructTests, TensorTests, UseTests):
    """Everything; a subclass sets `backend`, and `device` where that isn't the first of those declared."""


__all__ = ["BackendTests"]
