"""The interpreter, with the rounding of devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import triton.language as tl
from triton.runtime import interpreter


@pytest.fixture(autouse=True)
def _rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Casts of float32 to bfloat16 round to the nearest, of two to the even one, as every target's do. The
    interpreter's own (`cast_impl` in triton/runtime/interpreter.py of 3.6 to 3.9) name no rounding, which cuts digits
    off; and where they name one, `_convert_float` loses the carry into the exponent."""
    convert = interpreter._convert_float

    def nearest(x: Any, given: Any, wanted: Any, rounding: Any) -> Any:
        if given != tl.float32 or wanted != tl.bfloat16:
            return convert(x, given, wanted, rounding)
        bits = np.ascontiguousarray(x).view(np.uint32).astype(np.uint64)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        return np.where(np.isnan(x), (bits >> 16) | 0x40, rounded).astype(np.uint16)

    monkeypatch.setattr(interpreter, "_convert_float", nearest)
