"""How a loss's module holds its params, and its attributes that read them."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from lossdsl.runtime.signature import Bounds, ParamSpec


def held_param(spec: ParamSpec, given: Any, tensor: Tensor) -> Tensor:
    """A float is held in one dimension: of a 0-d float64 tensor torch.compile makes a
    number first, fails, and compiles again. What wants a gradient is held in its own
    dtype: a copy in float64 would stay behind when an optimizer moves it."""
    if isinstance(given, Tensor) and given.requires_grad:
        tensor = given
    return tensor if spec.integer or spec.axes else tensor.reshape(1)


def is_unconstrained(spec: ParamSpec) -> bool:
    """Whether a param is kept as `raw_NAME`, from which its interval is made."""
    return spec.learnable and spec.bounds is not None


def number_property(name: str) -> property:
    """A param's number as a 0-d tensor, of a buffer or of an `nn.Parameter`."""

    def get(self: nn.Module) -> Tensor:
        tensor = self._buffers.get(name)
        if tensor is None:
            tensor = self._parameters[name]
        assert tensor is not None
        return tensor.reshape(())

    return property(get)


def mode_property(loss: str, name: str, chosen: str) -> property:
    """The mode that was chosen; AttributeError for another."""

    def put(self: nn.Module, value: Any) -> None:
        raise AttributeError(
            f"{name} is a mode of {loss}, fixed when the loss "
            f"is built: build another, with {name}={value!r}"
        )

    return property(lambda self: chosen, put)


# --- learnable params with an interval ------------------------------------------------


def interval_property(spec: ParamSpec) -> property:
    """A learnable param within its interval, made from `raw_NAME`."""
    bounds, name = spec.bounds, f"raw_{spec.name}"
    assert bounds is not None

    def get(self: nn.Module) -> Tensor:
        raw = self._parameters[name]
        assert raw is not None
        return into_interval(bounds, raw)

    return property(get)


def into_interval(bounds: Bounds, raw: Tensor) -> Tensor:
    """From all reals into the interval: softplus from one end, sigmoid between two."""
    low, high = bounds[:2]
    if math.isinf(low) and math.isinf(high):
        return raw
    if math.isinf(high):
        return low + nn.functional.softplus(raw, threshold=40.0)
    if math.isinf(low):
        return high - nn.functional.softplus(raw, threshold=40.0)
    return low + (high - low) * torch.sigmoid(raw)


def from_interval(bounds: Bounds, value: Tensor) -> Tensor:
    """The inverse of `into_interval`; at an end, the nearest number that has one."""
    low, high = bounds[:2]
    if math.isinf(low) and math.isinf(high):
        return value
    if math.isinf(low) or math.isinf(high):
        gap = (value - low if math.isinf(high) else high - value).clamp_min(1e-300)
        return gap + torch.log(-torch.expm1(-gap))
    part = ((value - low) / (high - low)).clamp(1e-16, 1 - 1e-16)
    return torch.log(part) - torch.log1p(-part)
