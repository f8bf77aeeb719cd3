"""The second lane: ops within Functions that are each other's derivatives.

With rows r(x) of operands x, seeds s and J = dr/dx:

    Value     x -> r           backward: Gradient(x, s)           jvp: J·t
    Gradient  x, s -> Jᵀ·s     backward: Second(x, s, cotangent)  jvp: H·t + Jᵀ·ṡ
    Second    x, s, t -> (derivative of sᵀ·J·t by x and by s) = (H·t, J·t)

so that forward mode needs no kernel of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from lossdsl.runtime.ops import Program

# Functions take the key of a family and not the family: torch.compile traces constants.
FAMILIES: dict[str, Family] = {}


class Route:
    """A program, and where its arguments stand among operands, seeds and cotangents."""

    def __init__(self, program: Program, names: Sequence[str]) -> None:
        self.program = program
        places = {name: i for i, name in enumerate(names)}
        self.picks = tuple(places[arg] for arg in program.spec.args)
        self.straight = self.picks == tuple(range(len(names)))
        self.outs = outs = tuple(out for out, _, _ in program.spec.outs)
        self.rows = outs.index("rows") if "rows" in outs else 0
        self.weight = outs.index("weight") if "weight" in outs else None
        self.first_grad = sum(not out.startswith("grad.") for out in outs)
        self.others = tuple(i for i, out in enumerate(outs) if out.startswith("aux."))

    def run(
        self, tensors: Sequence[Tensor], sizes: Sequence[int]
    ) -> tuple[Tensor, ...]:
        """Call the kernel."""
        if not self.straight:
            tensors = [tensors[i] for i in self.picks]
        return self.program(*tensors, sizes=sizes)

    def through(
        self, tensors: Sequence[Tensor], sizes: Sequence[int]
    ) -> tuple[Tensor, ...]:
        """Call the op."""
        return self.program.through(*(tensors[i] for i in self.picks), sizes=sizes)


class Family:
    """Value, gradient and second derivative, for one choice of what has a gradient.

    Tensors come as operands, then seeds, then cotangents of the gradients; `count`
    sizes of axes come before them.
    """

    gradient: Route | None = None
    second: Route | None = None
    seeds: tuple[str, ...] = ()

    def __init__(
        self,
        key: str,
        operands: Sequence[str],
        programs: Mapping[str, Program],
        suffix: str,
        values: tuple[Route, Route],
        count: int,
        missing: str,
    ) -> None:
        self.key = key
        self.operands = operands
        self.values = values
        self.count = count
        self.missing = missing
        gradient = programs.get(f"gradient{suffix}")
        if gradient is None:
            return
        second = programs.get(f"second{suffix}")
        used = {"@rows", *gradient.spec.args, *(second.spec.args if second else ())}
        self.seeds = tuple(s for s in ("@rows", "@weight") if s in used)
        self.gradient = Route(gradient, [*operands, *self.seeds])
        outs = self.gradient.outs
        self.at = tuple(operands.index(out.removeprefix("grad.")) for out in outs)
        if second is not None:
            cotangents = [f"@{out}" for out in outs]
            self.second = Route(second, [*operands, *self.seeds, *cotangents])
        self.seeded = tuple(
            tuple(f"@{out}" in self.seeds for out in route.outs) for route in values
        )
        FAMILIES[key] = self

    def value(
        self, aux: bool, operands: Sequence[Tensor], sizes: Sequence[int]
    ) -> tuple[Tensor, ...]:
        """The outputs of the value program, differentiable."""
        if self.gradient is None:
            return self.values[aux].through(operands, sizes)
        outs: tuple[Tensor, ...]
        if torch.compiler.is_compiling():
            if not (torch.is_grad_enabled() and any(x.requires_grad for x in operands)):
                return self.values[aux].through(operands, sizes)
            outs = Value.apply(self.key, aux, *sizes, *operands)  # type: ignore[no-untyped-call]
        else:
            outs = DualValue.apply(self.key, aux, *sizes, *operands)  # type: ignore[no-untyped-call]
        return outs

    def differentiate(
        self, tensors: Sequence[Tensor], sizes: Sequence[int]
    ) -> tuple[Tensor, ...]:
        """The outputs of the gradient program at operands and seeds, differentiable."""
        assert self.gradient is not None
        if torch.compiler.is_compiling():  # which traces no Function in a backward
            return self.gradient.through(tensors, sizes)
        grads: tuple[Tensor, ...] = Gradient.apply(self.key, *sizes, *tensors)  # type: ignore[no-untyped-call]
        return grads

    def curve(
        self, tensors: Sequence[Tensor], sizes: Sequence[int]
    ) -> dict[str, Tensor]:
        """The outputs of the second program at operands, seeds and cotangents."""
        if self.second is None:
            raise NotImplementedError(self.missing)
        if torch.compiler.is_compiling():
            outs = self.second.through(tensors, sizes)
        else:
            outs = Second.apply(self.key, *sizes, *tensors)  # type: ignore[no-untyped-call]
        names = [out.removeprefix("second.") for out in self.second.outs]
        return dict(zip(names, outs, strict=True))

    def spread(self, grads: Sequence[Tensor]) -> list[Tensor | None]:
        """Gradients, one an operand."""
        result: list[Tensor | None] = [None] * len(self.operands)
        for at, grad in zip(self.at, grads, strict=True):
            result[at] = grad
        return result

    def cotangents(
        self, operands: Sequence[Tensor], tangents: Sequence[Tensor | None]
    ) -> list[Tensor]:
        """Tangents of what is differentiated: zero where there is none."""
        moved = [(operands[i], tangents[i]) for i in self.at]
        return [torch.zeros_like(x) if t is None else t for x, t in moved]


class Value(Function):
    """The outputs of the value program, as a function of the operands."""

    generate_vmap_rule = True

    @staticmethod
    def forward(key: str, aux: bool, *args: Any) -> Any:
        family = FAMILIES[key]
        count = family.count
        return family.values[aux].through(args[count:], args[:count])

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        key, aux, *args = inputs
        family = FAMILIES[key]
        ctx.key, ctx.aux, ctx.sizes = key, aux, args[: family.count]
        kept = (*args[family.count :], *output)
        ctx.save_for_backward(*kept)  # the same in both: vmap remembers the last alone
        ctx.save_for_forward(*kept)
        ctx.mark_non_differentiable(
            *[x for x, s in zip(output, family.seeded[aux], strict=True) if not s]
        )

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        family = FAMILIES[ctx.key]
        seeded = family.seeded[ctx.aux]
        seeds = [g for g, s in zip(grads, seeded, strict=True) if s]
        operands = ctx.saved_tensors[: len(family.operands)]
        found = family.differentiate((*operands, *seeds), ctx.sizes)
        return (None, None, *[None for _ in ctx.sizes], *family.spread(found))


class DualValue(Value):
    """With a rule for forward mode, which torch.compile does not trace."""

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        family = FAMILIES[ctx.key]
        seeded, route = family.seeded[ctx.aux], family.values[ctx.aux]
        total = len(family.operands)
        saved = ctx.saved_tensors
        operands, outs = saved[:total], saved[total:]
        moved = family.cotangents(operands, tangents[-total:])
        seeds = [torch.ones_like(x) for x, s in zip(outs, seeded, strict=True) if s]
        tensors = (*operands, *seeds)
        if family.second is None and not outs[route.rows].dim():
            found = family.differentiate(tensors, ctx.sizes)
            parts = [(g * t).sum() for g, t in zip(found, moved, strict=True)]
            rows = torch.stack(parts).sum().to(outs[route.rows].dtype)
            return tuple(rows if s else None for s in seeded)
        curve = family.curve((*tensors, *moved), ctx.sizes)
        return tuple(
            curve.get(f"@{out}", torch.zeros_like(x)) if s else None
            for out, x, s in zip(route.outs, outs, seeded, strict=True)
        )


class Gradient(Function):
    """The outputs of the gradient program, as a function of operands and seeds."""

    generate_vmap_rule = True

    @staticmethod
    def forward(key: str, *args: Any) -> Any:
        family = FAMILIES[key]
        assert family.gradient is not None
        return family.gradient.through(args[family.count :], args[: family.count])

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        key, *args = inputs
        count = FAMILIES[key].count
        ctx.key, ctx.sizes = key, args[:count]
        ctx.save_for_backward(*args[count:])
        ctx.save_for_forward(*args[count:])

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> Any:
        family = FAMILIES[ctx.key]
        curve = family.curve((*ctx.saved_tensors, *cotangents), ctx.sizes)
        found = [curve.get(name) for name in (*family.operands, *family.seeds)]
        return (None, *[None for _ in ctx.sizes], *found)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        family = FAMILIES[ctx.key]
        saved, total = ctx.saved_tensors, len(family.operands)
        operands, seeds = saved[:total], saved[total:]
        moving = tangents[1 + len(ctx.sizes) :]
        moved = family.cotangents(operands, moving[:total])
        curve = family.curve((*saved, *moved), ctx.sizes)
        shifts = [
            torch.zeros_like(s) if t is None else t
            for s, t in zip(seeds, moving[total:], strict=True)
        ]
        turned = family.differentiate((*operands, *shifts), ctx.sizes)
        return tuple(
            g + curve[family.operands[at]] if family.operands[at] in curve else g
            for at, g in zip(family.at, turned, strict=True)
        )


class Second(Function):
    """The outputs of the second program: the end of the line."""

    generate_vmap_rule = True

    @staticmethod
    def forward(key: str, *args: Any) -> Any:
        family = FAMILIES[key]
        assert family.second is not None
        return family.second.through(args[family.count :], args[: family.count])

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> Any:
        raise NotImplementedError("third derivatives of a loss are not derived")

    @staticmethod
    def jvp(ctx: Any, *_: Any) -> Any:
        raise NotImplementedError("third derivatives of a loss are not derived")
