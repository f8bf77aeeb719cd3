"""The torch module of a loss, and the call that it and the plain function share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from lossdsl.runtime.autograd import Call, Compiled, evaluate, traced
from lossdsl.runtime.binding import bind, bind_quickly, compute_dtype
from lossdsl.runtime.reduction import Denominator, check_options
from lossdsl.runtime.signature import Bounds, ParamSpec
from lossdsl.runtime.values import (
    check_indices,
    check_values,
    in_range,
    inside,
    interval_text,
    kept_rows,
    poison,
)

Number = float | int | Tensor


def param(spec: ParamSpec, value: Any) -> Tensor:
    """A param's tensor: float64 or int64, checked against its interval."""
    dtype = torch.int64 if spec.integer else torch.float64
    if isinstance(value, Tensor):
        if spec.integer and value.is_floating_point():
            raise TypeError(f"{spec.name} is an integer, not {value.dtype}")
        tensor = value if value.dtype == dtype else value.to(dtype)
    else:
        if spec.integer and not float(value).is_integer():
            raise TypeError(f"{spec.name} is an integer, not {value!r}")
        tensor = torch.tensor(value, dtype=dtype)
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
) -> Any:
    """Evaluate a loss: bind the inputs, check them, run the kernels, reduce.

    `ignore` is the ignored index as a number, where it was asked for by the caller.
    """
    if (
        isinstance(denominator, str)
        and class_dim in (1, -1)
        and not (aux or check or traced())
    ):
        found = bind_quickly(compiled.quick, inputs)
        if (
            found is not None
            and not compiled.signature.sizes
            and in_range(compiled.quick, *found)
        ):
            # all indices are in range, so a negative one to ignore is nowhere
            whole = compiled.signature.counted and (
                compiled.skip is None or params[compiled.skip].item() < 0
            )
            how = _shared(compiled, reduction, denominator, empty, whole)
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
    )


def _shared(
    compiled: Compiled, reduction: str, denominator: str, empty: str, whole: bool
) -> Call:
    """The Call of all calls with these options, which are checked once."""
    key = (reduction, denominator, empty, whole)
    found = compiled.calls.get(key)
    if found is None:
        _check(compiled, reduction, denominator, empty)
        word = reduction if compiled.signature.kind != "map" else "none"
        found = Call(compiled, (), word, denominator, empty, False, False, None, whole)
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
) -> Any:
    """A call in general: arguments folded, defaults filled, mistakes explained."""
    signature = compiled.signature
    _check(compiled, reduction, denominator, empty)
    named = {s.name: p for s, p in zip(signature.params, params, strict=True)}
    bound = bind(signature, inputs, named, class_dim)
    tensors = bound.tensors
    bad = None
    skip = named.get("ignore_index")
    if compiled.indexed:
        if ignore is not None and ignore < 0:
            _unsigned(signature, tensors, ignore)
        if traced() or tensors[0].device.type != "cpu":
            bad = poison(signature, bound, skip, compute_dtype(tensors))
        else:
            check_indices(signature, bound, None if skip is None else int(skip))
    keep = None
    if bound.labels and not traced():
        keep = kept_rows(signature, bound, -100 if skip is None else int(skip))
    if keep is not None:  # as if the rows had been left out of the call
        tensors = [
            x[(slice(None),) * s.axes.index(signature.fold) + (keep,)]
            if signature.fold in s.axes
            else x
            for s, x in zip(signature.inputs, tensors, strict=True)
        ]
    if check:
        check_values(signature, tensors)
    operands = [*tensors]
    for p in params:
        if p.dim() and p.device != tensors[0].device:
            p = p.to(tensors[0].device)
        operands.append(p)
    sizes = tuple(bound.sizes[axis] for axis, _ in signature.sizes)
    word = reduction if signature.kind != "map" else "none"
    outs = evaluate(
        Call(compiled, sizes, word, denominator, empty, aux, free, bad), operands
    )
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
    )


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


