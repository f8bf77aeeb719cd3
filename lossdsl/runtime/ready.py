"""The calls of a training step, one like the other: found by what their tensors are.

A loop calls a loss with tensors of the same few shapes. The first call of a kind is
looked at in full, and what it comes to is kept: which kernel, its packed arguments, how
far indices may go. Anything out of the ordinary (a trace, an ignored or a wrong index,
a default to fill) is left to `calling.call`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from lossdsl.runtime.autograd import Call, again, known
from lossdsl.runtime.calling import shared
from lossdsl.runtime.kernels import Compiled, Steps
from lossdsl.runtime.quick import bind_quickly, within

MANY = 64  # kinds of calls that are kept
PLAIN = (Tensor, torch.nn.Parameter)

Kind = tuple[tuple[Any, ...], ...]
StepOf = Callable[[Sequence[Tensor]], Sequence[Tensor]]


class Ready:
    """The calls of one module, while its options and params stay."""

    __slots__ = ("compiled", "kinds", "options", "params")

    def __init__(
        self,
        compiled: Compiled,
        params: Sequence[Tensor],
        options: tuple[str, Any, str],
    ) -> None:
        self.compiled = compiled
        self.params = tuple(params)
        self.options = options
        self.kinds: dict[Kind, Kept | None] = {}

    def __call__(self, inputs: Sequence[Any]) -> Tensor | None:
        """The loss with its gradient made; None for a call that is not of this kind."""
        try:
            kind = tuple(
                [
                    (type(x), x.shape, x.stride(), x.dtype, x.is_cpu, x.requires_grad)
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
        found = bind_quickly(compiled.quick, inputs)
        if found is None or not isinstance(denominator, str):
            return None
        skips = compiled.skip is not None and params[compiled.skip].item() >= 0
        if compiled.tiling is not None:  # which may want the rows a tile at a time
            return None
        if skips or not (signature.counted or compiled.value.weight is None):
            return None
        call = shared(compiled, reduction, denominator, empty, signature.counted)
        operands = (*inputs, *params)
        steps = compiled.steps(tuple(x.requires_grad for x in operands))
        if steps is None or steps.both is None or not known(call, operands):
            return None
        return kept_of(call, steps, operands, found[1])


class Kept:
    """One kind of call. `run` gives value and gradients from operands."""

    __slots__ = ("call", "count", "indices", "run", "scale", "shape", "steps")

    def __init__(
        self,
        call: Call,
        steps: Steps,
        run: StepOf,
        indices: Sequence[tuple[int, int]],
        shape: tuple[int, ...],
        scale: float,
    ) -> None:
        self.call = call
        self.steps = steps
        self.run = run
        self.indices = tuple(indices)
        self.shape = shape
        self.scale = scale
        self.count = len(call.compiled.operands)


def kept_of(
    call: Call, steps: Steps, operands: Sequence[Tensor], sizes: dict[str, int]
) -> Kept | None:
    """What is kept of a call; None if the backend prepares no kernels."""
    compiled, both = call.compiled, steps.both
    assert both is not None
    prepare = getattr(both.program.function, "prepare", None)
    shape = tuple([operands[place].shape[dim] for place, dim in compiled.extents])
    scale = call.divide(math.prod(shape), None)
    if (
        prepare is None
        or not scale
        or math.isnan(scale)
        or both.rows
        or both.first_grad != 1
    ):
        return None
    seed = call.seed(scale)
    run = prepare(*[(*operands, seed)[i] for i in both.picks])
    if run is None:
        return None
    picks = both.picks

    def step(given: Sequence[Tensor]) -> Sequence[Tensor]:
        every = (*given, seed)
        found: Sequence[Tensor] = run([every[i] for i in picks])
        return found

    indices = [
        (i, sizes[q.target])
        for i, q in enumerate(compiled.quick)
        if q.target is not None and q.target in sizes
    ]
    return Kept(call, steps, step, indices, shape, scale)


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
