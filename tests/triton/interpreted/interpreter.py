"""What is changed of Triton's interpreter: how it rounds, and that it is quick enough for every loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import triton.language as tl
from triton.runtime import interpreter


def to_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
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


class _Patched:
    """What undoes nothing: the launch that is under way does."""

    def restore(self) -> None:
        return


def once_a_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter replaces the language's functions for a launch, and looks all of them through again at each call
    of a device function, which is a third of its time. Here it does so once a launch for each module of the language:
    users' functions see `triton.language`, its own `triton.language.core`."""
    patch, call = interpreter._patch_lang, interpreter.GridExecutor.__call__
    seen: set[int] = set()

    def patched(fn: Any) -> Any:
        needed = {id(m) for m in (tl, tl.core) if any(x is m for x in fn.__globals__.values())}
        if needed <= seen:
            return _Patched()
        seen.update(needed)
        return patch(fn)

    def launch(self: Any, *given: Any, **options: Any) -> None:
        seen.clear()
        call(self, *given, **options)

    monkeypatch.setattr(interpreter, "_patch_lang", patched)
    monkeypatch.setattr(interpreter.GridExecutor, "__call__", launch)