class Loss(nn.Module):
    """A compiled loss. Params are attributes: assign a number or a tensor at any time.

    A learnable param is an `nn.Parameter`; one with an interval is kept unconstrained
    as `raw_NAME`. The others are hyperparameters: they move with the module and are
    pickled with it, and are not in its state_dict.
    """

    compiled: ClassVar[Compiled]
    restore: ClassVar[tuple[Callable[..., Any], tuple[Any, ...]] | None] = None
    _specs: ClassVar[dict[str, ParamSpec]] = {}
    reduction: str
    denominator: Denominator
    empty: str
    class_dim: int

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "compiled" not in cls.__dict__:
            return
        cls._specs = {s.name: s for s in cls.compiled.signature.params}
        for spec in cls._specs.values():
            if spec.learnable and spec.bounds is not None:
                setattr(cls, spec.name, _constrained(spec))
            elif not (spec.learnable or spec.integer or spec.axes):
                setattr(cls, spec.name, _number(spec.name))

    def __init__(
        self,
        params: dict[str, Any],
        reduction: str,
        denominator: Denominator,
        empty: str,
        class_dim: int,
    ) -> None:
        super().__init__()
        check_options(reduction, denominator, empty)
        self.reduction, self.denominator = reduction, denominator
        self.empty, self.class_dim = empty, class_dim
        self._ignore: int | None = params.get("ignore_index")
        if "ignore_index" in params and self._ignore is None:
            params = {**params, "ignore_index": self._specs["ignore_index"].default}
        for name, spec in self._specs.items():
            tensor = param(spec, params[name])
            if spec.learnable:
                raw = tensor.detach().clone()
                if spec.bounds is not None:
                    raw, name = _free(spec.bounds, raw), f"raw_{name}"
                self.register_parameter(name, nn.Parameter(raw))
            else:
                self._buffers[name] = _held(spec, tensor)
                self._non_persistent_buffers_set.add(name)

    def __setattr__(self, name: str, value: Any) -> None:
        buffers = self.__dict__.get("_buffers")
        if buffers is not None and name in self._specs:
            spec = self._specs[name]
            if name == "ignore_index":
                self.__dict__["_ignore"] = int(value)
            if name in buffers and not isinstance(value, nn.Parameter):
                buffers[name] = _held(spec, param(spec, value))
                return
            if name in self._parameters and not isinstance(value, nn.Parameter):
                with torch.no_grad():
                    self._parameters[name].copy_(param(spec, value))  # type: ignore[union-attr]
                return
        super().__setattr__(name, value)

    def _own(self) -> list[Tensor]:
        """The params as the kernels take them, kept while they are what they were."""
        kept = self.__dict__.get("_kept")
        if kept is not None and not torch.compiler.is_compiling():
            buffers = self._buffers
            for name, held in kept[0]:
                if buffers.get(name) is not held:
                    break
            else:
                own: list[Tensor] = kept[1]
                return own
        own = []
        for spec in self._specs.values():
            x = getattr(self, spec.name)
            own.append(x if spec.integer or x.dtype == torch.float64 else x.double())
        learnt = any(spec.learnable for spec in self._specs.values())
        if not learnt and not traced():
            held = [(name, self._buffers[name]) for name in self._specs]
            self.__dict__["_kept"] = (held, own)
        return own

    def call(
        self,
        inputs: tuple[Any, ...],
        overrides: tuple[Any, ...],
        reduction: str | None,
        denominator: Denominator | None,
        empty: str | None,
        class_dim: int | None,
        aux: bool,
        check: bool,
    ) -> Any:
        """What `forward` does; params in the signature's order, None where unset."""
        free, ignore = False, self._ignore
        params = self._own()
        for i, given in enumerate(overrides):
            if given is not None:
                spec = self.compiled.signature.params[i]
                params = [*params]
                params[i] = param(spec, given)
                if spec.name == "ignore_index":
                    ignore = int(given)
                else:
                    free = True
        return call(
            self.compiled,
            inputs,
            params,
            free,
            ignore,
            self.reduction if reduction is None else reduction,
            self.denominator if denominator is None else denominator,
            self.empty if empty is None else empty,
            self.class_dim if class_dim is None else class_dim,
            aux,
            check,
        )

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Any:
        """Move params but keep their dtype: `.half()` is meant for weights."""
        kept = dict(self._buffers)
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, before in kept.items():
            after = self._buffers[name]
            if before is not None and after is not None and after.dtype != before.dtype:
                self._buffers[name] = before.to(after.device)
        return self

    def extra_repr(self) -> str:
        signature = self.compiled.signature
        parts = []
        for name in self._specs:
            value = getattr(self, name).detach().tolist()
            text = f"{value:g}" if isinstance(value, float) else f"{value}"
            parts.append(f"{name}={text}")
        parts += [f"reduction={self.reduction!r}"]
        if not isinstance(self.denominator, str) or self.denominator != "valid":
            parts.append(f"denominator={self.denominator!r}")
        if self.empty != "zero":
            parts.append(f"empty={self.empty!r}")
        if self.class_dim != 1:
            parts.append(f"class_dim={self.class_dim}")
        parts.append(f"backend={signature.backend!r}")
        return f"{signature.equation}\n{', '.join(parts)}"

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle by spec where the class was built in memory, else as any module."""
        if self.restore is None:
            return super().__reduce_ex__(protocol)
        build, args = self.restore
        state = {k: v for k, v in self.__dict__.items() if k != "_kept"}
        return _revive, (build, args), state


def _revive(build: Callable[..., type[Loss]], args: tuple[Any, ...]) -> Loss:
    """An empty module of the class that `build` makes; its state is set afterwards."""
    kind = build(*args)
    return kind.__new__(kind)


# --- how params are held --------------------------------------------------------------


def _held(spec: ParamSpec, tensor: Tensor) -> Tensor:
    """A float is held in one dimension: of a 0-d float64 tensor torch.compile makes a
    number first, fails, and compiles again."""
    return tensor if spec.integer or spec.axes else tensor.reshape(1)


def _number(name: str) -> property:
    def get(self: Loss) -> Tensor:
        tensor = self._buffers[name]
        assert tensor is not None
        return tensor.reshape(())

    return property(get)


# --- learnable params with an interval ------------------------------------------------


def _constrained(spec: ParamSpec) -> property:
    bounds, name = spec.bounds, f"raw_{spec.name}"
    assert bounds is not None

    def get(self: Loss) -> Tensor:
        raw = self._parameters[name]
        assert raw is not None
        return _bound(bounds, raw)

    def put(self: Loss, value: Any) -> None:
        raw = self._parameters[name]
        assert raw is not None
        with torch.no_grad():
            raw.copy_(_free(bounds, param(spec, value).detach()))

    return property(get, put)


def _bound(bounds: Bounds, raw: Tensor) -> Tensor:
    """From all reals into the interval: softplus from one end, sigmoid between two."""
    low, high = bounds[:2]
    if math.isinf(low) and math.isinf(high):
        return raw
    if math.isinf(high):
        return low + nn.functional.softplus(raw, threshold=40.0)
    if math.isinf(low):
        return high - nn.functional.softplus(raw, threshold=40.0)
    return low + (high - low) * torch.sigmoid(raw)


def _free(bounds: Bounds, value: Tensor) -> Tensor:
    """The inverse of `_bound`; at an end, the nearest number that has one."""
    low, high = bounds[:2]
    if math.isinf(low) and math.isinf(high):
        return value
    if math.isinf(low) or math.isinf(high):
        gap = (value - low if math.isinf(high) else high - value).clamp_min(1e-300)
        return gap + torch.log(-torch.expm1(-gap))
    part = ((value - low) / (high - low)).clamp(1e-16, 1 - 1e-16)
    return torch.log(part) - torch.log1p(-part)
