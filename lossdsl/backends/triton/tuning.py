"""Which of a few shapes of a kernel is the quickest: measured once for a class of sizes on a device, and remembered.

The first call with rows of a class tries the default and at most MOST others. What it finds is kept in a file, named by
a hash of all that it hangs on: the kernels' text, device, compiler, dtypes, strides and class. LOSSDSL_AUTOTUNE=0 turns
it off; LOSSDSL_CACHE_DIR says where the files lie.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from lossdsl.backends.triton.shapes import Shape, power_of_2

MOST = 4  # shapes beside the default
SMALL = 1 << 18  # entries up to which a launch takes longer than its kernel
GAIN = 0.97  # of the default's time, which another shape has to beat: less is noise


def is_on(entries: int) -> bool:
    """Whether a call on so many entries is worth tuning, and nobody has turned it off."""
    return entries > SMALL and os.environ.get("LOSSDSL_AUTOTUNE", "1") != "0"


def candidates(shape: Shape, whole: bool, warp: int = 32) -> tuple[Shape, ...]:
    """Shapes near the default, which comes first. `whole`: rows can't be gone over in blocks; `warp`: its threads."""
    found = [shape]
    if shape.kind == "rows":
        found += [replace(shape, warps=shape.warps * 2), replace(shape, warps=shape.warps // 2)]
        found += [replace(shape, rows=shape.rows * 2), replace(shape, rows=shape.rows // 2)]
        if not whole and shape.block >= 4096:
            found.insert(1, Shape("blocks", 1, 2048, 8))
    else:
        found += [replace(shape, block=shape.block // 2), replace(shape, block=shape.block * 2)]
        found += [replace(shape, warps=shape.warps // 2), replace(shape, splits=shape.splits * 2)]
    sound = [s for s in found if s == shape or (s.rows >= 1 and 1 <= s.warps <= 1024 // warp and s.block >= 32)]
    return tuple(dict.fromkeys(sound))[: MOST + 1]


def chosen(
    default: Shape,
    *,
    whole: bool,
    rows: int,
    length: int,
    key: tuple[Any, ...],
    time: Callable[[Shape], float],
    warp: int = 32,
) -> Shape:
    """The quickest shape for this class of sizes: from a file, or by timing each candidate.

    `key` says, by its repr, what else the choice hangs on.
    """
    name = hashlib.sha256(repr((key, default, power_of_2(rows), power_of_2(length))).encode()).hexdigest()
    path = folder() / f"{name}.json"
    found = read(path)
    if found is None:
        found = measured(default, candidates(default, whole, warp), time)
        write(path, found)
    return found


def measured(default: Shape, among: tuple[Shape, ...], time: Callable[[Shape], float]) -> Shape:
    """The quickest, the default unless another is clearly quicker. A time is infinite where a shape can't be had."""
    best, least = default, time(default) * GAIN
    for shape in among:
        if shape == default:
            continue
        seconds = time(shape)
        if seconds < least:
            best, least = shape, seconds
    return best


def folder() -> Path:
    """Where what was found is kept."""
    own = os.environ.get("LOSSDSL_CACHE_DIR")
    base = Path(own) if own else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lossdsl"
    return base / "triton"


def read(path: Path) -> Shape | None:
    """The shape in a file; None where there is none, or no whole one."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        shape = Shape(str(found["kind"]), *(int(found[k]) for k in ("rows", "block", "warps", "splits")))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    sound = shape.kind in ("rows", "blocks") and 1 <= shape.warps <= 32 and min(shape.rows, shape.splits) >= 1
    return shape if sound and shape.block >= 1 else None


def write(path: Path, shape: Shape) -> None:
    """Publish a shape at once, so that no reader sees half of it; a folder that can't be written to is no reason to
    fail."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(asdict(shape), file)
        os.replace(temporary, path)
    except OSError:
        return
