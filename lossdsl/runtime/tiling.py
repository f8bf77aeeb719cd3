"""Losses whose matrix is never whole: sweeps over its tiles, and what is between.

A tile is some rows of the matrix, all columns. In a sweep each tile is computed into
one buffer, the row kernel makes of it what the loss needs (rows, statistics, its
cotangent), and the cotangent goes into those of the factors before the next tile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from lossdsl.runtime.autograd import Call, again, known, seeds_of
from lossdsl.runtime.binding import compute_dtype
from lossdsl.runtime.matrices import Matrix
from lossdsl.runtime.signature import KernelFunction, Signature
from lossdsl.runtime.tilespec import GiveSpec, StepSpec, TilingSpec, VariantSpec

ALIGNED = 16
ENOUGH = 256  # rows for which adding to a factor's cotangent costs little beside them
LARGE = 8 << 20  # bytes of a tile, for matrices with few columns
SMALL = 4096  # entries of a matrix up to which the kernels of the whole are quicker


class Tiling:
    """The tiles of a loss: its spec, and the functions of its module."""

    def __init__(
        self,
        signature: Signature,
        spec: TilingSpec,
        functions: Mapping[str, KernelFunction],
    ) -> None:
        self.signature = signature
        self.spec = spec
        self.functions = functions
        self.variants = {v.name: v for v in spec.variants}
        self.operands = [s.name for s in signature.inputs]
        self.operands += [s.name for s in signature.params]
        self.inputs = len(signature.inputs)
        self.axes = {s.name: s.axes for s in signature.inputs}
        self.axes |= {"@rows": signature.batch, "@weight": signature.batch}
        right = [x for m in spec.matrices for x in m.right.lists]
        self.lists = [
            (name, self.operands.index(name)) for name in dict.fromkeys(right)
        ]

    # --- what a call needs ------------------------------------------------------------

    def sizes(self, operands: Sequence[Tensor], given: Sequence[int]) -> dict[str, int]:
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
            for a in (*m.rows, *m.columns):
                found.setdefault(a, found.get(a.rstrip("'"), 1))
        return found

    def per_row(self, sizes: Mapping[str, int]) -> int:
        """Entries of all matrices in one row of a tile."""
        return sum(
            prod(sizes[a] for a in (*m.rows[1:], *m.columns))
            for m in self.spec.matrices
        )

    def pays(self, call: Call, operands: Sequence[Tensor]) -> bool:
        """Whether tiles are worth it: not for a matrix of a few pages of memory."""
        sizes = self.sizes(operands, call.sizes)
        entries = sizes[self.spec.axis] * self.per_row(sizes)
        return entries > SMALL or 8 * entries * self.arrays > call.memory

    @property
    def arrays(self) -> int:
        """How many arrays of a tile's size a sweep holds: it, its cotangent, others."""
        return 2 + self.spec.temporaries

    def rows(self, sizes: Mapping[str, int], memory: int, itemsize: int) -> int:
        """How many rows a tile has under a cap on what it takes.

        ValueError if one row is too much.
        """
        row = max(1, self.per_row(sizes) * itemsize * self.arrays)
        if row > memory:
            raise ValueError(
                f"{self.signature.name}: memory = {memory} bytes is too little for one "
                f"row of the matrix: the least that works is {row}"
            )
        count = memory // row
        count = min(count, max(ENOUGH, LARGE // row))
        if count > ALIGNED:  # whole blocks of a matrix product, with room for its own
            count = count * 15 // 16 // ALIGNED * ALIGNED
        return count

    def variant(self, needs: Sequence[bool]) -> VariantSpec | None:
        """The steps that give all that is needed."""
        wanted = {name for name, need in zip(self.operands, needs, strict=True) if need}
        if not wanted:
            return None
        own = {
            name: {out[5:] for out, _ in v.outputs if out.startswith("grad.")}
            for name, v in self.variants.items()
        }
        most = set().union(*own.values())
        for name in ("matrix", "inputs", "params"):
            if name in own and wanted & most <= own[name]:
                return self.variants[name]
        return None

    def check(self, operands: Sequence[Tensor]) -> None:
        """Raise ValueError for a list of columns in which one is twice."""
        for name, at in self.lists:
            values, counts = torch.unique(operands[at], return_counts=True)
            if len(values) < operands[at].numel():
                value = values[counts > 1][0].item()
                raise ValueError(
                    f"{self.signature.name}: {name} holds {value} more than once, but "
                    f"what it chooses is counted once: pass {name}.unique()"
                )

    # --- running ----------------------------------------------------------------------

    def evaluate(self, call: Call, operands: list[Tensor]) -> tuple[Tensor, ...]:
        """The reduced loss of a plain call, with its gradient if one is wanted."""
        if torch.is_grad_enabled() and any(x.requires_grad for x in operands):
            return (Tiled.apply(self, call, *operands),)  # type: ignore[no-untyped-call]
        outs = self.run(self.variants["value"], operands, call, {})
        return (call.settle(_routed(call, outs))[0],)

    def run(
        self,
        variant: VariantSpec,
        operands: Sequence[Tensor],
        call: Call,
        seeds: Mapping[str, Tensor],
        needs: Sequence[bool] = (),
    ) -> dict[str, Tensor]:
        """The outputs of a variant by name, gradients of what is needed among them."""
        return Run(self, operands, call, seeds).run(variant, needs)


class Run:
    """One run over the tiles."""

    def __init__(
        self,
        tiling: Tiling,
        operands: Sequence[Tensor],
        call: Call,
        seeds: Mapping[str, Tensor],
    ) -> None:
        self.tiling = tiling
        self.spec = spec = tiling.spec
        self.sizes = tiling.sizes(operands, call.sizes)
        self.values: dict[str, Tensor] = dict(
            zip(tiling.operands, operands, strict=True)
        )
        self.values.update(seeds)
        self.device = operands[0].device
        self.dtype = compute_dtype(operands[: tiling.inputs])
        self.axis = spec.axis
        self.total = self.sizes[self.axis]
        self.values["@size"] = torch.tensor(self.total, device=self.device)
        self.values["@real"] = torch.zeros((), dtype=self.dtype, device=self.device)
        tiny = torch.finfo(self.dtype).tiny
        self.values["@tiny"] = torch.tensor(
            tiny, dtype=torch.float64, device=self.device
        )
        self.memory = call.memory
        self.picked = self._picked()
        self.count = self.total if self.picked is None else len(self.picked)
        self.compact: set[str] = set()  # values that have only the rows that are there
        if self.picked is None:
            self.values["@row"] = torch.arange(self.total, device=self.device)
        else:
            self.values["@row"] = self.picked
            self.compact.add("@row")
        self.matrices: list[Matrix] = []

    def _picked(self) -> Tensor | None:
        """The numbers of the rows that are there; None if all are."""
        if self.spec.keep is None:
            return None
        (keep,) = self.call(
            self.spec.keep, [self.values[t.name] for t in self.spec.keep.takes]
        )
        if bool(keep.all()):
            return None
        return keep.nonzero()[:, 0]

    def run(self, variant: VariantSpec, needs: Sequence[bool]) -> dict[str, Tensor]:
        wanted = self._wanted(needs)
        self.row_dims = {g.name: g.dim for s in variant.steps for g in s.gives}
        read = {t.name for s in variant.steps for t in s.takes}
        for m in self.spec.matrices:
            if m.name not in read:
                continue
            left, right = self._side(m.left), self._side(m.right)
            bias = None if m.bias is None else self._side(m.bias)
            made = Matrix(m, left, right, bias, self.dtype, self.picked)
            self.matrices.append(made)
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
        self._gradients(variant, wanted, found)
        return found

    def _keep(self, step: StepSpec, outs: Sequence[Tensor]) -> None:
        for give, out in zip(step.gives, outs, strict=True):
            self.values[give.name] = out
            if self.picked is not None:
                self.compact.add(give.name)

    def call(
        self, step: StepSpec, args: Sequence[Tensor], rows: int = -1
    ) -> tuple[Tensor, ...]:
        """Run a kernel; `rows` is how many there are for it, if not all."""
        sizes = {word: self.sizes[axis] for axis, word in step.sizes}
        if rows >= 0:
            for axis, word in step.sizes:
                if axis == self.axis or axis.startswith("Tile"):
                    sizes[word] = rows
        return self.tiling.functions[step.kernel](*args, **sizes)

    def _side(self, side: Any) -> Tensor:
        if side.forward is not None and side.value not in self.values:
            args = [self.values[t.name] for t in side.forward.takes]
            (self.values[side.value],) = self.call(side.forward, args)
        return self.values[side.value]

    # --- values by name ---------------------------------------------------------------

    def _dim(self, name: str) -> int:
        """Along which dimension an operand or seed has the tiled axis; -1 for none."""
        axes = self.tiling.axes.get(name, ())
        return axes.index(self.axis) if self.axis in axes else -1

    def whole(self, name: str) -> Tensor:
        """A value for all rows that are there."""
        x = self.values[name]
        if self.picked is None or name in self.compact:
            return x
        dim = self._dim(name)
        return x if dim < 0 else x.index_select(dim, self.picked)

    def part(self, name: str, dim: int, start: int, stop: int) -> Tensor:
        """A value for a tile's rows."""
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
        rows = self.tiling.rows(self.sizes, self.memory, self.dtype.itemsize)
        rows = max(1, min(rows, self.count))
        rooms = {
            m.spec.name: torch.empty(
                rows * m.columns, dtype=self.dtype, device=self.device
            )
            for m in used
        }
        merged: dict[str, Tensor] = {}
        for start in range(0, max(self.count, 1), rows):
            stop = min(start + rows, self.count)
            for m in used:
                name = m.spec.name
                self.values[name] = m.tile(start, stop, rooms[name])
            args = [
                self.values[t.name]
                if t.dim < 0 or t.name in rooms
                else self.part(t.name, t.dim, start, stop)
                for t in step.takes
            ]
            outs = self.call(step, args, stop - start)
            for give, out in zip(step.gives, outs, strict=True):
                if give.how == "matrix":
                    self._matrix(give.name, start, stop, out, wanted)
                elif give.how == "rows":
                    self._rows(merged, give, out, start, stop)
                else:
                    _merge(merged, give, out)
            del outs, out, args  # before the next tile's are made
        for give in step.gives:
            if give.how == "rows" and self.picked is not None:
                self.compact.add(give.name)
            if give.name in merged:
                x = merged[give.name]
                real = x.dtype == torch.float64
                self.values[give.name] = x.to(self.dtype) if real else x

    def _matrix(
        self,
        name: str,
        start: int,
        stop: int,
        out: Tensor,
        wanted: Mapping[str, set[str]],
    ) -> None:
        for m in self.matrices:
            if name == f"grad.{m.spec.name}":
                m.give(start, stop, out, wanted[m.spec.name])

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
        merged[give.name].narrow(give.dim, start, stop - start).copy_(out)

    # --- gradients --------------------------------------------------------------------

    def _wanted(self, needs: Sequence[bool]) -> dict[str, set[str]]:
        """Of each matrix, which cotangents lead to something that is needed."""
        operands = zip(self.tiling.operands, needs, strict=False)
        self.needed = needed = {name for name, need in operands if need}
        found = {}
        for m in self.spec.matrices:
            sides = {"left": m.left, "right": m.right, "bias": m.bias}
            found[m.name] = {
                word
                for word, side in sides.items()
                if side is not None and needed & {*side.inputs, *side.params}
            }
        return found

    def _gradients(
        self,
        variant: VariantSpec,
        wanted: Mapping[str, set[str]],
        found: dict[str, Tensor],
    ) -> None:
        """Cotangents of matrices back to the operands, added to what is there."""
        given = {name for name, _ in variant.outputs}
        for m in self.matrices:
            if f"grad.{m.spec.name}" not in given:
                continue
            sides = {"left": m.spec.left, "right": m.spec.right, "bias": m.spec.bias}
            words = sorted(wanted[m.spec.name])
            for word in words:
                side = sides[word]
                assert side is not None
                cotangent = m.finished(word)
                if m.one_value and word == "left":
                    cotangent += m.finished("right")
                elif m.one_value and word == "right":
                    continue
                if not side.back:
                    (name,) = side.inputs
                    _add(found, f"grad.{name}", cotangent)
                    continue
                self.values[side.cotangent] = cotangent
                for group, step in side.back:
                    names = side.params if group == "params" else side.inputs
                    if not self.needed & set(names):
                        continue
                    args = [self.values[t.name] for t in step.takes]
                    for give, out in zip(
                        step.gives, self.call(step, args), strict=True
                    ):
                        _add(found, f"grad.{give.name.rpartition('.')[2]}", out)
                del self.values[side.cotangent]


def _add(found: dict[str, Tensor], name: str, part: Tensor) -> None:
    found[name] = found[name] + part if name in found else part


def _merge(merged: dict[str, Tensor], give: GiveSpec, out: Tensor) -> None:
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


# --- autograd -------------------------------------------------------------------------


def _routed(call: Call, outs: Mapping[str, Tensor]) -> list[Tensor]:
    return [outs[name] for name in call.route.outs if name in outs]


class Tiled(Function):
    """Value and gradient of a plain call, a tile at a time.

    Where the upstream of a row is known beforehand, for 1 of the value, the gradient is
    made with the value; else, and for every backward but the first, the tiles are
    computed again.
    """

    @staticmethod
    def forward(ctx: Any, tiling: Tiling, call: Call, *operands: Tensor) -> Any:
        ctx.tiling, ctx.call = tiling, call
        needs = ctx.needs_input_grad[2:]
        ctx.variant = variant = tiling.variant(needs)
        ctx.kept = None
        scale: Any = None
        if variant is not None and known(call, operands, weights=True):
            scale = _scale(tiling, call, operands, variant)
        if scale is None:
            outs = tiling.run(tiling.variants["value"], operands, call, {})
            value, scale = call.settle(_routed(call, outs))
        else:
            assert variant is not None
            batch = _batch(tiling, call, operands)
            real = compute_dtype(operands[: tiling.inputs])
            seed = torch.full((), scale, dtype=real, device=operands[0].device)
            outs = tiling.run(
                variant, operands, call, {"@rows": seed.expand(batch)}, needs
            )
            ctx.kept = _gradients(call, operands, outs, needs)
            rows = outs["rows"]
            value = call.divided(rows, scale) if tiling.signature.batch else rows
        ctx.shape, ctx.dtype = outs["rows"].shape, outs["rows"].dtype
        ctx.scale = None if isinstance(scale, Tensor) else scale
        extra = (scale,) if isinstance(scale, Tensor) else ()
        ctx.save_for_backward(*operands, value, *extra)
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        tiling: Tiling = ctx.tiling
        call: Call = ctx.call
        saved = ctx.saved_tensors
        count = len(tiling.operands)
        operands = saved[:count]
        if torch.is_grad_enabled():  # under create_graph: the kernels of the whole
            scale = saved[-1] if ctx.scale is None else ctx.scale
            needs = ctx.needs_input_grad[1:]
            steps = call.compiled.steps(needs[1:])
            if steps is None:
                return (None,) * (2 + count)
            found = again(call, steps, operands, grad, scale, ctx.shape, needs)
            return (None, *found)
        if ctx.variant is None:
            return (None,) * (2 + count)
        if ctx.kept is not None:
            grads, ctx.kept = ctx.kept, None
            upstream = grad.item()
            if upstream != 1:
                for g in grads:
                    if g is not None:
                        g.mul_(upstream)
            return (None, None, *grads)
        weighs = any(t.name == "@weight" for s in ctx.variant.steps for t in s.takes)
        scale = saved[-1] if ctx.scale is None else ctx.scale
        rows, *weight = seeds_of(ctx, call, saved[count], scale, grad, weighs)
        seeds = {"@rows": rows}
        if weighs:
            seeds["@weight"] = weight[0]
        needs = ctx.needs_input_grad[2:]
        outs = tiling.run(ctx.variant, operands, call, seeds, needs)
        return (None, None, *_gradients(call, operands, outs, needs))


def _batch(tiling: Tiling, call: Call, operands: Sequence[Tensor]) -> tuple[int, ...]:
    sizes = tiling.sizes(operands, call.sizes)
    return tuple(sizes[a] for a in tiling.signature.batch)


def _scale(
    tiling: Tiling, call: Call, operands: Sequence[Tensor], variant: VariantSpec
) -> float | None:
    """What a row's upstream will be for 1 of the value; None if only the value says."""
    if any(t.name == "@weight" for s in variant.steps for t in s.takes):
        return None
    weight = None
    if call.valid and call.route.weight is not None and not call.whole:
        if "weight" not in tiling.variants:
            return None
        outs = tiling.run(tiling.variants["weight"], operands, call, {})
        weight = outs["weight"]
    return call.divide(prod(_batch(tiling, call, operands)), weight)


def _gradients(
    call: Call,
    operands: Sequence[Tensor],
    outs: Mapping[str, Tensor],
    needs: Sequence[bool],
) -> list[Tensor | None]:
    """One an operand, in its dtype; 0 for one that the loss does not feel."""
    grads: list[Tensor | None] = []
    able = {i for steps in call.compiled.gradients for i in steps.at}
    for i, (name, x) in enumerate(zip(call.compiled.operands, operands, strict=True)):
        if not needs[i] or i not in able:
            grads.append(None)
            continue
        found = outs.get(f"grad.{name}")
        if found is None:
            grads.append(torch.zeros_like(x))
            continue
        grads.append(found.to(x.dtype))
    return grads
