"""A gradient written over the input that it is of: no more memory, the input gone.

Autograd is told: what had saved the input for its own backward raises there, and so
does the backward of what reads the input afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from lossdsl.runtime.autograd import known, traced
from lossdsl.runtime.binding import bind
from lossdsl.runtime.call import Call
from lossdsl.runtime.images import images_of
from lossdsl.runtime.kernels import Compiled, Steps
from lossdsl.runtime.lane import Route
from lossdsl.runtime.values import check_indices, check_values, kept_rows

Pieces = Sequence[Sequence[Tensor]]  # operands of each kernel call


def overwritten(route: Route) -> dict[int, int]:
    """Which operands a program's results may lie in, by the places of the results."""
    over: Mapping[int, int] = getattr(route.program.function, "over", {})
    return {out: route.picks[arg] for out, arg in over.items()}


def overwrite(
    compiled: Compiled,
    inputs: Sequence[Any],
    params: Sequence[Tensor],
    how: Call,
    class_dim: int,
    check: bool = False,
) -> Tensor | None:
    """The loss, with the inputs that have a gradient overwritten by it.

    None where no gradient is wanted. Raises ValueError where it can't be right, with
    the inputs as they were.
    """
    _refuse_traces(compiled)
    operands = [*inputs, *params]
    needs = tuple(isinstance(x, Tensor) and x.requires_grad for x in operands)
    needs += (False,) * len(compiled.computed)
    if not torch.is_grad_enabled() or not any(needs):
        return None
    steps = compiled.steps(needs)
    over = {} if steps is None or steps.both is None else overwritten(steps.both)
    places = _places(compiled, steps, over)
    assert steps is not None
    for at in places:
        _check_memory(compiled, inputs, at)
    pieces = _pieces(compiled, inputs, params, how, class_dim, places, steps, check)
    originals = [inputs[at] for at in places]
    outs = Overwriting.apply(  # type: ignore[no-untyped-call]
        how, steps, pieces, tuple(places), *originals, *pieces[0]
    )
    value: Tensor = outs[0]
    return value


def _no(compiled: Compiled, why: str) -> ValueError:
    return ValueError(f"{compiled.signature.name}: inplace=True, but {why}")


def _places(
    compiled: Compiled, steps: Steps | None, over: Mapping[int, int]
) -> list[int]:
    """The operands that are overwritten: all whose gradient is larger than the rows."""
    if steps is None or steps.both is None:
        raise _no(compiled, "its gradient is not made together with its value")
    signature = compiled.signature
    for at in steps.at:
        spec = signature.inputs[at] if at < compiled.inputs else None
        large = spec is not None and len(spec.axes) > len(signature.batch)
        if spec is not None and large and at not in over.values():
            raise _no(
                compiled,
                f"{spec.name} is read again when its gradient has been written"
                if over
                else f"the gradient of {spec.name} can't lie in its memory",
            )
    found = [
        at
        for at in over.values()
        if len(signature.inputs[at].axes) > len(signature.batch)
    ]
    if not found:
        raise _no(compiled, "no gradient can lie in the memory of an input")
    return found


def _check_memory(compiled: Compiled, inputs: Sequence[Any], at: int) -> None:
    """ValueError unless this input's memory is its alone, and its values may go."""
    x, name = inputs[at], compiled.signature.inputs[at].name
    if x.is_leaf:
        raise _no(
            compiled,
            f"{name} is a leaf that requires grad (a parameter, as a rule), and its "
            "values would be lost: pass what is computed from it",
        )
    if x._is_view():
        raise _no(
            compiled,
            f"{name} is a view of another tensor: pass that one, with class_dim=-1 "
            "where the classes are its last dimension, or a clone",
        )
    steps = sorted((s, n) for n, s in zip(x.shape, x.stride(), strict=True) if n > 1)
    reach = 1
    for step, size in steps:
        if step < reach:
            raise _no(compiled, f"entries of {name} share memory (it is expanded)")
        reach = step * size
    memory = x.untyped_storage().data_ptr()
    for i, (spec, y) in enumerate(zip(compiled.signature.inputs, inputs, strict=True)):
        if i == at or not isinstance(y, Tensor) or not y.numel():
            continue
        if y.untyped_storage().data_ptr() == memory:
            raise _no(compiled, f"{name} and {spec.name} lie in the same memory")


