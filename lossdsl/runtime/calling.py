"""One call of a loss: what the module and the plain function share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from lossdsl.runtime.autograd import evaluate, traced
from lossdsl.runtime.binding import bind, compute_dtype
from lossdsl.runtime.call import Call
from lossdsl.runtime.kernels import Compiled
from lossdsl.runtime.quick import bind_quickly, in_range
from lossdsl.runtime.reduction import Denominator, check_options, memory_bytes
from lossdsl.runtime.signature import ParamSpec
from lossdsl.runtime.values import (
    check_indices,
    check_values,
    inside,
    interval_text,
    kept_rows,
    labels_are_rows,
    neutral_rows,
    poison,
    refuse_ignored,
)


def param(spec: ParamSpec, value: Any) -> Tensor:
    """A param's tensor: float64 or int64, checked against its interval."""
    dtype = torch.int64 if spec.integer else torch.float64
    if isinstance(value, Tensor):
        if spec.integer and value.is_floating_point():
            raise TypeError(f"{spec.name} is an integer, not {value.dtype}")
        tensor = value if value.dtype == dtype else value.to(dtype)
    else:
        try:
            tensor = torch.tensor(value, dtype=torch.float64, device="cpu")
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"{spec.name} is a number or a tensor, not {value!r}"
            ) from error
        if spec.integer:
            if not float(value).is_integer():
                raise TypeError(f"{spec.name} is an integer, not {value!r}")
            tensor = torch.tensor(value, dtype=dtype, device="cpu")
    if tensor.dim() != len(spec.axes):
        what = "a number" if not spec.axes else f"a vector over {spec.axes[0]}"
        raise ValueError(f"{spec.name} is {what}, not of shape {tuple(tensor.shape)}")
    if spec.bounds is not None and tensor.device.type == "cpu" and not traced():
        flat = tensor.detach().reshape(-1).tolist()
        for number in flat:
            if not inside(spec.bounds, number):
                raise ValueError(
                    f"{spec.name} = {number:g} is not in {interval_text(spec.bounds)}"
                )
    return tensor


def call(
    compiled: Compiled,
    inputs: Sequence[Any],
    params: Sequence[Tensor],
    free: bool = False,
    ignore: int | None = None,
    reduction: str = "mean",
    denominator: Denominator = "valid",
    empty: str = "zero",
    class_dim: int = 1,
    aux: bool = False,
    check: bool = False,
    memory: int = 64 << 20,
    inplace: bool = False,
) -> Any:
    """Evaluate a loss: bind the inputs, check them, run the kernels, reduce.

    `ignore` is the ignored index as a number, where it was asked for by the caller;
    `inplace` overwrites inputs with their gradients.
    """
    if inplace:
        _check(compiled, reduction, denominator, empty)
        overwrite = compiled.inplace
        if overwrite is None:
            raise ValueError(
                f"{compiled.signature.name}: inplace=True, but its kernels make every "
                "gradient in memory of its own"
            )
        how = Call(compiled, (), reduction, denominator, empty, aux, free, poison=None)
        value = overwrite(compiled, inputs, params, how, class_dim, check)
        if value is not None:
            return value
    if (
        isinstance(denominator, str)
        and class_dim in (1, -1)
        and not (aux or check or traced())
    ):
        found = bind_quickly(compiled.quick, inputs)
        if (
            found is not None
            and not compiled.signature.sizes
            and not compiled.computed
            and in_range(compiled.quick, *found)
            and compiled.fits(found[1], params)
        ):
            # all indices are in range, so a negative one to ignore is nowhere
            whole = compiled.signature.counted and (
                compiled.skip is None or params[compiled.skip].item() < 0
            )
            how = shared(compiled, reduction, denominator, empty, whole, memory)
            return evaluate(how, [*found[0], *params])[0]
    return _call(
        compiled,
        inputs,
        params,
        free,
        ignore,
        reduction,
        denominator,
        empty,
        class_dim,
        aux,
        check,
        memory,
    )


def shared(
    compiled: Compiled,
    reduction: str,
    denominator: str,
    empty: str,
    whole: bool,
    memory: int = 64 << 20,
) -> Call:
    """The Call of all calls with these options, which are checked once."""
    key = (reduction, denominator, empty, whole, memory)
    found = compiled.calls.get(key)
    if found is None:
        _check(compiled, reduction, denominator, empty)
        word = reduction if compiled.signature.kind != "map" else "none"
        found = Call(
            compiled,
            (),
            word,
            denominator,
            empty,
            aux=False,
            free=False,
            poison=None,
            whole=whole,
            memory=memory,
        )
        compiled.calls[key] = found
    return found


def _check(
    compiled: Compiled, reduction: str, denominator: Denominator, empty: str
) -> None:
    check_options(reduction, denominator, empty)
    if not compiled.signature.batch and compiled.signature.kind == "loss":
        _no_rows(compiled.signature.name, reduction, denominator)


