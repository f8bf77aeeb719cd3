"""One run over the tiles of a loss: sweeps, and what is computed between them.

A tile is some rows of the matrix, all columns. In a sweep each tile is computed into
one buffer, the row kernel makes of it what the loss needs (rows, statistics, its
cotangent, over the tile itself where it can), and the cotangent goes into those of the
factors before the next tile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from lossdsl.runtime.binding import compute_dtype
from lossdsl.runtime.call import Call
from lossdsl.runtime.factors import Entries, Source, entries_of, roomy
from lossdsl.runtime.matrices import Matrix
from lossdsl.runtime.tilesizes import Sizes
from lossdsl.runtime.tilespec import GiveSpec, StepSpec, TilingSpec, VariantSpec


class Run:
    """What is there during a run: values by name, matrices, the rows that are there."""

    def __init__(
        self,
        sizes: Sizes,
        operands: Sequence[Tensor],
        call: Call,
        seeds: Mapping[str, Tensor],
    ) -> None:
        self.sizing = sizes
        self.spec: TilingSpec = sizes.spec
        self.functions = sizes.functions
        self.sizes = sizes.extents(operands, call.sizes)
        self.values: dict[str, Tensor] = dict(
            zip(sizes.operands, operands, strict=True)
        )
        self.values.update(seeds)
        self.device = operands[0].device
        self.dtype = compute_dtype(operands[: sizes.inputs])
        self.axis = self.spec.axis
        self.total = self.sizes[self.axis]
        self.values["@size"] = torch.full(
            (), self.total, dtype=torch.int64, device=self.device
        )
        self.values["@real"] = torch.zeros((), dtype=self.dtype, device=self.device)
        tiny = torch.finfo(self.dtype).tiny
        self.values["@tiny"] = torch.full(
            (), tiny, dtype=torch.float64, device=self.device
        )
        self.memory = call.memory
        self.picked = self._picked()
        self.count = self.total if self.picked is None else len(self.picked)
        self.compact: set[str] = set()  # values that have only the rows that are there
        self.matrices: list[Matrix] = []

    def _picked(self) -> Tensor | None:
        """The numbers of the rows that are there; None if all are."""
        if self.spec.keep is None:
            return None
        (keep,) = self.call(
            self.spec.keep, [self.values[t.name] for t in self.spec.keep.takes]
        )
        if not self.spec.picks:
            self._harmless(keep)
            return None
        if bool(keep.all()):
            return None
        return keep.nonzero()[:, 0]

    def _harmless(self, keep: Tensor) -> None:
        """Factors of the rows that are not there as of some others: 0 times their
        cotangent goes into the sums over rows, whatever is in them."""
        sides = [m.left for m in self.spec.matrices]
        for name in {n for side in sides for n in side.inputs}:
            dim, x = self._dim(name), self.values[name]
            if dim >= 0 and x.is_floating_point():
                shape = [1] * dim + [-1] + [1] * (x.dim() - dim - 1)
                self.values[name] = x.masked_fill(~keep.view(shape), 0.5)

    def run(self, variant: VariantSpec, needs: Sequence[bool]) -> dict[str, Tensor]:
        """The outputs of a variant by name, gradients of what is needed among them."""
        operands = zip(self.sizing.operands, needs, strict=False)
        needed = frozenset(name for name, need in operands if need)
        wanted = self._wanted(needed)
        self.row_dims = {g.name: g.dim for s in variant.steps for g in s.gives}
        read = {t.name for s in variant.steps for t in s.takes}
        source = Source(
            self.values,
            self.sizes,
            self.dtype,
            self.picked is not None,
            needed,
            self.functions,
            self.call_into,
        )
        self.matrices = [
            Matrix(source, m) for m in self.spec.matrices if m.name in read
        ]
        for step in variant.steps:
            if step.sweep:
                self.sweep(step, wanted)
            else:
                args = [self.whole(t.name) for t in step.takes]
                self._keep(step, self.call(step, args, self.count))
        found = {}
        for name, value in variant.outputs:
            if not name.startswith("grad.@z"):
                found[name] = self.expanded(value)
        given = {name for name, _ in variant.outputs}
        for m in self.matrices:
            if f"grad.{m.spec.name}" in given:
                for name, x in m.gradients(wanted[m.spec.name]):
                    key = f"grad.{name}"
                    found[key] = found[key] + x if key in found else x
        return found

    def _wanted(self, needed: frozenset[str]) -> dict[str, set[str]]:
        """Of each matrix, which cotangents lead to something that is needed."""
        found = {}
        for m in self.spec.matrices:
            sides = {"left": m.left, "right": m.right, "bias": m.bias}
            found[m.name] = {
                word
                for word, side in sides.items()
                if side is not None and needed & {*side.inputs, *side.params}
            }
        return found

    def _keep(self, step: StepSpec, outs: Sequence[Tensor]) -> None:
        for give, out in zip(step.gives, outs, strict=True):
            self.values[give.name] = out
            if self.picked is not None:
                self.compact.add(give.name)

    def call(
        self, step: StepSpec, args: Sequence[Tensor], rows: int = -1
    ) -> Sequence[Tensor]:
        """Run a kernel; `rows` is how many there are for it, if not all."""
        return self.call_into(step, args, (), rows)

    def call_into(
        self,
        step: StepSpec,
        args: Sequence[Tensor],
        into: Sequence[Tensor | None] = (),
        rows: int = -1,
    ) -> Sequence[Tensor]:
        """The same with memory for results, where the kernel takes some."""
        sizes = self.keywords(step, rows)
        function = self.functions[step.kernel]
        if any(x is not None for x in into):
            return function(*args, **sizes, into=into)
        return function(*args, **sizes)

    def keywords(self, step: StepSpec, rows: int) -> dict[str, int]:
        """The sizes that a kernel sees in no argument; `rows` is how many there are for
        it, if not all."""
        sizes = {word: self.sizes.get(axis, rows) for axis, word in step.sizes}
        for axis, word in step.sizes:
            if rows >= 0 and (axis == self.axis or axis.startswith("Tile")):
                sizes[word] = rows
        return sizes

    # --- values by name ---------------------------------------------------------------

    def _dim(self, name: str) -> int:
        """Along which dimension an operand or seed has the tiled axis; -1 for none."""
        axes = self.sizing.axes.get(name, ())
        return axes.index(self.axis) if self.axis in axes else -1

    def numbers(self, start: int, stop: int) -> Tensor:
        """The numbers of rows; a million of them need not be in memory."""
        if self.picked is None:
            return torch.arange(start, stop, device=self.device)
        return self.picked[start:stop]

    def whole(self, name: str) -> Tensor:
        """A value for all rows that are there."""
        if name == "@row":
            return self.numbers(0, self.count)
        x = self.values[name]
        if self.picked is None or name in self.compact:
            return x
        dim = self._dim(name)
        return x if dim < 0 else x.index_select(dim, self.picked)

    def part(self, name: str, dim: int, start: int, stop: int) -> Tensor:
        """A value for a tile's rows."""
        if name == "@row":
            return self.numbers(start, stop)
        x = self.values[name]
        if self.picked is None or name in self.compact:
            return x.narrow(dim, start, stop - start)
        return x.index_select(dim, self.picked[start:stop])

    def expanded(self, name: str) -> Tensor:
        """A value with the rows that are not there as 0."""
        x = self.values[name]
        if self.picked is None or name not in self.compact:
            return x
        dim = self.row_dims.get(name, -1)
        if dim < 0:
            return x
        shape = (*x.shape[:dim], self.total, *x.shape[dim + 1 :])
        return x.new_zeros(shape).index_copy_(dim, self.picked, x)

    # --- sweeps -----------------------------------------------------------------------

    def sweep(self, step: StepSpec, wanted: Mapping[str, set[str]]) -> None:
        """Run a kernel on every tile, and put together or merge what it gives."""
        names = {t.name for t in step.takes}
        used = [m for m in self.matrices if m.spec.name in names]
        if self.sizing.multiplies(step, self.sizes, self.dtype.itemsize) and self.count:
            self.multiply(step, used, wanted)
            return
        rows = self.sizing.rows(self.sizes, self.memory, self.dtype.itemsize, step)
        rows = max(1, min(rows, self.count))
        rooms = {m.spec.name: self._room(rows * m.columns) for m in used}
        others: dict[str, Tensor] = {}  # memory of cotangents apart from tiles'
        merged: dict[str, Tensor] = {}
        for start in range(0, max(self.count, 1), rows):
            stop = min(start + rows, self.count)
            entries: Entries = (start, stop)
            if self.picked is not None:
                entries = self.picked[start:stop]
            for m in used:
                name = m.spec.name
                self.values[name] = m.tile(entries, rooms[name])
            args = [
                self.values[t.name]
                if t.dim < 0 or t.name in rooms
                else self.part(t.name, t.dim, start, stop)
                for t in step.takes
            ]
            into = self._into(step, args, others, rows)
            outs = self.call_into(step, args, into, stop - start)
            for give, out in zip(step.gives, outs, strict=True):
                if give.how == "matrix":
                    for m in self.matrices:
                        if give.name == f"grad.{m.spec.name}":
                            m.give(entries, out, wanted[m.spec.name])
                elif give.how == "rows":
                    self._rows(merged, give, out, start, stop)
                else:
                    merge(merged, give, out)
            del outs, out, args, into  # before the next tile's are made
        for give in step.gives:
            if give.how == "rows" and self.picked is not None:
                self.compact.add(give.name)
            if give.name in merged:
                x = merged[give.name]
                real = x.dtype == torch.float64
                self.values[give.name] = x.to(self.dtype) if real else x
        for name in rooms:
            del self.values[name]

    def multiply(
        self, step: StepSpec, used: Sequence[Matrix], wanted: Mapping[str, set[str]]
    ) -> None:
        """A sweep by the kernel that multiplies the matrices: all rows at once, and no
        tile in memory."""
        whole = self.picked is None
        entries: Entries = (0, self.count) if self.picked is None else self.picked
        known = {m.spec.name: m for m in used}
        args: list[Tensor] = []
        for t in step.takes:
            if t.name in known:
                args += known[t.name].factors(entries)
            elif t.dim >= 0:
                args.append(self.part(t.name, t.dim, 0, self.count))
            else:
                args.append(self.values[t.name])
        sizes = self.keywords(step, self.count)
        asked: list[bool] = []
        for give in step.gives:
            if give.how == "matrix":
                m = known[give.name.removeprefix("grad.")]
                sides = ("left", "right", *(("bias",) if m.bias is not None else ()))
                asked += [side in wanted[m.spec.name] for side in sides]
        function = self.functions[step.product]
        outs = iter(function(*args, **sizes, wanted=tuple(asked)))
        for give in step.gives:
            if give.how == "matrix":
                m = known[give.name.removeprefix("grad.")]
                count = 2 if m.bias is None else 3
                m.receive(entries, [next(outs) for _ in range(count)])
                continue
            self.values[give.name] = next(outs)
            if give.how == "rows" and not whole:
                self.compact.add(give.name)

    def _room(self, size: int) -> Tensor:
        return torch.empty(size, dtype=self.dtype, device=self.device)

    def _into(
        self,
        step: StepSpec,
        args: Sequence[Tensor],
        others: dict[str, Tensor],
        rows: int,
    ) -> list[Tensor | None]:
        """Where matrices' cotangents go: over the tile, or into memory that is kept."""
        function = self.functions[step.kernel]
        over = getattr(function, "over", {})
        found: list[Tensor | None] = []
        taken = [f"grad.{t.name}" for t in step.takes]
        for i, give in enumerate(step.gives):
            room = None  # without a tile, too: of a cotangent that hangs on none
            if give.how == "matrix" and roomy(function) and give.name in taken:
                at = taken.index(give.name)
                tile = args[at]
                if over.get(i) == at:
                    room = tile
                else:
                    if give.name not in others:
                        others[give.name] = self._room(rows * tile[0].numel())
                    room = others[give.name][: tile.numel()].view(tile.shape)
            found.append(room)
        return found

    def _rows(
        self,
        merged: dict[str, Tensor],
        give: GiveSpec,
        out: Tensor,
        start: int,
        stop: int,
    ) -> None:
        if give.name not in merged:
            if stop - start == self.count:
                merged[give.name] = out
                return
            shape = list(out.shape)
            shape[give.dim] = self.count
            merged[give.name] = out.new_empty(shape)
        entries_of(merged[give.name], give.dim, (start, stop)).copy_(out)


def merge(merged: dict[str, Tensor], give: GiveSpec, out: Tensor) -> None:
    """Put a tile's part of a reduction to those before it; sums are kept in float64."""
    before = merged.get(give.name)
    if out.is_floating_point() and give.how in ("sum", "logsumexp", "prod"):
        out = out.double()
    if before is None:
        merged[give.name] = out
        return
    match give.how:
        case "sum":
            merged[give.name] = before + out
        case "max":
            merged[give.name] = torch.maximum(before, out)
        case "min":
            merged[give.name] = torch.minimum(before, out)
        case "prod":
            merged[give.name] = before * out
        case "logsumexp":
            merged[give.name] = torch.logaddexp(before, out)
