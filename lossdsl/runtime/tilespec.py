"""What the runtime knows of a loss that is computed a tile of its matrix at a time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TakeSpec:
    """A value that a step takes: `dim` is the one along which tiles slice it, or -1."""

    name: str
    dim: int = -1


@dataclass(frozen=True, slots=True)
class GiveSpec:
    """A value that a step gives.

    `how` is "whole", "rows" (tiles give parts along `dim`), "matrix" (a matrix's
    cotangent), or what merges the tiles': sum, max, min, prod, logsumexp.
    """

    name: str
    how: str
    dim: int = -1


@dataclass(frozen=True, slots=True)
class StepSpec:
    """A kernel: run once, or (a sweep) on every tile; `product` is one that does a
    sweep on all rows at once, given the factors of the matrices."""

    kernel: str
    sweep: bool
    takes: tuple[TakeSpec, ...]
    gives: tuple[GiveSpec, ...]
    sizes: tuple[tuple[str, str], ...] = ()  # (axis, keyword) that no argument shows
    product: str = ""


@dataclass(frozen=True, slots=True)
class SideSpec:
    """A factor of a matrix: the name and axes of its value, and the way back from it.

    `inputs` and `params` are the operands that it hangs on; without `back` its
    cotangent is that of its one input. `apart`: entries along the first axis are each
    computed by themselves. `through`: inputs read at the entries of a list, which the
    steps take as if they were the input.
    """

    value: str
    axes: tuple[str, ...]
    cotangent: str
    inputs: tuple[str, ...] = ()
    params: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()  # index operands that choose its entries
    forward: StepSpec | None = None
    back: tuple[tuple[str, StepSpec], ...] = ()  # "inputs" or "params", step
    apart: bool = False
    through: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class MatrixSpec:
    """z[rows, columns] = Σ over of left · right (or of (left - right)²), + bias."""

    name: str
    kind: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    over: tuple[str, ...]
    left: SideSpec
    right: SideSpec
    bias: SideSpec | None = None


@dataclass(frozen=True, slots=True)
class VariantSpec:
    """Steps for the value, the weights, or with gradients; what outputs are called."""

    name: str
    steps: tuple[StepSpec, ...]
    outputs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class TilingSpec:
    """The rows along `axis` are taken a tile at a time.

    `keep` says which rows are there; with `picks` tiles are of these alone, which takes
    their number. `temporaries` are arrays as large as a tile's part of the matrix that
    a kernel holds besides it.
    """

    axis: str
    matrices: tuple[MatrixSpec, ...]
    variants: tuple[VariantSpec, ...]
    temporaries: int
    keep: StepSpec | None = None
    picks: bool = True