def _call(
    compiled: Compiled,
    inputs: Sequence[Any],
    params: Sequence[Tensor],
    free: bool,
    ignore: int | None,
    reduction: str,
    denominator: Denominator,
    empty: str,
    class_dim: int,
    aux: bool,
    check: bool,
    memory: int,
) -> Any:
    """A call in general: arguments folded, defaults filled, mistakes explained."""
    signature = compiled.signature
    _check(compiled, reduction, denominator, empty)
    named = {s.name: p for s, p in zip(signature.params, params, strict=True)}
    bound = bind(signature, inputs, named, class_dim)
    tensors = bound.tensors
    bad = there = keep = None
    skip = named.get("ignore_index")
    waits = check or (on_host(tensors[0]) and not compiled.emulates)
    blind = traced() or not waits
    if compiled.indexed:
        if ignore is not None and ignore < 0:
            _unsigned(signature, tensors, ignore)
        if blind:
            bad = poison(signature, bound, skip, compute_dtype(tensors))
        else:
            check_indices(signature, bound, None if skip is None else int(skip))
    if bound.labels and blind and labels_are_rows(signature, bound):
        tensors, there = neutral_rows(signature, bound, -100 if skip is None else skip)
    elif bound.labels and torch.compiler.is_compiling():
        refuse_ignored(signature, bound, -100 if skip is None else skip)
    elif bound.labels and not traced():  # a batch loss can't do without looking
        keep = kept_rows(signature, bound, -100 if skip is None else int(skip))
    if keep is not None:  # as if the rows had been left out of the call
        tensors = [
            x[(slice(None),) * s.axes.index(signature.fold) + (keep,)]
            if signature.fold in s.axes
            else x
            for s, x in zip(signature.inputs, tensors, strict=True)
        ]
    if check:
        check_values(signature, tensors, inputs)
    operands = [*tensors]
    for p in params:
        if p.dim() and p.device != tensors[0].device:
            passing = p.requires_grad or traced() or p.is_inference()
            to = tensors[0].device
            p = p.to(to) if passing else compiled.placed(p, to)
        operands.append(p)
    operands += [
        torch.tensor(int(inputs[i] is not None), device="cpu")
        for i in compiled.computed
    ]
    sizes = tuple(bound.sizes[axis] for axis, _ in signature.sizes)
    word = reduction if signature.kind != "map" else "none"
    how = Call(
        compiled,
        sizes,
        word,
        denominator,
        empty,
        aux=aux,
        free=free,
        poison=bad,
        memory=memory,
        there=there,
    )
    outs = evaluate(how, operands)
    loss = outs[0]
    if keep is not None and word == "none":
        at = signature.batch.index(signature.fold)
        wide = loss.new_zeros(loss.shape[:at] + keep.shape + loss.shape[at + 1 :])
        loss = wide.index_copy(at, keep.nonzero()[:, 0], loss)
    if bound.folded is not None and word == "none":
        loss = bound.unfold(loss, signature.batch, signature.fold)
    if not aux:
        return loss
    route = compiled.aux
    named_outs = {}
    for i, out in zip(route.others, outs[1:], strict=True):
        name, axes, _ = route.program.spec.outs[i]
        if bound.folded is not None:
            out = bound.unfold(out, axes, signature.fold)
        named_outs[name.removeprefix("aux.")] = out.detach()
    return loss, named_outs


def functional(
    compiled: Compiled,
    inputs: Sequence[Any],
    values: Sequence[Any],
    reduction: str,
    denominator: Denominator,
    empty: str,
    class_dim: int,
    aux: bool,
    check: bool,
    memory: int | str = 64 << 20,
    inplace: bool = False,
) -> Any:
    """`call` with params as numbers or tensors, and None for no ignored index."""
    params: list[Tensor] = []
    free, ignore = False, None
    for spec, value in zip(compiled.signature.params, values, strict=True):
        if spec.name == "ignore_index":
            ignore = None if value is None else int(value)
            value = spec.default if value is None else value
        free = free or isinstance(value, Tensor)
        params.append(param(spec, value))
    return call(
        compiled,
        inputs,
        params,
        free,
        ignore,
        reduction,
        denominator,
        empty,
        class_dim,
        aux,
        check,
        memory_bytes(memory),
        inplace,
    )


def on_host(x: Tensor) -> bool:
    """Whether its numbers can be looked at without waiting for a device."""
    return x.device.type == "cpu"


def _no_rows(name: str, reduction: str, denominator: Denominator) -> None:
    if reduction == "none":
        raise ValueError(
            f'{name} is one number a batch: reduction="none" has no rows to return'
        )
    if not (isinstance(denominator, str) and denominator == "valid"):
        raise ValueError(f"{name} is one number a batch: it has no denominator")


def _unsigned(signature: Any, tensors: Sequence[Tensor], ignore: int) -> None:
    for spec, x in zip(signature.inputs, tensors, strict=True):
        if spec.kind.startswith("index ") and x.dtype == torch.uint8:
            raise ValueError(
                f"{signature.name}: {spec.name} is uint8 and never equals "
                f"ignore_index = {ignore}: pass {spec.name}.long(), "
                f"or ignore_index={ignore % 256} if that is what it wrapped to"
            )
