"""What the runtime knows of a loss: its tensors, its parameters and its kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Bounds = tuple[float, float, bool, bool]  # low, high, low excluded, high excluded
Extent = float | str | tuple[Any, ...]  # a number, a param, "size A", or (operation, …)


@dataclass(frozen=True, slots=True)
class InputSpec:
    """A tensor of the call. `default` is a number, the name of a param, or None.

    The kernels of a `computed` one know a default of their own, and take `@given.NAME`.
    """

    name: str
    axes: tuple[str, ...]
    kind: str = "real"  # real, prob C, bool, int, index C, label
    fixed: bool = False
    default: float | str | None = None
    draw: str | None = None  # gumbel, uniform, normal
    bounds: Bounds | None = None
    computed: bool = False

    @property
    def optional(self) -> bool:
        """Whether a call may leave it out."""
        return self.computed or self.default is not None or self.draw is not None

    @property
    def given(self) -> str:
        """The operand that says whether it was passed."""
        return f"@given.{self.name}"

    @property
    def target(self) -> str:
        """The axis that an index points into, or over which a prob sums to 1."""
        return self.kind.partition(" ")[2]


@dataclass(frozen=True, slots=True)
class ParamSpec:
    """A number (or vector) of the module, which may change at any call."""

    name: str
    axes: tuple[str, ...] = ()
    integer: bool = False
    default: float | tuple[float, ...] = 0.0
    bounds: Bounds | None = None
    learnable: bool = False


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """One function of the module: the names it takes and what it returns.

    `args` names inputs, params, the seeds "@rows" and "@weight" (cotangents of the
    value's outputs) and "@grad.x" (of the gradient's); `outs` are (name, axes, dtype)
    of "rows", "weight", "aux.x", "grad.x", "second.x" and "reduced", the sum of @rows
    times rows; dtype is real, int or bool.
    `sizes` are (axis, keyword) of axes whose size no argument shows.
    """

    args: tuple[str, ...]
    outs: tuple[tuple[str, tuple[str, ...], str], ...]
    sizes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Signature:
    """Everything that calling a loss needs to know.

    `devices` are those that the kernels run on, "*" for all. `batch` are the axes of
    "rows"; () for a batch loss. `reduction` is the file's word
    for the outermost reduction, or None for a batch loss or a map. `rowwise`: no row
    depends on another, on its place or on how many there are. `fold` is the batch axis
    that extra dimensions join, if any. `sizes` are axes that no input needs to bind: a
    number, a param, "size A" or arithmetic of them each. `counted`: the weight of a row
    is 1, or 0 where an index is the ignored one. `second_missing` says why there is no
    second derivative. `modes` are those that were chosen, with their choices.
    `precise`: arithmetic is in float64, whatever dtype comes in.
    """

    name: str
    equation: str
    inputs: tuple[InputSpec, ...]
    params: tuple[ParamSpec, ...]
    batch: tuple[str, ...]
    reduction: str | None
    rowwise: bool
    kernels: tuple[tuple[str, KernelSpec], ...]
    kind: str = "loss"
    backend: str = "torch"
    devices: tuple[str, ...] = ("*",)
    fold: str = ""
    sizes: tuple[tuple[str, Extent], ...] = ()
    counted: bool = False
    second_missing: str = ""
    modes: tuple[tuple[str, str], ...] = ()
    precise: bool = False


KernelFunction = Callable[..., tuple[Any, ...]]


def base_axis(axis: str) -> str:
    """The axis of which this one is a copy: N for N''."""
    return axis.rstrip("'")
