"""How large tiles are, and what a way of taking them costs, from sizes alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from torch import Tensor

from lossdsl.runtime.signature import KernelFunction, Signature
from lossdsl.runtime.tilespec import StepSpec, TilingSpec

ALIGNED = 16
ENOUGH = 384  # rows for which adding to a factor's cotangent costs little beside them
LARGE = 4 << 20  # bytes of a tile, for matrices with few columns
FLOPS_A_BYTE = 10  # that a processor does while it reads or writes one: CPUs and GPUs


class Sizes:
    """The arithmetic of one way to take tiles."""

    def __init__(
        self,
        signature: Signature,
        spec: TilingSpec,
        functions: Mapping[str, KernelFunction],
    ) -> None:
        self.signature = signature
        self.spec = spec
        self.functions = functions
        self.operands = [s.name for s in signature.inputs]
        self.operands += [s.name for s in signature.params]
        self.inputs = len(signature.inputs)
        self.axes = {s.name: s.axes for s in signature.inputs}
        self.axes |= {"@rows": signature.batch, "@weight": signature.batch}
        self.arrays = self._arrays()

    def _arrays(self) -> int:
        """How many arrays of a tile's size a sweep holds: it, others, and its cotangent
        unless a kernel writes that over it."""
        steps = [step for variant in self.spec.variants for step in variant.steps]
        return max(self.arrays_of(step) for step in steps)

    def arrays_of(self, step: StepSpec) -> int:
        """The same of one sweep."""
        over = getattr(self.functions[step.kernel], "over", {})
        gives = enumerate(g.how for g in step.gives)
        apart = any(how == "matrix" and i not in over for i, how in gives)
        return 1 + apart + self.spec.temporaries

    def extents(
        self, operands: Sequence[Tensor], given: Sequence[int]
    ) -> dict[str, int]:
        """The extent of every axis that an input shows or the signature says."""
        found = {
            axis: size
            for (axis, _), size in zip(self.signature.sizes, given, strict=True)
        }
        axes = [s.axes for s in self.signature.inputs]
        axes += [s.axes for s in self.signature.params]
        for own, x in zip(axes, operands, strict=False):
            found.update(zip(own, x.shape, strict=True))
        for m in self.spec.matrices:
            for a in (*m.rows, *m.columns, *m.over):
                found.setdefault(a, found.get(a.rstrip("'"), 1))
        return found

    def per_row(self, sizes: Mapping[str, int]) -> int:
        """Entries of all matrices in one row of a tile."""
        return sum(
            prod(sizes[a] for a in (*m.rows[1:], *m.columns))
            for m in self.spec.matrices
        )

    def least(self, sizes: Mapping[str, int], itemsize: int) -> int:
        """Bytes for a tile of one row."""
        return max(1, self.per_row(sizes) * itemsize * self.arrays)

    def rows(
        self,
        sizes: Mapping[str, int],
        memory: int,
        itemsize: int,
        step: StepSpec | None = None,
    ) -> int:
        """How many rows a tile (of a sweep) has under a cap on what it takes.

        ValueError if one row is too much.
        """
        row = self.least(sizes, itemsize)
        if row > memory:
            raise ValueError(
                f"{self.signature.name}: memory = {memory} bytes is too little for one "
                f"row of the matrix: the least that works is {row}"
            )
        if step is not None:
            row = row // self.arrays * self.arrays_of(step)
        count = memory // row
        if count > ALIGNED:  # whole blocks of a matrix product, with room for its own
            count = count * 15 // 16 // ALIGNED * ALIGNED
        inner = min(prod(sizes[a] for a in m.rows[1:]) for m in self.spec.matrices)
        most = max(ENOUGH // max(1, inner), LARGE // row // ALIGNED * ALIGNED)
        return max(1, min(count, most))

    def held(self, sizes: Mapping[str, int], itemsize: int) -> int:
        """Bytes of the factors that are computed and whole: of their values, and where
        a list chooses them of their cotangents."""
        total = 0
        for m in self.spec.matrices:
            if m.right.forward is not None:
                entries = prod(sizes[a] for a in (*m.columns, *m.over))
                total += entries * itemsize * (2 if m.right.through else 1)
        return total

    def cost(self, sizes: Mapping[str, int], rows: int, itemsize: int) -> float:
        """What value and gradients take, in floating-point operations."""
        found = price(self.spec, sizes, rows, itemsize)
        return found.flops + FLOPS_A_BYTE * found.bytes


@dataclass(frozen=True, slots=True)
class Price:
    """Floating-point operations of the matrix products, bytes of factors and of their
    cotangents that are read and written for all tiles, and how often a tile is made."""

    flops: float
    bytes: float
    sweeps: int


def price(
    spec: TilingSpec, sizes: Mapping[str, int], rows: int, itemsize: int
) -> Price:
    """What value and gradients by the matrices take with tiles of so many rows."""
    steps = next(v.steps for v in spec.variants if v.name == "matrix")
    tiles = -(-sizes[spec.axis] // rows)
    flops = factors = 0
    most = 0
    for m in spec.matrices:
        features = prod(sizes[a] for a in m.over)
        left = prod(sizes[a] for a in m.rows) * features
        right = prod(sizes[a] for a in m.columns) * features
        sweeps = sum(s.sweep and any(t.name == m.name for t in s.takes) for s in steps)
        flops += 2 * left * (right // max(1, features)) * (sweeps + 2)
        factors += (sweeps + 1) * left + (sweeps + 2) * right * tiles
        most = max(most, sweeps)
    return Price(flops, itemsize * factors, most)
