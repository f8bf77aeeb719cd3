"""The gradient in the same visit as the value, on a device that nothing waits for.

The forward makes the gradient for an upstream of 1. The first backward multiplies it by
the upstream that came, in place, by a function of the backend that leaves memory alone
where the factor is 1: what the factor is, only the device knows. A later backward
recomputes, since the first one's memory is the caller's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from lossdsl.runtime.call import Call
from lossdsl.runtime.kernels import Steps
from lossdsl.runtime.reduction import share


def is_ahead(call: Call, operands: Sequence[Tensor]) -> bool:
    """Whether the gradient comes with the value: not of float16, where it may vanish
    before the scale of a GradScaler reaches it.
    """
    compiled = call.compiled
    return (
        compiled.rescale is not None
        and not call.aux
        and call.reduction != "none"
        and len(compiled.extents) == len(compiled.signature.batch)
        and all(x.dtype != torch.float16 for x in operands)
        and not (
            call.valid
            and call.route.weight is not None
            and compiled.weight is None
            and not call.whole
        )
    )


def made_ahead(
    ctx: Any, call: Call, steps: Steps, operands: Sequence[Tensor]
) -> Tensor:
    """The value; its gradient is saved."""
    compiled, both = call.compiled, steps.both
    assert both is not None
    weight = None
    if call.valid and compiled.weight is not None and not call.whole:
        (weight,) = compiled.weight.run(operands, call.sizes)
    shape = tuple([operands[place].shape[dim] for place, dim in compiled.extents])
    scale: Tensor | float = 1.0
    if call.reduction == "mean":
        scale = share(
            math.prod(shape), weight, call.denominator, call.empty, operands[0].device
        )
    seed = scale if isinstance(scale, Tensor) else call.seed(scale)
    outs = both.run((*operands, seed), call.sizes)
    value, grads = outs[both.rows], outs[both.first_grad :]
    if isinstance(scale, Tensor):
        value = value + (0 * scale).to(value.dtype)  # a mean over nothing may be NaN
    elif math.isnan(scale):
        value = value.new_full((), scale)
    if call.poison is not None:
        value = value + 0 * call.poison.sum().to(value.dtype)
    ctx.shape, ctx.dtype, ctx.made = shape, value.dtype, "ahead"
    ctx.handed = False
    if isinstance(scale, Tensor):
        ctx.scale = None
        ctx.save_for_backward(*operands, value, *grads, scale)
    else:
        ctx.scale = scale
        ctx.save_for_backward(*operands, value, *grads)
    return value


def handed_over(
    ctx: Any, saved: Sequence[Tensor], call: Call, steps: Steps, grad: Tensor
) -> Sequence[Tensor] | None:
    """The gradients, times the upstream; None if a backward before this has them.

    `saved`: the context's tensors, which checkpointing lets a backward read once.
    """
    if ctx.handed:
        return None
    ctx.handed = True
    compiled = call.compiled
    first = len(compiled.operands) + 1
    grads = saved[first : first + len(steps.at)]
    for at, x in zip(steps.at, grads, strict=True):
        compiled.rescale(x, _factor(call, at, grad))
    return grads


def _factor(call: Call, at: int, grad: Tensor) -> Tensor:
    """What the gradient by an operand is multiplied by: of as many dimensions, or 0."""
    bad = call.poison
    if bad is None:
        return grad
    signature = call.compiled.signature
    specs = [s.axes for s in signature.inputs] + [s.axes for s in signature.params]
    axes = specs[at]
    if not set(signature.batch) <= set(axes):  # a sum over rows
        return grad * (1 + 0 * bad.sum())
    places = [signature.batch.index(a) for a in axes if a in signature.batch]
    rows = bad.permute(places)
    for dim, axis in enumerate(axes):
        if axis not in signature.batch:
            rows = rows.unsqueeze(dim)
    return grad * rows
