"""Losses whose matrix is never whole: which tiles, and their place in autograd."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from lossdsl.runtime.autograd import again, known, seeds_of
from lossdsl.runtime.binding import compute_dtype
from lossdsl.runtime.call import Call
from lossdsl.runtime.precise import doubled
from lossdsl.runtime.signature import KernelFunction, Signature
from lossdsl.runtime.tilerun import Run
from lossdsl.runtime.tilesizes import Sizes
from lossdsl.runtime.tilespec import TilingSpec, VariantSpec

FEW_ENTRIES = (
    4096  # entries of a matrix up to which the kernels of the whole are quicker
)


class Tiling:
    """The tiles of a loss: its spec, and the functions of its module.

    `across`: tiles along the other axis of the same matrix, for what has few rows.
    """

    def __init__(
        self,
        signature: Signature,
        spec: TilingSpec,
        functions: Mapping[str, KernelFunction],
        across: Tiling | None = None,
    ) -> None:
        self.signature = signature
        self.spec = spec
        self.across = across
        self.sizes = Sizes(signature, spec, functions)
        self.operands, self.inputs = self.sizes.operands, self.sizes.inputs
        self.variants = {v.name: v for v in spec.variants}
        self.hung = [  # the operands that each matrix hangs on
            {n for x in (m.left, m.right, m.bias) if x for n in (*x.inputs, *x.params)}
            for m in spec.matrices
        ]
        sides = [x for m in spec.matrices for x in (m.left, m.right)]
        lists = dict.fromkeys(x for side in sides for x in side.lists)
        self.lists = [(name, self.operands.index(name)) for name in lists]

    def pays(self, call: Call, operands: Sequence[Tensor]) -> bool:
        """Whether tiles are worth it: not for a matrix of a few pages of memory."""
        sizes = self.sizes.extents(operands, call.sizes)
        entries = sizes[self.spec.axis] * self.sizes.per_row(sizes)
        return entries > FEW_ENTRIES or 8 * entries * self.sizes.arrays > call.memory

    def cheapest(self, call: Call, operands: Sequence[Tensor]) -> Tiling:
        """Of the ways to take tiles, the one for these operands."""
        if self.across is None:
            return self
        itemsize = compute_dtype(operands[: self.inputs]).itemsize
        extents = self.sizes.extents(operands, call.sizes)
        extents = {**self.across.sizes.extents(operands, call.sizes), **extents}
        return self.cheapest_at(extents, call.memory, itemsize)

    def cheapest_at(
        self, extents: Mapping[str, int], memory: int, itemsize: int
    ) -> Tiling:
        """The way that costs less at these sizes; one whose factors don't fit into the
        cap by themselves, or a row of whose matrix doesn't, only if none does."""
        prices: list[tuple[bool, float, Tiling]] = []
        for way in filter(None, (self, self.across)):
            if way.sizes.least(extents, itemsize) <= memory:
                rows = way.sizes.rows(extents, memory, itemsize)
                large = way.sizes.held(extents, itemsize) > memory
                prices.append((large, way.sizes.cost(extents, rows, itemsize), way))
        return min(prices, key=lambda p: p[:2])[2] if prices else self

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
        felt = [i for i, names in enumerate(self.hung) if wanted & names]
        if len(felt) == 1 and wanted <= self.hung[felt[0]] - most:
            alone = self.variants.get(f"matrix{felt[0]}")
            if alone is not None:
                return alone
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

    def evaluate(self, call: Call, operands: list[Tensor]) -> tuple[Tensor, ...]:
        """The reduced loss of a plain call, with its gradient if one is wanted."""
        way = self.cheapest(call, operands)
        if torch.is_grad_enabled() and any(x.requires_grad for x in operands):
            return (Tiled.apply(way, call, *operands),)  # type: ignore[no-untyped-call]
        outs = way.run(way.variants["value"], operands, call, {})
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
        if not self.signature.precise:
            return Run(self.sizes, operands, call, seeds).run(variant, needs)
        dtype = compute_dtype(operands[: self.inputs])
        wide = {name: x.double() for name, x in seeds.items()}
        outs = Run(self.sizes, doubled(operands), call, wide).run(variant, needs)
        return {
            name: x
            if name.startswith("grad.") or x.dtype != torch.float64
            else x.to(dtype)
            for name, x in outs.items()
        }


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
        grad = grad.resolve_neg()
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
    sizes = tiling.sizes.extents(operands, call.sizes)
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
