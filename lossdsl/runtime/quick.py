"""The arguments of most calls, looked at once: just what the file says, on the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from lossdsl.runtime.binding import compute_dtype
from lossdsl.runtime.signature import InputSpec, base_axis

ODD = (torch.uint8, torch.uint16, torch.uint32, torch.uint64)  # integers to look at
FEW = 256  # numbers that Python looks through in less time than a call takes


class Quick:
    """What an input must be for a call to need no more looking at."""

    __slots__ = ("bases", "boolean", "fill", "kept", "rank", "real", "target")

    def __init__(self, spec: InputSpec) -> None:
        self.rank = len(spec.axes)
        self.bases = tuple(map(base_axis, spec.axes))
        self.real = spec.kind == "real" or spec.kind.startswith("prob")
        self.boolean = spec.kind == "bool"
        indexes = spec.kind.startswith("index ")
        self.target = base_axis(spec.target) if indexes else None
        number = isinstance(spec.default, int | float)
        self.fill = spec.default if self.real and number else None
        self.kept: tuple[tuple[int, ...], Tensor] | None = None

    def filled(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """The default, kept for the next call."""
        kept = self.kept
        if kept is None or kept[0] != shape or kept[1].dtype is not dtype:
            assert isinstance(self.fill, int | float)
            with torch.inference_mode(False):  # a later call may want a gradient
                kept = (shape, torch.full(shape, self.fill, dtype=dtype, device="cpu"))
            self.kept = kept
        return kept[1]


def bind_quickly(
    quick: Sequence[Quick], given: Sequence[Any]
) -> tuple[list[Tensor], dict[str, int]] | None:
    """Tensors and sizes if every argument is just what it should be, on the CPU.

    Never raises: None leaves what is wrong, or only unusual, to `bind`.
    """
    sizes: dict[str, int] = {}
    missing = False
    for q, x in zip(quick, given, strict=True):
        if not isinstance(x, Tensor):
            if x is None and q.fill is not None:
                missing = True
                continue
            return None
        if x.is_nested or x.layout is not torch.strided or x.is_neg():
            return None
        shape = x.shape
        if len(shape) != q.rank or x.is_floating_point() is not q.real or not x.is_cpu:
            return None
        if not q.real:
            boolean = x.dtype is torch.bool
            if boolean is not q.boolean or x.dtype in ODD or x.is_complex():
                return None
        for axis, size in zip(q.bases, shape, strict=True):
            if sizes.setdefault(axis, size) != size:
                return None
    tensors = list(given)
    if missing:
        dtype = compute_dtype(tensors)
        for i, (q, x) in enumerate(zip(quick, given, strict=True)):
            if x is None:
                if any(axis not in sizes for axis in q.bases):
                    return None
                tensors[i] = q.filled(tuple([sizes[a] for a in q.bases]), dtype)
    return tensors, sizes


def in_range(
    quick: Sequence[Quick], tensors: Sequence[Tensor], sizes: Mapping[str, int]
) -> bool:
    """Whether every index is in range, none of them ignored."""
    for q, x in zip(quick, tensors, strict=True):
        if (
            q.target is not None
            and q.target in sizes
            and not within(x, sizes[q.target])
        ):
            return False
    return True


def within(x: Tensor, size: int) -> bool:
    """Whether every entry is from 0 to size - 1."""
    count = x.numel()
    if count <= FEW and x.dim() == 1:
        numbers = x.tolist()
        return not count or (min(numbers) >= 0 and max(numbers) < size)
    if not count:
        return True
    least, most = x.aminmax()
    return bool(least.item() >= 0 and most.item() < size)
