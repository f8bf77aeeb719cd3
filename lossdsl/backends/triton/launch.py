"""Launching kernels: which shape of kernel for which rows, and what each is called with."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

ALL = 99  # the number of no sweep: a launch that runs to the end
ON_CHIP = 16384  # the longest row that is held in registers (a longer one spills on every device looked at)
LONGEST = 2**20  # entries of a tile, by Triton's own limit
SPLIT_BELOW = 2  # rows a multiprocessor; with fewer, long rows are split


def interpreted() -> bool:
    """Whether kernels are run by Triton's interpreter, on the CPU."""
    return os.environ.get("TRITON_INTERPRET", "0") in ("1", "true", "on", "yes")


def device_of(*tensors: Tensor) -> torch.device:
    """Where the kernels run; TypeError if they can't there."""
    device = tensors[0].device
    for x in tensors:
        if x.dim() and x.device != device:
            raise TypeError(f"tensors are on {device} and on {x.device}")
    if device.type != "cuda" and not (interpreted() and device.type == "cpu"):
        raise TypeError(
            f"the Triton kernels of this loss run on a GPU, but a tensor is on {device}: "
            'build it with backend="auto" or backend="torch"'
        )
    return device


def arithmetic_of(*reals: Tensor) -> torch.dtype:
    """The type of all arithmetic: float64 if an input is, else float32."""
    wide = any(x.dtype == torch.float64 for x in reals)
    return torch.float64 if wide else torch.float32


@dataclass(frozen=True, slots=True)
class Device:
    """What the choice of a kernel depends on: threads of a warp, multiprocessors."""

    warp: int = 32
    processors: int = 132


@cache
def _properties(index: int) -> Device:
    found = torch.cuda.get_device_properties(index)
    return Device(64 if torch.version.hip else 32, found.multi_processor_count)


@dataclass(frozen=True, slots=True)
class Shape:
    """How a stage is launched: `kind` is "rows" or "blocks", `rows` those of a program, `block` entries of a row at a
    time, `splits` the programs of a row."""

    kind: str
    rows: int
    block: int
    warps: int
    splits: int = 1


ONE_AT_A_TIME = threading.Lock()  # the interpreter changes Triton's own modules while it runs
FORCED: ContextVar[dict[str, Any] | None] = ContextVar("FORCED", default=None)


@contextlib.contextmanager
def shaped(**fields: Any) -> Iterator[None]:
    """Fix fields of every `Shape` in this block: for tests and for tuning by hand."""
    token = FORCED.set(fields)
    try:
        yield
    finally:
        FORCED.reset(token)


def power_of_2(n: int) -> int:
    """The least power of 2 that is not below n."""
    return 1 << max(n - 1, 0).bit_length()


