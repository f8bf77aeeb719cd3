"""The torch module of a loss."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from lossdsl.runtime.autograd import traced
from lossdsl.runtime.calling import call, param
from lossdsl.runtime.holding import (
    from_interval,
    held_param,
    interval_property,
    is_unconstrained,
    mode_property,
    number_property,
)
from lossdsl.runtime.kernels import Compiled
from lossdsl.runtime.reduction import (
    Denominator,
    check_class_dim,
    check_options,
    memory_bytes,
)
from lossdsl.runtime.signature import ParamSpec

OPTIONS = ("reduction", "denominator", "empty", "class_dim", "memory", "inplace")
LEFT = ("_kept", "_readied")


class Loss(nn.Module):
    """A compiled loss. Params are attributes: assign a number or a tensor at any time.

    A learnable param is an `nn.Parameter`; one with an interval is kept unconstrained
    as `raw_NAME`. The others are hyperparameters: they move with the module and are
    pickled with it, and are not in its state_dict. Given an `nn.Parameter`, any of
    them becomes one of the module's, the very tensor, as it is in other modules;
    another tensor that wants a gradient is used as it is at the time of the call.
    """

    compiled: ClassVar[Compiled]
    restore: ClassVar[tuple[Callable[..., Any], tuple[Any, ...]] | None] = None
    elsewhere: ClassVar[Callable[[str], Compiled] | None] = None
    _specs: ClassVar[dict[str, ParamSpec]] = {}
    reduction: str
    denominator: Denominator
    empty: str
    class_dim: int
    memory: int  # bytes for the tiles of a matrix
    inplace: bool  # gradients lie where their inputs were

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "compiled" not in cls.__dict__:
            return
        cls._specs = {s.name: s for s in cls.compiled.signature.params}
        for spec in cls._specs.values():
            if spec.learnable and spec.bounds is not None:
                setattr(cls, spec.name, interval_property(spec))
            elif not (spec.learnable or spec.integer or spec.axes):
                setattr(cls, spec.name, number_property(spec.name))
        for name, chosen in cls.compiled.signature.modes:
            setattr(cls, name, mode_property(cls.compiled.signature.name, name, chosen))

    def __init__(
        self,
        params: dict[str, Any],
        reduction: str,
        denominator: Denominator,
        empty: str,
        class_dim: int,
        memory: int | str = 64 << 20,
        inplace: bool = False,
    ) -> None:
        super().__init__()
        check_options(reduction, denominator, empty)
        check_class_dim(class_dim)
        if not isinstance(inplace, bool):
            raise TypeError(f"inplace is True or False, not {inplace!r}")
        self.reduction, self.denominator = reduction, denominator
        self.empty, self.class_dim = empty, class_dim
        self.memory = memory_bytes(memory)
        self.inplace = inplace
        self._ignore: int | None = params.get("ignore_index")
        if "ignore_index" in params and self._ignore is None:
            params = {**params, "ignore_index": self._specs["ignore_index"].default}
        for name, spec in self._specs.items():
            given = params[name]
            tensor = param(spec, given)
            if isinstance(given, nn.Parameter) and not is_unconstrained(spec):
                self._parameters[name] = given
            elif spec.learnable:
                raw = tensor.detach().clone()
                if spec.bounds is not None:
                    raw, name = from_interval(spec.bounds, raw), f"raw_{name}"
                self.register_parameter(name, nn.Parameter(raw))
            else:
                self._buffers[name] = held_param(spec, given, tensor)
                self._non_persistent_buffers_set.add(name)

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__.pop("_readied", None)
        buffers = self.__dict__.get("_buffers")
        if buffers is not None and name in self._specs:
            spec = self._specs[name]
            if name == "ignore_index":
                self.__dict__["_ignore"] = int(value)
            tensor = param(spec, value)
            if is_unconstrained(spec):
                raw = self._parameters[f"raw_{name}"]
                assert raw is not None
                assert spec.bounds is not None
                with torch.no_grad():
                    raw.copy_(from_interval(spec.bounds, tensor))
            elif isinstance(value, nn.Parameter):
                buffers.pop(name, None)
                self._non_persistent_buffers_set.discard(name)
                self._parameters[name] = value
            elif name in buffers:
                buffers[name] = held_param(spec, value, tensor)
            else:
                with torch.no_grad():
                    self._parameters[name].copy_(tensor)  # type: ignore[union-attr]
            return
        if isinstance(value, (int, float, str)) and not hasattr(self, name):
            self._check_name(name)
        super().__setattr__(name, value)

    def _check_name(self, name: str) -> None:
        """AttributeError for nearly the name of a param: nothing would read it."""
        known = {*self._specs, *OPTIONS}
        near = (
            []
            if name in known or name.startswith("_")
            else get_close_matches(name, known, 1, 0.8)
        )
        if near:
            raise AttributeError(
                f"{self.compiled.signature.name} has no param {name!r}; "
                f"did you mean {near[0]!r}?"
            )

    def _learns(self) -> bool:
        """Whether a param may be another number at the next call, unassigned."""
        held = [self._buffers.get(name) for name in self._specs]
        return any(x is None or x.requires_grad for x in held)

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
        if not (self._learns() or traced()):
            held = [(name, self._buffers[name]) for name in self._specs]
            self.__dict__["_kept"] = (held, own)
        return own

    def _ready(self) -> Callable[[tuple[Any, ...]], Any] | None:
        """What most calls share, while params and options are what they were."""
        kept = self.__dict__.get("_readied")
        if kept is not None:
            buffers = self._buffers
            for name, held, version in kept[0]:
                now = buffers[name]
                if now is not held or now._version != version:
                    break
            else:
                ready: Callable[[tuple[Any, ...]], Any] | None = kept[1]
                return ready
        own, ready = self._own(), None
        learnt = self._learns()
        makes = self.compiled.ready
        if not learnt and self.class_dim in (1, -1) and makes is not None:
            options = (self.reduction, self.denominator, self.empty)
            ready = makes(self.compiled, own, options, self.class_dim == 1)
        held = [] if learnt else [(n, self._buffers[n]) for n in self._specs]
        self.__dict__["_readied"] = ([(n, x, x._version) for n, x in held], ready)
        return ready

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
        memory: int | str | None = None,
        inplace: bool | None = None,
    ) -> Any:
        """What `forward` does; params in the signature's order, None where unset."""
        if (
            reduction is None
            and denominator is None
            and empty is None
            and class_dim is None
            and inplace is None
            and not self.inplace
            and not (aux or check or traced())
            and torch.is_grad_enabled()
            and not any(given is not None for given in overrides)
        ):
            ready = self._ready()
            if ready is not None:
                value = ready(inputs)
                if value is not None:
                    return value
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
        compiled = self.compiled
        if compiled.signature.devices != ("*",):
            compiled = self._on(inputs)
        return call(
            compiled,
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
            self.memory if memory is None else memory_bytes(memory),
            self.inplace if inplace is None else inplace,
        )

    def _on(self, inputs: tuple[Any, ...]) -> Compiled:
        """The kernels for the device of the inputs."""
        signature = self.compiled.signature
        for spec, x in zip(signature.inputs, inputs, strict=True):
            if isinstance(x, Tensor) and x.dim():
                device = x.device.type
                emulated = device == "cpu" and self.compiled.emulates
                if device in signature.devices or emulated:
                    break
                again = type(self).elsewhere
                if again is not None:
                    return again(device)
                able = " and ".join(signature.devices)
                raise ValueError(
                    f"{signature.name} was built by backend {signature.backend} for "
                    f"{able}, but {spec.name} is on {x.device}: build it with "
                    'backend="torch", or "auto"'
                )
        return self.compiled

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
        if self.inplace:
            parts.append("inplace=True")
        if self.class_dim != 1:
            parts.append(f"class_dim={self.class_dim}")
        parts.append(f"backend={signature.backend!r}")
        return f"{signature.equation}\n{', '.join(parts)}"

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle by spec where the class was built in memory, else as any module."""
        if self.restore is None:
            return super().__reduce_ex__(protocol)
        build, args = self.restore
        return _revive, (build, args), self.__getstate__()

    def __getstate__(self) -> dict[str, Any]:
        """All but what calls have left to be quicker."""
        return {k: v for k, v in self.__dict__.items() if k not in LEFT}


def _revive(build: Callable[..., type[Loss]], args: tuple[Any, ...]) -> Loss:
    """An empty module of the class that `build` makes; its state is set afterwards."""
    kind = build(*args)
    return kind.__new__(kind)
