"""The calls of a training step, one like the other: found by what their tensors are.

A loop calls a loss with tensors of the same few shapes. The first call of a kind is
looked at in full, and what it comes to is kept: which kernel, its packed arguments, how
far indices may go. Anything out of the ordinary (a trace, an ignored or a wrong index,
a default to fill) is left to `calling.call`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from lossdsl.runtime.autograd import again, known
from lossdsl.runtime.call import Call
from lossdsl.runtime.calling import call, shared
from lossdsl.runtime.images import Images, StepOf, by_images, images_of
from lossdsl.runtime.kernels import Compiled, Steps
from lossdsl.runtime.quick import bind_quickly, within

MANY = 64  # kinds of calls that are kept
PLAIN = (Tensor, torch.nn.Parameter)

Kind = tuple[tuple[Any, ...], ...]


class Ready:
    """The calls of one module, while its options and params stay."""

    __slots__ = ("compiled", "images", "kinds", "options", "params")

    def __init__(
        self,
        compiled: Compiled,
        params: Sequence[Tensor],
        options: tuple[str, Any, str],
        images: bool,
    ) -> None:
        self.compiled = compiled
        self.images = images  # further dimensions stand behind the classes
        self.params = tuple(params)
        self.options = options
        self.kinds: dict[Kind, Kept | None] = {}

    def __call__(self, inputs: Sequence[Any]) -> Tensor | None:
        """The loss with its gradient made; None for a call that is not of this kind."""
        try:
            kind = tuple(
                [
                    (
                        type(x),
                        x.shape,
                        x.stride(),
                        x.dtype,
                        x.is_cpu,
                        x.requires_grad,
                        x.is_neg(),
                    )
                    for x in inputs
                ]
            )
        except (AttributeError, RuntimeError):  # no tensor, or one without strides
            return None
        kept = self.kinds.get(kind)
        if kept is None:
            if kind not in self.kinds:
                if len(self.kinds) >= MANY:
                    self.kinds.clear()
                kept = self.kinds[kind] = self._look(inputs)
            if kept is None:
                return None
        for place, size in kept.indices:
            if not within(inputs[place], size):
                return None
        value: Tensor = Step.apply(kept, *inputs, *self.params)  # type: ignore[no-untyped-call]
        return value

    def _look(self, inputs: Sequence[Any]) -> Kept | None:
        compiled, params = self.compiled, self.params
        reduction, denominator, empty = self.options
        signature = compiled.signature
        if not all(type(x) in PLAIN for x in inputs) or signature.sizes:
            return None
        images = images_of(signature, inputs) if self.images else None
        views = inputs if images is None else images.views(inputs, 0)
        found = bind_quickly(compiled.quick, views)
        if found is None or not isinstance(denominator, str):
            return None
        if not compiled.fits(found[1], params):
            return None
        skips = compiled.skip is not None and params[compiled.skip].item() >= 0
        if compiled.tiling is not None:  # which may want the rows a tile at a time
            return None
        if skips or not (signature.counted or compiled.value.weight is None):
            return None
        how = shared(compiled, reduction, denominator, empty, signature.counted)
        operands = (*inputs, *params)
        steps = compiled.steps(tuple([x.requires_grad for x in operands]))
        if steps is None or steps.both is None or not known(how, operands):
            return None
        return kept_of(how, steps, operands, found[1], images)


class Kept:
    """One kind of call. `run` gives value and gradients from operands."""

    __slots__ = (
        "call",
        "count",
        "images",
        "indices",
        "run",
        "scale",
        "shape",
        "steps",
    )

    def __init__(
        self,
        call: Call,
        steps: Steps,
        run: StepOf,
        indices: Sequence[tuple[int, int]],
        shape: tuple[int, ...],
        scale: float,
        images: bool,
    ) -> None:
        self.images = images
        self.call = call
        self.steps = steps
        self.run = run
        self.indices = tuple(indices)
        self.shape = shape
        self.scale = scale
        self.count = len(call.compiled.operands)


def kept_of(
    call: Call,
    steps: Steps,
    operands: Sequence[Tensor],
    sizes: dict[str, int],
    images: Images | None,
) -> Kept | None:
    """What is kept of a call; None if the backend prepares no kernels."""
    compiled, both = call.compiled, steps.both
    assert both is not None
    function, picks = both.program.function, both.picks
    prepare = getattr(function, "prepare", None)
    shape = tuple([operands[place].shape[dim] for place, dim in compiled.extents])
    if images is not None:
        if not all(i < len(images.along) and images.along[i] for i in steps.at):
            return None  # what all images share would have a sum over them
        shape = (images.rows,)
    scale = call.divide(math.prod(shape), None)
    nothing = not scale or math.isnan(scale)
    if prepare is None or nothing or both.rows or both.first_grad != 1:
        return None
    seed = call.seed(scale)
    views = operands if images is None else images.views(operands, 0)
    run: StepOf = prepare(*[(*views, seed)[i] for i in picks])
    step = whole(run, picks, seed)
    if images is not None:
        fresh = function.__dict__["fresh"]
        step = by_images(images, run, fresh, picks, steps.at, seed)
    indices = [
        (i, sizes[q.target])
        for i, q in enumerate(compiled.quick)
        if q.target is not None and q.target in sizes
    ]
    return Kept(call, steps, step, indices, shape, scale, images is not None)


def whole(run: StepOf, picks: Sequence[int], seed: Tensor) -> StepOf:
    """A step over operands from one over a program's arguments."""

    def step(given: Sequence[Tensor]) -> Sequence[Tensor]:
        every = (*given, seed)
        return run([every[i] for i in picks])

    return step


class Step(Function):
    """Value and gradient in one visit, of a kind of call that is known."""

    @staticmethod
    def forward(ctx: Any, kept: Kept, *operands: Tensor) -> Tensor:
        outs = kept.run(operands)
        ctx.kept = kept
        ctx.save_for_backward(*operands, *outs[1:])
        return outs[0]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        kept: Kept = ctx.kept
        saved = ctx.saved_tensors
        if torch.is_grad_enabled():  # only under create_graph
            if kept.images:
                return _by_folding(kept, saved[: kept.count], grad)
            return again(
                kept.call,
                kept.steps,
                saved[: kept.count],
                grad,
                kept.scale,
                kept.shape,
                ctx.needs_input_grad,
            )
        upstream = grad.item()
        grads = saved[kept.count :]
        if upstream != 1:
            grads = [x * upstream for x in grads]
        result: list[Tensor | None] = [None] * (1 + kept.count)
        for at, x in zip(kept.steps.at, grads, strict=True):
            result[1 + at] = x
        return tuple(result)


def _by_folding(kept: Kept, operands: Sequence[Tensor], grad: Tensor) -> Any:
    """A backward under create_graph: through the call that folds dimensions."""
    how, inputs = kept.call, kept.call.compiled.inputs
    value = call(
        how.compiled,
        operands[:inputs],
        operands[inputs:],
        reduction=how.reduction,
        denominator=how.denominator,
        empty=how.empty,
    )
    wanted = [operands[at] for at in kept.steps.at]
    grads = torch.autograd.grad(value, wanted, grad, create_graph=True)
    result: list[Tensor | None] = [None] * (1 + kept.count)
    for at, x in zip(kept.steps.at, grads, strict=True):
        result[1 + at] = x
    return tuple(result)