def _pieces(
    compiled: Compiled,
    inputs: Sequence[Any],
    params: Sequence[Tensor],
    how: Call,
    class_dim: int,
    places: Sequence[int],
    steps: Steps,
    check: bool,
) -> Pieces:
    """Operands by the file's axes: one piece, or one an image."""
    signature = compiled.signature
    views: Sequence[Sequence[Any]] = [inputs]
    if class_dim == 1 and all(isinstance(x, Tensor) for x in inputs):
        images = images_of(signature, inputs)
        if images is not None:
            if set(steps.at) != set(places):
                raise _no(compiled, "there are images, and a gradient that all share")
            views = [images.views(inputs, i) for i in range(images.count)]
    named = {s.name: p for s, p in zip(signature.params, params, strict=True)}
    skip = named.get("ignore_index")
    pieces = []
    for view in views:
        with torch.no_grad():
            plain = [
                x.detach() if i in places else x
                for i, x in enumerate(view)  # no view of them in autograd's graph
            ]
        bound = bind(signature, plain, named, class_dim)
        ignore = None if skip is None else int(skip)
        if compiled.indexed:
            check_indices(signature, bound, ignore)
        some = (
            kept_rows(signature, bound, -100 if ignore is None else ignore)
            if bound.labels
            else None
        )
        if some is not None or compiled.computed or signature.sizes:
            raise _no(compiled, "the arguments need converting first")
        if check:
            check_values(signature, bound.tensors, view)
        for at in places:
            x = bound.tensors[at]
            if x.data_ptr() != plain[at].data_ptr() or x.dtype != plain[at].dtype:
                name = signature.inputs[at].name
                raise _no(
                    compiled,
                    f"the rows of {name} can't be read where they lie: pass it "
                    "contiguous",
                )
        pieces.append([*bound.tensors, *params])
    if not known(how, pieces[0]):
        raise _no(
            compiled,
            'the gradient must be made with the value: use reduction="mean" or "sum"',
        )
    return pieces


def _refuse_traces(compiled: Compiled) -> None:
    """ValueError under torch.compile, functorch or forward mode."""
    if traced():
        raise _no(
            compiled,
            "inputs can't be overwritten inside torch.compile, torch.func or forward "
            "mode: call it outside, or build it there without inplace",
        )


class Overwriting(Function):
    """Value and gradient in one visit; the gradient is where the input was.

    Takes the inputs that are overwritten as the caller has them, then the operands of
    the first piece, in which these are detached views.
    """

    @staticmethod
    def forward(
        ctx: Any,
        how: Call,
        steps: Steps,
        pieces: Pieces,
        places: Sequence[int],
        *tensors: Tensor,
    ) -> Any:
        originals, first = tensors[: len(places)], tensors[len(places) :]
        pieces = [first, *pieces[1:]]
        compiled, both = how.compiled, steps.both
        assert both is not None
        scale = _share(how, pieces)
        seed = how.seed(scale)
        over = {out: at for out, at in overwritten(both).items() if at in places}
        outs: Sequence[Tensor] = ()
        values = []
        for piece in pieces:
            every = (*piece, seed)
            into = [
                piece[over[i]] if i in over else None for i in range(len(both.outs))
            ]
            outs = both.program(*[every[i] for i in both.picks], into=into)
            values.append(outs[both.rows])
        value = values[0]
        if len(values) > 1:
            total = torch.stack(values).sum(dtype=torch.float64)
            value = total.to(value.dtype)
        if not scale or math.isnan(scale):  # a mean over nothing
            value = value.new_full((), scale)
        ctx.mark_dirty(*originals)
        ctx.set_materialize_grads(False)
        ctx.places, ctx.count, ctx.by = places, len(first), 1.0
        ctx.name = compiled.signature.name
        rest = [
            (at, outs[both.first_grad + i])
            for i, at in enumerate(steps.at)
            if at not in places
        ]
        ctx.rest = [at for at, _ in rest]
        ctx.save_for_backward(*originals, *[x for _, x in rest])
        return (value, *originals)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, *used: Tensor | None) -> Any:
        if any(x is not None for x in used):
            raise RuntimeError(
                f"{ctx.name}: an input was used again after inplace=True had "
                "overwritten it with its gradient"
            )
        result: list[Tensor | None] = [None] * (4 + len(ctx.places) + ctx.count)
        if grad is None:
            return tuple(result)
        if torch.is_grad_enabled():
            raise RuntimeError(
                f"{ctx.name}: inplace=True has overwritten the input that a second "
                "derivative is a function of"
            )
        upstream = grad.item()
        made = [x.detach() for x in ctx.saved_tensors]
        there, rest = made[: len(ctx.places)], made[len(ctx.places) :]
        if ctx.by == 1 and upstream != 1 and upstream and math.isfinite(upstream):
            for x in there:  # past the version, so that the next backward can be told
                x.data.mul_(upstream)
            ctx.by = upstream
        factor = upstream / ctx.by
        if factor != 1:
            there = [x * factor for x in there]
        if upstream != 1:
            rest = [x * upstream for x in rest]
        result[4 : 4 + len(there)] = there
        for at, x in zip(ctx.rest, rest, strict=True):
            result[4 + len(there) + at] = x
        return tuple(result)


def _share(how: Call, pieces: Pieces) -> float:
    """What the sum of all rows is multiplied by."""
    compiled, count, weight = how.compiled, 0, None
    for piece in pieces:
        count += math.prod(piece[at].shape[dim] for at, dim in compiled.extents)
        if how.valid and compiled.weight is not None and not how.whole:
            (own,) = compiled.weight.run(piece, how.sizes)
            part = own.sum(dtype=torch.float64)
            weight = part if weight is None else weight + part
    return how.divide(count, weight)
