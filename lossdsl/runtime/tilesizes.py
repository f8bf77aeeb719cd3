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
FEATURES = (
    512  # bytes of the factors' rows, 128 numbers, that sums of products are long
)
PASSES = (2, 5)  # over a tile in memory: written, read; and its cotangent, read twice


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

    def multiplies(
        self, step: StepSpec, sizes: Mapping[str, int], itemsize: int
    ) -> bool:
        """Whether a sweep is done by the kernel that multiplies the matrices itself: a
        product again wherever it is read, instead of tiles in memory."""
        found = self.recomputed(step, sizes, itemsize)
        return found is not None and found.flops <= FLOPS_A_BYTE * found.bytes

    def recomputed(
        self, step: StepSpec, sizes: Mapping[str, int], itemsize: int
    ) -> Recomputed | None:
        """What that kernel costs and saves; None if there is none, or the sums are too
        long for it."""
        if not step.product:
            return None
        names = {t.name for t in step.takes}
        read = [m for m in self.spec.matrices if m.name in names]
        features = [prod(sizes[a] for a in m.over) for m in read]
        if sum(features) * itemsize > FEATURES or not all(features):
            return None
        entries = sizes[self.spec.axis] * self.per_row(sizes)
        gives = any(g.how == "matrix" for g in step.gives)
        times = getattr(self.functions[step.product], "times", 1)
        one = 2 * sum(features) * entries // len(self.spec.matrices)
        return Recomputed(times, one * (times - 1), itemsize * entries * PASSES[gives])

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
class Recomputed:
    """A sweep without tiles in memory: how often it multiplies a matrix, floating-point
    operations of all but the first time, and bytes of tiles that it need not move."""

    times: int
    flops: float
    bytes: float


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
