"""The interpreter, with the rounding of devices, and memory that holds no zeros by chance."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.triton.interpreted.interpreter import once_a_launch, to_nearest


@pytest.fixture(autouse=True)
def _as_devices_do(monkeypatch: pytest.MonkeyPatch) -> None:
    to_nearest(monkeypatch)
    once_a_launch(monkeypatch)


@pytest.fixture(autouse=True)
def _poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory for results is NaN, or a number far off: an element that no kernel writes shows on every path."""

    def poisoned(plain: Any) -> Any:
        def made(*given: Any, **options: Any) -> Tensor:
            x: Tensor = plain(*given, **options)
            traced = torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0
            if traced or x.device.type != "cpu" or x.dtype == torch.bool:
                return x
            with torch.no_grad():
                return x.fill_(float("nan") if x.dtype.is_floating_point else 113)

        return made

    for name in ("empty", "empty_like", "empty_strided"):
        monkeypatch.setattr(torch, name, poisoned(getattr(torch, name)))
    monkeypatch.setattr(Tensor, "new_empty", poisoned(Tensor.new_empty))
