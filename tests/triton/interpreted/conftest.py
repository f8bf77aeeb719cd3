"""The interpreter, with the rounding of devices."""

from __future__ import annotations

import pytest

from tests.triton.interpreted.interpreter import once_a_launch, to_nearest


@pytest.fixture(autouse=True)
def _as_devices_do(monkeypatch: pytest.MonkeyPatch) -> None:
    to_nearest(monkeypatch)
    once_a_launch(monkeypatch)
