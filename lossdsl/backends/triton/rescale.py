"""Gradients that are made before their upstream is known, multiplied by it: part of the run time of generated
modules."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from torch import Tensor

from lossdsl.backends.triton.launch import on_device
from lossdsl.backends.triton.shapes import power_of_2

CHUNK = 1 << 16  # entries of a row that a program sees to, or more
PROGRAMS = 65535  # programs along a grid's second axis, at most


@triton.jit
def rescale_(x, factor, step, rows, length, R: tl.constexpr, B: tl.constexpr, TURNS: tl.constexpr):
    """x[rows, length] *= factor[row·step]."""
    row = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)[:, None]
    by = tl.load(factor + row * step, mask=row < rows, other=1.0)
    if tl.max(tl.max((by != 1.0).to(tl.int32), 1), 0) > 0:  # else nothing is read or written
        first = tl.program_id(1).to(tl.int64) * (B * TURNS)
        for turn in range(TURNS):
            cols = first + turn * B + tl.arange(0, B)[None, :]
            ok = (row < rows) & (cols < length)
            place = x + row * length + cols
            was = tl.load(place, mask=ok, other=0.0)
            tl.store(place, (was.to(by.dtype) * by).to(was.dtype), mask=ok)


def rescale(x: Tensor, factor: Tensor) -> None:
    """x *= factor, in place; where that is 1, x stays as it is without a look. Nothing waits for the device.

    `factor`, float32 or float64, has no dimensions or as many as x, of the same sizes or 1; x lies in one piece. The
    version that autograd keeps of x is the same afterwards. An x of half a width is rounded a second time, for up to 1
    ulp of it where 1/2 was, unless the factor is a power of 2.
    """
    if not x.numel():
        return
    assert x.is_contiguous(), "a gradient that a kernel has made"
    lead = max((d + 1 for d, n in enumerate(factor.shape) if n > 1), default=0)
    rows = x.shape[:lead].numel()
    length = x.numel() // rows
    block = min(4096, power_of_2(length))
    chunk = max(block, CHUNK)
    while triton.cdiv(length, chunk) > PROGRAMS:
        chunk *= 2
    together = max(1, 1024 // block)
    by = factor.reshape(factor.shape[:lead]).expand(x.shape[:lead]).contiguous()
    with on_device(x.device):
        rescale_[(triton.cdiv(rows, together), triton.cdiv(length, chunk))](
            x,
            by,
            int(lead > 0),
            rows,
            length,
            R=together,
            B=block,
            TURNS=triton.cdiv(min(chunk, length), block),
            num_warps=4,
        )


def ahead(function: Any) -> Any:
    """Marks value and gradient in one visit: what the gradient is multiplied by later is done by `rescale`."""
    function.rescale = rescale
    return function
