"""Launching kernels: which shape of kernel for which rows, and what each is called with."""

from __future__ import annotations

import contextlib
import math
import os
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import replace
from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from lossdsl.backends.triton.shapes import LONGEST, Demand, Device, Shape, available, lighter, power_of_2, shape_of
from lossdsl.backends.triton.tuning import chosen, is_on

ALL = 99  # the number of no sweep: a launch that runs to the end


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


@cache
def _properties(index: int) -> Device:
    found = torch.cuda.get_device_properties(index)
    return Device(64 if torch.version.hip else 32, found.multi_processor_count)


def properties(device: torch.device) -> Device:
    """What the choice of a kernel depends on, of a device; of the interpreter that of some."""
    return _properties(device.index or 0) if device.type == "cuda" else Device()


ONE_AT_A_TIME = threading.Lock()  # the interpreter changes Triton's own modules while it runs


@contextlib.contextmanager
def interpreting() -> Iterator[None]:
    """What a launch in the interpreter takes: that there is no other, and that NumPy keeps to itself what devices say
    nothing of, such as log(0) in a branch that is not taken."""
    import numpy as np

    with ONE_AT_A_TIME, np.errstate(all="ignore"):
        yield


def on_device(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Where launches go to a device: Triton takes the current one and its stream, which need not be the tensors'."""
    if interpreted():
        return interpreting()
    return torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()


def capturing(device: torch.device) -> bool:
    """Whether a CUDA graph is captured, in which nothing may wait and nothing be timed."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


FORCED: ContextVar[dict[str, Any] | None] = ContextVar("FORCED", default=None)


@contextlib.contextmanager
def shaped(**fields: Any) -> Iterator[None]:
    """Fix fields of every `Shape` in this block: for tests and for tuning by hand."""
    token = FORCED.set(fields)
    try:
        yield
    finally:
        FORCED.reset(token)


class Launch:
    """The kernels of a stage, and how to call them.

    rows, sweeps, sizes   axes by their names in kernels: of rows, of what is swept over, of all sizes
    along                 those that tiles run along: what is swept over, or rows that have one entry
    tensors               for each: its axes, and the dimension that a tile runs along (or None)
    demand                what either kernel wants registers for
    parts                 numbers in the state of a part of a row
    stops                 sweeps after which the parts of a split row are merged
    longest               the most entries of a sweep that is held on chip as a whole
    """

    def __init__(
        self,
        whole: Any,
        blocks: Any,
        *,
        rows: Sequence[str],
        sweeps: Sequence[str],
        along: Sequence[str],
        sizes: Sequence[str],
        tensors: Sequence[tuple[Sequence[str], int | None]],
        demand: tuple[Demand, Demand],
        parts: int,
        stops: Sequence[int],
        longest: int = LONGEST,
    ) -> None:
        self.whole = whole
        self.blocks = blocks
        self.rows = rows
        self.sweeps = sweeps
        self.along = along
        self.sizes = sizes
        self.tensors = tensors
        self.demand = demand
        self.parts = parts
        self.stops = stops
        self.longest = longest
        self.kept: dict[tuple[Any, ...], Shape] = {}  # what tuning has chosen
        self.instead: dict[tuple[Any, ...], Shape] = {}  # of kernels that spill registers: a lighter shape
        self.told: set[Shape] = set()  # that spill, and for which there is no other

    def run(
        self,
        device: torch.device,
        real: torch.dtype,
        sizes: Sequence[int],
        tensors: Sequence[Tensor],
        alone: bool = False,
    ) -> None:
        """Compute the stage. Nothing waits for the device. `alone`: it writes over what it reads, so that each row is
        one program's, which runs once."""
        extents = dict(zip(self.sizes, sizes, strict=True))
        rows = 1
        for axis in self.rows:
            rows *= extents[axis]
        if not rows:
            return
        wide = real == torch.float64
        on = properties(device)
        length = max((extents[a] for a in self.sweeps), default=0)
        whole = self.blocks is None
        run = self.run_wanted(tensors)
        if whole and length > self.longest:
            axis = max(self.sweeps, key=lambda a: extents[a])
            raise ValueError(
                f"the axis {axis} has {length} entries, and the Triton kernels of this loss, which need it on chip as "
                f'a whole, take {self.longest} at most: build it with backend="torch", or shorten the axis'
            )
        shape = shape_of(rows, length if self.sweeps else 0, self.demand, wide, on, whole, run)
        forced = FORCED.get()
        if forced and self.sweeps:
            shape = replace(shape, **forced)
            if whole:
                shape = replace(shape, kind="rows")
            if shape.kind == "rows":
                shape = replace(shape, block=power_of_2(length), splits=1)
        if not self.rows:
            shape = replace(shape, rows=1)
        if alone:
            shape = replace(shape, splits=1)
        arguments, even = self.arguments(extents, tensors, real, device)
        options: dict[str, Any] = {"REAL": tl.float64 if wide else tl.float32, **even}
        tuned = not (forced or alone) and self.sweeps and device.type == "cuda" and is_on(rows * length)
        if tuned:
            shape = self.tuned(shape, device, real, rows, length, extents, arguments, options, tensors)
        key = (shape, wide, *even.values(), *(x.dtype for x in tensors))
        shape = self.instead.get(key, shape)
        with on_device(device):
            spilled = self.start(device, shape, rows, extents, arguments, dict(options))
            while spilled and not forced:  # known once it is compiled
                less = lighter(shape, whole, on, run)
                if less is None:
                    if shape not in self.told:
                        self.told.add(shape)
                        warnings.warn(_too_long(length, spilled), stacklevel=2)
                    return
                if tuned or alone or capturing(device):  # the last two can't be launched again: for the next call
                    if not tuned:
                        self.instead[key] = less
                    return
                self.instead[key] = shape = less
                spilled = self.start(device, shape, rows, extents, arguments, dict(options))

    def tuned(
        self,
        default: Shape,
        device: torch.device,
        real: torch.dtype,
        rows: int,
        length: int,
        extents: dict[str, int],
        arguments: list[Any],
        options: dict[str, Any],
        tensors: Sequence[Tensor],
    ) -> Shape:
        """The quickest shape for these sizes, timed once. While a CUDA graph is captured nothing can be timed: then the
        shape that calls before it have found."""
        even = sorted((k, v) for k, v in options.items() if k.startswith("EVEN_"))
        runs = [(x.dtype, run_of(x, t)) for (_, t), x in zip(self.tensors, tensors, strict=True) if t is not None]
        near = (default, power_of_2(rows), power_of_2(length), device.index, real, *even, *runs)
        found = self.kept.get(near)
        if found is None:
            if capturing(device):
                return default
            found = self.kept[near] = chosen(
                default,
                whole=self.blocks is None,
                rows=rows,
                length=length,
                key=(self.source(), torch.cuda.get_device_name(device), triton.__version__, even, runs),
                time=lambda s: _seconds(device, lambda: self.start(device, s, rows, extents, arguments, dict(options))),
                warp=properties(device).warp,
            )
        return found

    def start(
        self,
        device: torch.device,
        shape: Shape,
        rows: int,
        extents: dict[str, int],
        arguments: list[Any],
        options: dict[str, Any],
    ) -> int:
        """The launches of one stage in this shape; how many registers its kernels spill."""
        tune: dict[str, Any] = {"num_warps": shape.warps, "enable_fp_fusion": False}
        if device.type == "cuda" and not torch.version.hip:  # else the assembler may spill to let more programs in
            tune["maxnreg"] = available(shape.warps, Device())
        if shape.kind == "rows":
            for axis in self.sweeps:
                options[f"B_{axis}"] = max(power_of_2(extents[axis]), 2)
            grid = (triton.cdiv(rows, shape.rows),)
            return spills(self.whole[grid](*arguments, R=shape.rows, **options, **tune))
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
        spilled = 0
        for first, last, programs in launches:
            made = self.blocks[(rows, programs)](
                *arguments, part, splits, R=1, FIRST=first, LAST=last, P=max(power_of_2(splits), 2), **options, **tune
            )
            spilled = max(spilled, spills(made))
        return spilled

    def run_wanted(self, tensors: Sequence[Tensor]) -> int:
        """The entries of 16 bytes of the narrowest numbers that tiles have."""
        reals = [
            x.element_size()
            for (_, t), x in zip(self.tensors, tensors, strict=True)
            if t is not None and x.is_floating_point()
        ]
        return 16 // min(reals, default=4)

    def source(self) -> str:
        """The kernels as the compiler knows them."""
        return "".join(k.cache_key for k in (self.whole, self.blocks) if k is not None)

    def arguments(
        self, extents: dict[str, int], tensors: Sequence[Tensor], real: torch.dtype, device: torch.device
    ) -> tuple[list[Any], dict[str, bool]]:
        """What both kernels are given before their constants; and whether rows end where a run of entries does."""
        found: list[Any] = []
        even = {f"EVEN_{axis}": True for axis in self.along}
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
                for axis in self.along:  # copies of an axis have its extent
                    if extents[axis] == x.shape[tile] and ragged:
                        even[f"EVEN_{axis}"] = False
        return found + [extents[axis] for axis in self.sizes], even


def _too_long(length: int, spilled: int) -> str:
    return (
        f"rows of {length} entries are more than the registers of this device hold in the Triton kernels of this loss, "
        f"which need a row as a whole: each thread keeps {spilled} values in memory, which is slow. "
        'Shorter rows are not; backend="torch" may be quicker for these'
    )


def spills(made: Any) -> int:
    """The registers of a thread that a kernel keeps in memory; none in the interpreter. What its driver counts holds a
    kernel's own arrays as well: a sine's digits of 2/π, for arguments that are out of the ordinary."""
    count = int(getattr(made, "n_spills", 0) or 0)
    return max(0, count - stack_of(getattr(made, "asm", {}).get("ptx", "")) // 4) if count else 0


@cache
def stack_of(ptx: str) -> int:
    """The bytes of the arrays in a text for NVIDIA's assembler, which keeps them in multiples of 16."""
    return sum(-(-int(size) // 16) * 16 for size in re.findall(r"\.local \.align \d+ \.b8\s+\w+\[(\d+)\]", ptx))


def _seconds(device: torch.device, run: Callable[[], object]) -> float:
    """The least of a few runs on the device, after some that compile and warm up; infinite for a kernel that wants more
    than the device has."""
    with on_device(device):
        return _least(run)


def _least(run: Callable[[], object]) -> float:
    try:
        for _ in range(3):
            run()
    except triton.OutOfResources:
        return math.inf
    times: list[float] = []
    for _ in range(5):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        begin.record()
        run()
        end.record()
        end.synchronize()
        times.append(float(begin.elapsed_time(end)) * 1e-3)
    return min(times)


def number(x: Tensor, real: torch.dtype, device: torch.device) -> Any:
    """A parameter as a kernel takes it: its address where it is on the device; else a number, which in float64 needs an
    address as well, since kernels take numbers in float32. TypeError for one on another device, whose address isn't
    theirs."""
    if x.device == device:
        return x
    if x.device.type == device.type:
        raise TypeError(f"tensors are on {device} and on {x.device}")
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
