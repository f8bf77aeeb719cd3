"""Running a kernel: tensors to the device's memory, the kernel built at its first call, results back."""

from __future__ import annotations

import warnings
from functools import cache
from threading import Lock
from typing import Any

import numpy as np
import pyopencl as cl
import torch
from torch import Tensor

HALVES = (torch.float16, torch.bfloat16)
REALS = (torch.float32, torch.float64, *HALVES)


@cache
def context() -> Any:
    """A context with the first device that has double precision; RuntimeError if there is none."""
    for platform in cl.get_platforms():
        for found in platform.get_devices():
            if found.double_fp_config:
                return cl.Context([found])
    raise RuntimeError("no device has double precision")


def device() -> Any:
    """The device that kernels run on."""
    return context().devices[0]


class Kernel:
    """A kernel's text with its buffers (name, dtype, axes, role, the argument that has its dtype), in the order of the
    kernel's arguments; before them stand the sizes of `axes`. `parallel` is the axis along which it has work items."""

    def __init__(
        self,
        text: str,
        buffers: list[tuple[str, str, tuple[str, ...], str, str]],
        axes: tuple[str, ...],
        parallel: str,
    ) -> None:
        self.text = text
        self.buffers = buffers
        self.axes = axes
        self.parallel = parallel
        self.lock = Lock()
        self.programs: dict[str, Any] = {}

    def program(self, real: str) -> Any:
        """The program for float or double, built once."""
        with self.lock:
            if real not in self.programs:
                options = [f"-DR={real}", *(["-DDOUBLE"] if real == "double" else [])]
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", cl.CompilerWarning)  # PoCL's compiler has something to say always
                    self.programs[real] = cl.Program(context(), self.text).build(options=options)
            return self.programs[real]

    def __call__(self, given: list[Tensor], free: dict[str, int]) -> tuple[Tensor, ...]:
        """The outs, on the CPU; TypeError for a tensor that is elsewhere or has no arithmetic here."""
        ins = [b for b in self.buffers if b[3] in ("in", "param")]
        tensors = {b[0]: x for b, x in zip(ins, given, strict=True)}
        for (name, kind, *_), x in zip(ins, given, strict=True):
            if x.device.type != "cpu":
                raise TypeError(f"{name} is on {x.device}: this kernel copies from the CPU's memory")
            if kind == "real" and x.dtype not in REALS:
                raise TypeError(f"{name}: no kernel for {x.dtype}")
        reals = [x.dtype for b, x in zip(ins, given, strict=True) if b[1] == "real" and b[3] == "in"]
        double = torch.float64 in reals or not reals
        types = {"real": np.float64 if double else np.float32, "int": np.int64, "bool": np.uint8}
        sizes = dict(free)
        for _, x, axes in ((b[0], tensors[b[0]], b[2]) for b in ins):
            sizes |= dict(zip(axes, x.shape, strict=True))
        extents = [sizes.setdefault(a, sizes.get(a.rstrip("'"), 0)) for a in self.axes]
        queue = cl.CommandQueue(context())
        held: list[Any] = []
        outs = []
        for name, kind, axes, role, like in self.buffers:
            shape = tuple(sizes[a] for a in axes)
            if role in ("in", "param"):
                array = _array(tensors[name], types[kind])
            else:
                array = np.zeros(shape, types[kind])
                outs += [(array, like, len(held))] if role == "out" else []
            flags = cl.mem_flags.READ_ONLY if role in ("in", "param") else cl.mem_flags.READ_WRITE
            buffer = cl.Buffer(context(), flags, max(array.nbytes, 1))
            if array.nbytes:
                cl.enqueue_copy(queue, buffer, array)
            held.append(buffer)
        items = sizes[self.parallel] if self.parallel else 1
        if items:
            kernel = cl.Kernel(self.program("double" if double else "float"), "run")  # one a call: it holds arguments
            kernel.set_args(*map(np.int64, extents), *held)
            cl.enqueue_nd_range_kernel(queue, kernel, (items,), None)
        results = []
        for array, like, place in outs:
            if array.nbytes and items:
                cl.enqueue_copy(queue, array, held[place])
            queue.finish()
            result = torch.from_numpy(array)
            result = result.bool() if array.dtype == np.uint8 else result
            results.append(result.to(tensors[like].dtype) if like in tensors else result)
        return tuple(results)


def _array(x: Tensor, kind: type[np.generic]) -> np.ndarray[Any, Any]:
    """The tensor's elements in order, as numbers of the kernel's."""
    wide = x.detach().to(torch.float64 if kind is np.float64 else torch.float32) if x.dtype in HALVES else x.detach()
    return np.ascontiguousarray(wide.numpy(), dtype=kind)