def registers(tiles: int, entries: int, wide: bool) -> int:
    """What a thread needs for `tiles` values of each of its entries: near what compilers for sm_80 to sm_100 make of
    it."""
    return ((2 * tiles - 1) * entries // 2) * (2 if wide else 1) + 16


def available(warps: int, device: Device) -> int:
    """The registers of a thread: 64 Ki for the threads of a block, 255 at most."""
    return min(255, 65536 // (warps * device.warp))


def shape_of(rows: int, length: int, tiles: tuple[int, int], wide: bool, device: Device, whole: bool = False) -> Shape:
    """The kernel for so many rows of this length (0: with nothing to sweep over).

    Short rows go several to a program, ones up to 16384 whole into registers if what is alive of an entry fits; the
    others in blocks, and if there are too few of them for the device, each by several programs. `whole`: rows have to
    be on chip, where longer ones spill to local memory.
    """
    if not length:
        return Shape("rows", 256 if wide else 512, 1, 128 // device.warp)
    found = on_chip(length, tiles[0], wide, device)
    if found is not None:
        return found
    if whole:
        return Shape("rows", 1, max(power_of_2(length), 2), 1024 // device.warp)
    entries = 8
    while entries > 2 and registers(tiles[1] + 4, entries, wide) > 160:
        entries //= 2
    warps = 256 // device.warp
    block = 256 * entries
    splits = 1
    if rows < SPLIT_BELOW * device.processors:
        most = max(1, length // (4 * block))
        splits = min(most, max(1, 2 * SPLIT_BELOW * device.processors // max(rows, 1)), 64)
    return Shape("blocks", 1, block, warps, splits)


def on_chip(length: int, tiles: int, wide: bool, device: Device) -> Shape | None:
    """How rows of this length are held in registers as a whole; None if they don't fit."""
    block = max(power_of_2(length), 2)
    if block > ON_CHIP:
        return None
    together = max(1, 1024 // block)
    threads = min(1024, max(device.warp, together * block // 8))
    while threads <= 1024:
        warps = threads // device.warp
        if registers(tiles, together * block // threads, wide) <= available(warps, device):
            return Shape("rows", together, block, warps)
        threads *= 2
    return None


class Launch:
    """The kernels of a stage, and how to call them.

    rows, sweeps, sizes   axes by their names in kernels: of rows, of what is swept over, of all sizes
    tensors               for each: its axes, and the dimension that a tile runs along (or None)
    tiles                 values of an entry that are alive at once, in either kernel
    parts                 numbers in the state of a part of a row
    stops                 sweeps after which the parts of a split row are merged
    """

    def __init__(
        self,
        whole: Any,
        blocks: Any,
        *,
        rows: Sequence[str],
        sweeps: Sequence[str],
        sizes: Sequence[str],
        tensors: Sequence[tuple[Sequence[str], int | None]],
        tiles: tuple[int, int],
        parts: int,
        stops: Sequence[int],
    ) -> None:
        self.whole = whole
        self.blocks = blocks
        self.rows = rows
        self.sweeps = sweeps
        self.sizes = sizes
        self.tensors = tensors
        self.tiles = tiles
        self.parts = parts
        self.stops = stops

    def run(
        self,
        device: torch.device,
        real: torch.dtype,
        sizes: Sequence[int],
        tensors: Sequence[Tensor],
    ) -> None:
        """Compute the stage. Nothing waits for the device."""
        extents = dict(zip(self.sizes, sizes, strict=True))
        rows = 1
        for axis in self.rows:
            rows *= extents[axis]
        if not rows:
            return
        wide = real == torch.float64
        on = _properties(device.index or 0) if device.type == "cuda" else Device()
        length = max((extents[a] for a in self.sweeps), default=0)
        whole = self.blocks is None
        if whole and length > LONGEST:
            raise ValueError(
                f"rows of {length} entries are too long for the Triton kernels of this loss, which take {LONGEST} at "
                'most: build it with backend="torch"'
            )
        shape = shape_of(rows, length if self.sweeps else 0, self.tiles, wide, on, whole)
        forced = FORCED.get()
        if forced and self.sweeps:
            shape = replace(shape, **forced)
            if whole:
                shape = replace(shape, kind="rows")
            if shape.kind == "rows":
                shape = replace(shape, block=power_of_2(length), splits=1)
        if not self.rows:
            shape = replace(shape, rows=1)
        arguments, even = self.arguments(extents, tensors, real, device)
        options: dict[str, Any] = {"REAL": tl.float64 if wide else tl.float32, **even}
        with ONE_AT_A_TIME if interpreted() else contextlib.nullcontext():
            self.start(device, shape, rows, extents, arguments, options)

    def start(
        self,
        device: torch.device,
        shape: Shape,
        rows: int,
        extents: dict[str, int],
        arguments: list[Any],
        options: dict[str, Any],
    ) -> None:
        """The launches of one stage in this shape."""
        tune = {"num_warps": shape.warps, "enable_fp_fusion": False}
        if shape.kind == "rows":
            for axis in self.sweeps:
                options[f"B_{axis}"] = max(power_of_2(extents[axis]), 2)
            grid = (triton.cdiv(rows, shape.rows),)
            self.whole[grid](*arguments, R=shape.rows, **options, **tune)
            return
        for axis in self.sweeps:
            options[f"B_{axis}"] = min(shape.block, max(power_of_2(extents[axis]), 2))
            options.pop(f"EVEN_{axis}")
        splits = shape.splits if self.stops else 1
        part = torch.empty((rows * splits * self.parts,), dtype=torch.float64, device=device)
        launches = [(0, ALL, splits)]
        if splits > 1:
            starts = [0, *(stop + 1 for stop in self.stops)]
            launches = [*zip(starts, self.stops, strict=False)]  # type: ignore[list-item]
            launches = [(first, last, splits) for first, last, *_ in launches]
            launches.append((starts[-1], ALL, splits))
        for first, last, programs in launches:
            self.blocks[(rows, programs)](
                *arguments, part, splits, R=1, FIRST=first, LAST=last, P=max(power_of_2(splits), 2), **options, **tune
            )

    def arguments(
        self, extents: dict[str, int], tensors: Sequence[Tensor], real: torch.dtype, device: torch.device
    ) -> tuple[list[Any], dict[str, bool]]:
        """What both kernels are given before their constants; and whether rows end where a run of entries does."""
        found: list[Any] = []
        even = {f"EVEN_{axis}": True for axis in self.sweeps}
        for (axes, tile), x in zip(self.tensors, tensors, strict=True):
            if not axes:
                found.append(number(x, real, device))
                continue
            run = 1 if tile is None else run_of(x, tile)
            found.append(x)
            found += [s if d == tile else s // run for d, s in enumerate(x.stride())]
            if tile is not None:
                found.append(run)
                ragged = x.shape[tile] % run != 0
                for axis in self.sweeps:  # copies of an axis have its extent
                    if extents[axis] == x.shape[tile] and ragged:
                        even[f"EVEN_{axis}"] = False
        return found + [extents[axis] for axis in self.sizes], even


def number(x: Tensor, real: torch.dtype, device: torch.device) -> Any:
    """A parameter as a kernel takes it: its address where it is on the device; else a number, which in float64 needs an
    address as well, since kernels take numbers in float32."""
    if x.device.type == device.type:
        return x
    if not x.dtype.is_floating_point:
        return int(x)
    if real == torch.float64:
        return torch.full((), float(x), dtype=real, device=device)
    return float(x)


def run_of(x: Tensor, tile: int) -> int:
    """How many entries side by side may be moved at once: up to 16 bytes of them, if each row starts at a multiple."""
    if x.stride(tile) != 1 or x.data_ptr() % 16:
        return 1
    run = 16 // x.element_size()
    while run > 1 and any(s % run for d, s in enumerate(x.stride()) if d != tile and x.shape[d] > 1):
        run //= 2
    return run
