"""Kernels that compute in float64 whatever dtype comes in, for `precise=True`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from lossdsl.runtime.binding import compute_dtype
from lossdsl.runtime.signature import KernelFunction, Signature


def doubled(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The tensors, those of reals in float64."""
    return [x.double() if x.is_floating_point() else x for x in tensors]


def in_double(
    signature: Signature, kernels: Mapping[str, KernelFunction]
) -> dict[str, KernelFunction]:
    """The kernels with arguments converted to float64 and results rounded once, to the
    dtype that they have without: a difference that cancels in float32 has 29 more bits.

    What a backend packs beforehand, or writes over its arguments, it does not here.
    """
    return {name: _in_double(signature, name, f) for name, f in kernels.items()}


def _in_double(
    signature: Signature, name: str, function: KernelFunction
) -> KernelFunction:
    spec = dict(signature.kernels)[name]
    places = {arg: i for i, arg in enumerate(spec.args)}
    inputs = [
        places[s.name]
        for s in signature.inputs
        if s.name in places and (s.kind == "real" or s.kind.startswith("prob"))
    ]
    # derivatives take the dtype of what they are by: who calls sees to that
    reals = [
        what == "real" and (out.startswith("aux.") or "." not in out)
        for out, _, what in spec.outs
    ]

    def run(*args: Tensor, **sizes: Any) -> tuple[Tensor, ...]:
        dtype = compute_dtype([args[i] for i in inputs])
        outs = function(*doubled(args), **sizes)
        if dtype == torch.float64:
            return outs
        return tuple(
            x.to(dtype) if real else x for x, real in zip(outs, reals, strict=True)
        )

    if hasattr(function, "rescale"):
        run.__dict__["rescale"] = function.rescale
    return run
