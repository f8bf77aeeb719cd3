"""Two lanes from tensors to a loss with its gradient.

A plain eager call takes `Eager`: kernels called straight, inputs saved, the gradient
kernel in backward. Under create_graph, functorch, forward mode or torch.compile the
same kernels run as ops inside `Value`, `Gradient` and `Second` of `lane.py`, each the
derivative of the one before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function, forward_ad

from lossdsl.runtime.lane import Family, Route
from lossdsl.runtime.ops import Program
from lossdsl.runtime.reduction import Denominator, reduce
from lossdsl.runtime.signature import Kernel, Signature


class Compiled:
    """The kernels of a generated module with what is derived from them once.

    Operands are the inputs and params of the signature, in that order. Where there are
    kernels "gradient_params" and "second_params", these give derivatives of params too,
    and "gradient" and "second" treat params as constants.
    """

    def __init__(
        self, signature: Signature, kernels: Mapping[str, Kernel], identity: str
    ) -> None:
        self.signature = signature
        self.operands = [s.name for s in signature.inputs]
        self.operands += [s.name for s in signature.params]
        self.inputs = len(signature.inputs)
        self.indexed = any(s.kind.startswith("index ") for s in signature.inputs)
        self.programs = programs = {
            name: Program(signature, name, function, identity)
            for name, function in kernels.items()
        }
        missing = "no further derivative of this loss is derived"
        if signature.second_missing:
            missing += f": {signature.second_missing}"
        key = f"{signature.name}_{identity}"
        self.value = Route(programs["value"], self.operands)
        self.aux = Route(programs.get("aux", programs["value"]), self.operands)
        values = (self.value, self.aux)
        full = "_params" if "gradient_params" in programs else ""
        for name, program in programs.items():
            kind, _, suffix = name.partition("_")
            after = f"gradient{full}"
            if kind == "gradient":
                after = f"second_{suffix}" if suffix else "second"
            program.register(None if kind == "second" else programs.get(after), missing)
        count = len(signature.sizes)
        self.lean = Family(key, self.operands, programs, "", values, count, missing)
        self.full = self.lean
        if "gradient_params" in kernels:
            self.full = Family(
                f"{key}_params",
                self.operands,
                programs,
                "_params",
                values,
                count,
                missing,
            )


@dataclass(frozen=True, slots=True)
class Call:
    """All of one call but its operands."""

    compiled: Compiled
    sizes: tuple[int, ...]
    reduction: str
    denominator: Denominator
    empty: str
    aux: bool
    free: bool  # params came with the call
    poison: Tensor | None  # NaN in rows that index outside their axis

    def route(self) -> Route:
        """The program of the value, with the named outputs if they are asked for."""
        return self.compiled.aux if self.aux else self.compiled.value

    def finish(
        self, route: Route, outs: Sequence[Tensor]
    ) -> tuple[Tensor, Tensor | float]:
        """Reduce the rows: the value, and d(value)/d(row)."""
        rows, weight = outs[route.rows], None
        if route.weight is not None:
            weight = outs[route.weight]
        if self.poison is not None:
            rows = rows * self.poison
        if not self.compiled.signature.batch:
            return rows, 1.0
        return reduce(rows, weight, self.reduction, self.denominator, self.empty)

    @property
    def weighs(self) -> bool:
        """Whether the value depends on the weights by its denominator."""
        return (
            self.reduction == "mean"
            and isinstance(self.denominator, str)
            and (self.denominator == "valid")
        )


def evaluate(call: Call, operands: list[Tensor]) -> tuple[Tensor, ...]:
    """The loss, reduced, and after it the named outputs if `call.aux`."""
    if traced():
        return _second_lane(call, operands)
    if torch.is_grad_enabled():
        for x in operands:
            if x.requires_grad:
                if (
                    call.compiled.lean.gradient is None
                    and call.compiled.full.gradient is None
                ):
                    break
                outs = Eager.apply(call, *operands)  # type: ignore[no-untyped-call]
                return outs if isinstance(outs, tuple) else (outs,)
    route = call.route()
    outs = route.run(operands, call.sizes)
    return (call.finish(route, outs)[0], *(outs[i] for i in route.others))


def traced() -> bool:
    """Whether anything but a plain eager call is going on."""
    return (
        torch.compiler.is_compiling()
        or forward_ad._current_level >= 0
        or torch._C._are_functorch_transforms_active()
        or torch._C._len_torch_dispatch_stack() > 0
    )


class Eager(Function):
    """Value and gradient of a plain call, straight to the kernels."""

    @staticmethod
    def forward(ctx: Any, call: Call, *operands: Tensor) -> Any:
        route = call.route()
        outs = route.run(operands, call.sizes)
        value, scale = call.finish(route, outs)
        rows = outs[route.rows]
        ctx.call, ctx.shape, ctx.dtype = call, rows.shape, rows.dtype
        ctx.scale = None if isinstance(scale, Tensor) else scale
        ctx.save_for_backward(
            *operands, value, *((scale,) if isinstance(scale, Tensor) else ())
        )
        if not route.others:
            return value
        others = tuple(outs[i] for i in route.others)
        ctx.mark_non_differentiable(*others)
        return (value, *others)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> Any:
        call: Call = ctx.call
        compiled = call.compiled
        count = len(compiled.operands)
        operands = ctx.saved_tensors[:count]
        value = ctx.saved_tensors[count]
        scale = ctx.saved_tensors[-1] if ctx.scale is None else ctx.scale
        free = any(ctx.needs_input_grad[1 + compiled.inputs :])
        family = compiled.full if free else compiled.lean
        if family.gradient is None:
            return (None,) * (1 + count)
        again = torch.is_grad_enabled()  # only under create_graph
        if again and call.weighs and "@weight" in family.seeds:
            # the denominator is a function of the operands
            outs = family.value(call.aux, operands, call.sizes)
            value, scale = call.finish(call.route(), outs)
        row = grad if ctx.scale == 1.0 else grad * scale
        if call.poison is not None:
            row = row * call.poison
        seeds = [row.to(ctx.dtype).expand(ctx.shape)]
        if "@weight" in family.seeds:
            share = -(grad * scale) * value if call.weighs else grad.new_zeros(())
            seeds.append(share.to(ctx.dtype).expand(ctx.shape))
        if again:
            grads = family.differentiate((*operands, *seeds), call.sizes)
        else:
            grads = family.gradient.run((*operands, *seeds), call.sizes)
        return (None, *family.spread(grads))


def _second_lane(call: Call, operands: list[Tensor]) -> tuple[Tensor, ...]:
    compiled = call.compiled
    params = operands[compiled.inputs :]
    family = compiled.lean
    if any(x.requires_grad for x in params) or any(map(_wrapped, params)):
        family = compiled.full
    elif call.free and torch.compiler.is_compiling():
        family = compiled.full  # a transform inside may have hidden what it needs
    outs = family.value(call.aux, operands, call.sizes)
    route = call.route()
    return (call.finish(route, outs)[0], *(outs[i] for i in route.others))


def _wrapped(x: Tensor) -> bool:
    """Whether a transform looks at x: then it may want a derivative there."""
    if torch.compiler.is_compiling():
        return False
    if torch._C._functorch.is_functorch_wrapped_tensor(x):
        return True
    return (
        forward_ad._current_level >= 0 and forward_ad.unpack_dual(x).tangent is not None  # type: ignore[no-untyped-call]
    )
