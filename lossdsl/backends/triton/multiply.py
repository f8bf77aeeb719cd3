"""Launching kernels that multiply matrices a tile at a time: part of the run time of generated modules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from lossdsl.backends.triton.launch import (
    ALL,
    FORCED,
    _properties,
    interpreted,
    number,
    on_device,
)
from lossdsl.backends.triton.shapes import Device, available, power_of_2

LEAST = 16  # of what a product of tiles takes
SIZE = 32  # rows and columns of a tile; of 64 sm_80's kernels spill
PART = 32  # features that are multiplied at a time
ALIVE = 256 * 160  # numbers that the threads of a program have registers for, beside factors


@dataclass(frozen=True, slots=True)
class TileShape:
    """Rows and columns of a tile, warps of a program."""

    rows: int
    block: int
    warps: int


@dataclass(frozen=True, slots=True)
class Factors:
    """A product's tensors, as a stage sees them: what goes along its rows, what along its sweeps, the bias; and which
    cotangents are wanted of the first, the second and the bias."""

    own: Tensor
    other: Tensor
    bias: Tensor | None
    wanted: tuple[bool, bool, bool]


def tile_shape(tiles: int, wide: bool, device: Device) -> TileShape:
    """The tile for so many values of an entry that are alive at once.

    A thread has entries of the tile, and of two factors a few features at a time; all of them fit into its registers.
    """
    rows = block = SIZE
    warps = 256 // device.warp
    while rows * block > LEAST * LEAST and (2 * tiles + 4) * rows * block * (2 if wide else 1) > ALIVE:
        rows, block = (rows, block // 2) if block == rows else (block, block)
    return TileShape(rows, block, warps)


class Multiply:
    """The kernels of a stage that meets matrices: by rows, and (where a cotangent is stored) by columns.

    row, column     axes by their names in kernels
    sizes           for either kernel: axes whose extents it is given
    tensors         for either kernel: of each tensor its axes, and the dimension that a tile runs along (or None)
    products        names of the products, and whether each has a bias
    tiles           values of an entry that are alive at once
    parts, stops    as a Launch has them
    """

    def __init__(
        self,
        by_rows: Any,
        by_columns: Any,
        *,
        row: str,
        column: str,
        sizes: tuple[Sequence[str], Sequence[str]],
        tensors: tuple[Sequence[tuple[Sequence[str], int | None]], Sequence[tuple[Sequence[str], int | None]]],
        products: Sequence[tuple[str, bool]],
        tiles: int,
        parts: int,
        stops: Sequence[int],
    ) -> None:
        self.by_rows = by_rows
        self.by_columns = by_columns
        self.row = row
        self.column = column
        self.sizes = sizes
        self.tensors = tensors
        self.products = products
        self.tiles = tiles
        self.parts = parts
        self.stops = stops

    def run(
        self,
        device: torch.device,
        real: torch.dtype,
        extents: dict[str, int],
        tensors: tuple[Sequence[Tensor], Sequence[Tensor]],
        factors: Sequence[Factors],
    ) -> list[tuple[Tensor | None, Tensor | None, Tensor | None]]:
        """Compute the stage; of each product the cotangents by its own factor, by the other and by the bias, None for
        what is not wanted. Nothing waits for the device."""
        wide = real == torch.float64
        on = _properties(device.index or 0) if device.type == "cuda" else Device()
        shape = tile_shape(self.tiles, wide, on)
        forced = FORCED.get() or {}
        shape = replace(shape, **{k: v for k, v in forced.items() if k in ("rows", "block", "warps")})
        shape = replace(shape, rows=max(LEAST, shape.rows), block=max(LEAST, min(shape.block, 64)))
        n, m = extents[self.row], extents[self.column]
        if not n:
            return [(None, None, None)] * len(factors)
        splits = forced.get("splits") or _splits(n, shape.rows, m, shape.block, on)
        with on_device(device):
            own = self._rows(device, real, shape, on, extents, tensors[0], factors, splits if self.stops else 1)
            splits = forced.get("splits") or _splits(m, shape.block, n, shape.rows, on)
            other = self._columns(device, real, shape, on, extents, tensors[1], factors, splits)
        return [(a, *b) for a, b in zip(own, other, strict=True)]

    def _rows(
        self,
        device: torch.device,
        real: torch.dtype,
        shape: TileShape,
        on: Device,
        extents: dict[str, int],
        tensors: Sequence[Tensor],
        factors: Sequence[Factors],
        splits: int,
    ) -> list[Tensor | None]:
        n = extents[self.row]
        sums = [_room((splits, n, f.own.shape[1]), real, device, f.wanted[0]) for f in factors]
        given = [*arguments(self.tensors[0], tensors, real, device), *(extents[a] for a in self.sizes[0])]
        for f, d in zip(factors, sums, strict=True):
            given += _factor_arguments(f, d, None)
        part = torch.empty((n * splits * self.parts,), dtype=torch.float64, device=device)
        options = self._options(real, shape, on, factors, [int(f.wanted[0]) for f in factors])
        launches = [(0, ALL)]
        if splits > 1:
            starts = [0, *(stop + 1 for stop in self.stops)]
            launches = [*zip(starts, self.stops, strict=False), (starts[-1], ALL)]
        for first, last in launches:
            self.by_rows[(triton.cdiv(n, shape.rows), splits)](
                *given, part, splits, FIRST=first, LAST=last, P=max(power_of_2(splits), 2), **options
            )
        return [_total(d) if f.wanted[0] else None for f, d in zip(factors, sums, strict=True)]

    def _columns(
        self,
        device: torch.device,
        real: torch.dtype,
        shape: TileShape,
        on: Device,
        extents: dict[str, int],
        tensors: Sequence[Tensor],
        factors: Sequence[Factors],
        splits: int,
    ) -> list[tuple[Tensor | None, Tensor | None]]:
        if self.by_columns is None or not any(f.wanted[1] or f.wanted[2] for f in factors):
            return [(None, None)] * len(factors)
        m = extents[self.column]
        sums = [_room((splits, m, f.other.shape[1]), real, device, f.wanted[1]) for f in factors]
        totals = [_room((splits, m), real, device, f.wanted[2]) for f in factors]
        given = [*arguments(self.tensors[1], tensors, real, device), *(extents[a] for a in self.sizes[1])]
        for f, d, b in zip(factors, sums, totals, strict=True):
            given += _factor_arguments(f, d, b)
        options = self._options(real, shape, on, factors, [f.wanted[1] + 2 * f.wanted[2] for f in factors])
        if m:
            self.by_columns[(triton.cdiv(m, shape.block), splits)](*given, splits, **options)
        return [
            (_total(d) if f.wanted[1] else None, _total(b) if f.wanted[2] else None)
            for f, d, b in zip(factors, sums, totals, strict=True)
        ]

    def _options(
        self, real: torch.dtype, shape: TileShape, on: Device, factors: Sequence[Factors], give: Sequence[int]
    ) -> dict[str, Any]:
        """The constants of a kernel, and how it is compiled."""
        found: dict[str, Any] = {
            "REAL": tl.float64 if real == torch.float64 else tl.float32,
            "K": min(PART, *(max(LEAST, power_of_2(f.own.shape[1])) for f in factors)),
            "R": shape.rows,
            f"B_{self.column}": shape.block,
            "num_warps": shape.warps,
            "num_stages": 1,
            "enable_fp_fusion": False,
        }
        if not interpreted() and not torch.version.hip:
            found["maxnreg"] = available(shape.warps, Device())
        for (name, _), f, what in zip(self.products, factors, give, strict=True):
            found[f"F_{name}_"] = max(LEAST, power_of_2(f.own.shape[1]))
            found[f"GIVE_{name}_"] = what
        return found


def _factor_arguments(f: Factors, d: Tensor, d_bias: Tensor | None) -> list[Any]:
    found: list[Any] = [f.own, *f.own.stride(), f.other, *f.other.stride()]
    if f.bias is not None:
        found += [f.bias, f.bias.stride(0)]
    return [*found, d, d if d_bias is None else d_bias, f.own.shape[1]]


def _room(shape: tuple[int, ...], real: torch.dtype, device: torch.device, wanted: bool) -> Tensor:
    return torch.empty(shape if wanted else (1,), dtype=real, device=device)


def _total(parts: Tensor) -> Tensor:
    """The sum of what programs have made for shares of the other axis."""
    return parts[0] if len(parts) == 1 else parts.sum(0)


def _splits(n: int, rows: int, m: int, block: int, on: Device) -> int:
    """Programs that share the work of a block of rows, where there are few of them."""
    programs = -(-n // rows)
    if programs >= 2 * on.processors:
        return 1
    most = max(1, m // (8 * block))
    return max(1, min(most, 2 * on.processors // programs, 64))


def arguments(
    known: Sequence[tuple[Sequence[str], int | None]],
    tensors: Sequence[Tensor],
    real: torch.dtype,
    device: torch.device,
) -> list[Any]:
    """What a kernel is given of plain tensors: addresses and strides."""
    found: list[Any] = []
    for (axes, tile), x in zip(known, tensors, strict=True):
        if not axes:
            found.append(number(x, real, device))
            continue
        found += [x, *x.stride()]
        if tile is not None:
            found.append(1)
    return found
