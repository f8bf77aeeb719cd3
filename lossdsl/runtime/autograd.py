"""Two lanes from tensors to a loss with its gradient.

A plain eager call takes `Eager`: kernels called straight, inputs saved, the gradient
kernel in backward. Under create_graph, functorch, forward mode or torch.compile the
same kernels run as ops inside `Value`, `Gradient` and `Second` of `lane.py`, each the
derivative of the one before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function, forward_ad

from lossdsl.runtime.ahead import handed_over, is_ahead, made_ahead
from lossdsl.runtime.binding import compute_dtype
from lossdsl.runtime.call import Call
from lossdsl.runtime.kernels import Steps


def evaluate(call: Call, operands: list[Tensor]) -> tuple[Tensor, ...]:
    """The loss, reduced, and after it the named outputs if `call.aux`."""
    if traced() or call.there is not None:
        return _second_lane(call, operands)
    tiling = call.compiled.tiling
    if tiling is not None:
        tiling.check(operands)
        if not call.aux and tiling.pays(call, operands):
            tiled: tuple[Tensor, ...] = tiling.evaluate(call, operands)
            return tiled
    if torch.is_grad_enabled() and call.compiled.gradients:
        for x in operands:
            if x.requires_grad:
                found = Eager.apply(call, *operands)  # type: ignore[no-untyped-call]
                return found if isinstance(found, tuple) else (found,)
    outs = call.route.run(operands, call.sizes)
    return (call.settle(outs)[0], *[outs[i] for i in call.route.others])


def traced() -> bool:
    """Whether anything but a plain eager call is going on."""
    return (
        torch.compiler.is_compiling()
        or torch._C._is_tracing()
        or forward_ad._current_level >= 0
        or torch._C._are_functorch_transforms_active()
        or torch._C._len_torch_dispatch_stack() > 0
    )


class Eager(Function):
    """Value and gradient of a plain call, straight to the kernels."""

    @staticmethod
    def forward(ctx: Any, call: Call, *operands: Tensor) -> Any:
        ctx.call = call
        ctx.made = ""  # how the gradient has been: "at once", "ahead", or not yet
        steps = ctx.steps = call.compiled.steps(ctx.needs_input_grad[1:])
        if steps is not None and steps.both is not None:
            if is_ahead(call, operands):
                return made_ahead(ctx, call, steps, operands)
            if known(call, operands):
                return _at_once(ctx, call, steps, operands)
        outs = call.route.run(operands, call.sizes)
        value, scale = call.settle(outs)
        rows = outs[call.route.rows]
        ctx.shape, ctx.dtype = rows.shape, rows.dtype
        if isinstance(scale, Tensor):
            ctx.scale = None
            ctx.save_for_backward(*operands, value, scale)
        else:
            ctx.scale = scale
            ctx.save_for_backward(*operands, value)
        if not call.aux:
            return value
        others = tuple([outs[i] for i in call.route.others])
        ctx.mark_non_differentiable(*others)
        return (value, *others)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> Any:
        call: Call = ctx.call
        steps: Steps | None = ctx.steps
        compiled = call.compiled
        count = len(compiled.operands)
        if steps is None:
            return (None,) * (1 + count)
        grad = grad.resolve_neg()
        saved = ctx.saved_tensors
        operands = saved[:count]
        again_ = torch.is_grad_enabled()  # only under create_graph
        if ctx.made == "ahead":
            if not again_ and (grads := handed_over(ctx, saved, call, steps, grad)):
                return (None, *steps.spread(grads))
        elif ctx.made and not again_:
            grads = saved[count + 1 :]
            upstream = grad.item()
            if upstream != 1:
                grads = [x * upstream for x in grads]
            return (None, *steps.spread(grads))
        scale = saved[-1] if ctx.scale is None else ctx.scale
        if again_:
            return again(
                call, steps, operands, grad, scale, ctx.shape, ctx.needs_input_grad
            )
        seeds = seeds_of(ctx, call, saved[count], scale, grad, steps.weighs)
        return (
            None,
            *steps.spread(steps.gradient.run((*operands, *seeds), call.sizes)),
        )


def again(
    call: Call,
    steps: Steps,
    operands: Sequence[Tensor],
    grad: Tensor,
    scale: Tensor | float,
    shape: Sequence[int],
    needs: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    """A backward under create_graph: the gradient as a function of operands."""
    compiled = call.compiled
    params = any(needs[1 + compiled.inputs :])
    family = compiled.full if params else compiled.lean
    weighs = "@weight" in family.seeds
    share = grad.new_zeros(())
    if weighs and call.valid:
        # the denominator is a function of the operands
        value, scale = call.finish(family.value(call.aux, operands, call.sizes))
        share = -(grad * scale) * value
    row = grad if isinstance(scale, float) and scale == 1.0 else grad * scale
    if call.poison is not None:
        row = row * call.poison
    dtype = compute_dtype(operands[: compiled.inputs])
    seeds = [row.to(dtype).expand(shape)]
    if weighs:
        seeds.append(share.to(dtype).expand(shape))
    grads = family.differentiate((*operands, *seeds), call.sizes)
    return (None, *family.spread(grads))


def seeds_of(
    ctx: Any,
    call: Call,
    value: Tensor,
    scale: Tensor | float,
    grad: Tensor,
    weighs: bool,
) -> list[Tensor]:
    """The cotangents of the rows, and with `weighs` of their weights."""
    row = grad if ctx.scale == 1.0 else grad * scale
    if call.poison is not None:
        row = row * call.poison
    seeds = [row.to(ctx.dtype).expand(ctx.shape)]
    if weighs:
        share = -(grad * scale) * value if call.valid else grad.new_zeros(())
        seeds.append(share.to(ctx.dtype).expand(ctx.shape))
    return seeds


def known(call: Call, operands: Sequence[Tensor], weights: bool = False) -> bool:
    """Whether the upstream of a row, for 1 of the value, is known beforehand.

    `weights`: the sum of the weights can be found.
    """
    return (
        not call.aux
        and call.poison is None
        and call.reduction != "none"
        and operands[0].device.type == "cpu"
        and len(call.compiled.extents) == len(call.compiled.signature.batch)
        and not (
            call.valid
            and call.route.weight is not None
            and call.compiled.weight is None
            and not call.whole
            and not weights
        )
    )


def _at_once(ctx: Any, call: Call, steps: Steps, operands: Sequence[Tensor]) -> Tensor:
    """Value and gradient in one visit; backward hands over what is made here."""
    compiled, both = call.compiled, steps.both
    assert both is not None
    weight = None
    if call.valid and compiled.weight is not None and not call.whole:
        (weight,) = compiled.weight.run(operands, call.sizes)
    shape = tuple([operands[place].shape[dim] for place, dim in compiled.extents])
    scale = call.divide(math.prod(shape), weight)
    outs = both.run((*operands, call.seed(scale)), call.sizes)
    value = outs[both.rows]
    ctx.shape, ctx.dtype, ctx.scale, ctx.made = shape, value.dtype, scale, "at once"
    if not scale or math.isnan(scale):  # a mean over nothing
        value = value.new_full((), scale)
    ctx.save_for_backward(*operands, value, *outs[both.first_grad :])
    return value


def _second_lane(call: Call, operands: list[Tensor]) -> tuple[Tensor, ...]:
    compiled = call.compiled
    params = operands[compiled.inputs :]
    family = compiled.lean
    if any(x.requires_grad for x in params) or any(map(_wrapped, params)):
        family = compiled.full
    elif call.free and torch.compiler.is_compiling():
        family = compiled.full  # a transform inside may have hidden what it needs
    outs = family.value(call.aux, operands, call.sizes)
    return (call.finish(outs)[0], *(outs[i] for i in call.route.others))


def _wrapped(x: Tensor) -> bool:
    """Whether a transform looks at x: then it may want a derivative there."""
    if torch.compiler.is_compiling():
        return False
    if torch._C._functorch.is_functorch_wrapped_tensor(x):
        return True
    return (
        forward_ad._current_level >= 0 and forward_ad.unpack_dual(x).tangent is not None  # type: ignore[no-untyped-call]
    )
