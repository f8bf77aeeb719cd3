"""Kernels at run time: built for the dtypes that come, loaded through ctypes, called with one packed array.

Part of the run time of generated modules: imports nothing of lossdsl.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

# torch before any kernel, so that the kernels' OpenMP is the one torch has loaded, and both share its threads.
import torch
from torch import Tensor

from lossdsl_cpu.build import load_library
from lossdsl_cpu.math_cpp import MATH
from lossdsl_cpu.memory import HUGE, fresh
from lossdsl_cpu.rare_cpp import rare
from lossdsl_cpu.special_cpp import SPECIAL
from lossdsl_cpu.support_cpp import SUPPORT

HEADERS = "".join(f"#include <{name}>\n" for name in ("atomic", "cmath", "cstdlib", "limits", "new", "vector"))
TYPES = {
    torch.float32: "float",
    torch.float64: "double",
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.int64: "long",
    torch.int32: "int",
    torch.int16: "short",
    torch.int8: "signed char",
    torch.uint8: "unsigned char",
    torch.bool: "unsigned char",  # a loop over bools in memory stays scalar
}


def prelude(text: str) -> str:
    """What stands before a kernel's text: the functions that it may call."""
    return f"{HEADERS}namespace own {{\n{MATH}{SPECIAL}{rare(text)}{SUPPORT}}}\n"


Function = TypeVar("Function", bound=Callable[..., object])


class Variant:
    """A kernel for one choice of dtypes. `real` is the dtype of its results; `run` packs numbers for `function`,
    which returns 0, or what `refused` makes an error of."""

    __slots__ = ("function", "real", "run")

    def __init__(self, real: torch.dtype, run: Callable[..., None], function: Callable[[bytes], int]) -> None:
        self.real = real
        self.run = run
        self.function = function


class Kernel:
    """One program's C++ text; `variant` gives it for the dtypes of a call, in the order of the arguments.

    `reals` are the places of real inputs, which decide the results: double if one is, else float. So they do the
    arithmetic, but where `double` says that single precision does not do. `outs` are the
    macros of the results' types with the place of the argument whose dtype they take, or "real", "int", "bool".
    `over` are the results that may lie in the memory of an argument, with its place. `sizes` says where the extent of
    each axis shows, an argument and its dimension; `shapes` are the results' axes.
    """

    def __init__(
        self,
        text: str,
        args: Sequence[str],
        reals: Sequence[int],
        outs: Sequence[tuple[str, int | str]],
        over: Sequence[tuple[int, int]] = (),
        sizes: Sequence[tuple[int, int]] = (),
        shapes: Sequence[Sequence[int]] = (),
        double: bool = False,
    ) -> None:
        self.sizes = tuple(sizes)
        self.shapes = tuple(tuple(s) for s in shapes)
        self.text = text
        self.args = tuple(args)
        self.reals = tuple(reals)
        self.outs = tuple(outs)
        self.over = dict(over)
        self.double = double
        self._variants: dict[tuple[torch.dtype, ...], Variant] = {}
        self._lock = threading.Lock()

    def variant(self, *dtypes: torch.dtype) -> Variant:
        """The kernel for these dtypes, built and loaded at its first use."""
        found = self._variants.get(dtypes)
        if found is None:
            with self._lock:
                found = self._variants.get(dtypes)
                if found is None:
                    found = self._variants[dtypes] = self._load(dtypes)
        return found

    def macros(self, dtypes: Sequence[torch.dtype]) -> list[str]:
        """The definitions that make the text a kernel for these dtypes; TypeError for one that it has no type for."""
        for name, dtype in zip(self.args, dtypes, strict=True):
            if dtype not in TYPES:
                raise TypeError(f"{name}: no kernel for {dtype}")
        names = [TYPES[d] for d in dtypes]
        real = TYPES[self.real(dtypes)]
        found = [
            f"R_T={'double' if self.double else real}",
            *(f"T_{arg}={name}" for arg, name in zip(self.args, names, strict=True)),
        ]
        for out, source in self.outs:
            name = (
                names[source]
                if isinstance(source, int)
                else {"real": real, "int": "long", "bool": "unsigned char"}[source]
            )
            found.append(f"T_{out}={name}")
        return found

    def real(self, dtypes: Sequence[torch.dtype]) -> torch.dtype:
        return torch.float64 if any(dtypes[i] == torch.float64 for i in self.reals) else torch.float32

    def marked(self, function: Function) -> Function:
        """The function, with `over` as an attribute."""
        function.__dict__.update(over=self.over)
        return function

    def prepared(self, function: Function) -> Function:
        """The function, with `over`, `prepare` and `fresh` as attributes."""
        function.__dict__.update(over=self.over, prepare=self.prepare, fresh=fresh)
        return function

    def prepare(self, *tensors: Tensor) -> Callable[..., list[Tensor]]:
        """The kernel for tensors on the CPU of these dtypes, shapes and strides, with all else that it needs packed: a
        function of such tensors, and of memory for the results (of the strides that `empty_like` gives), None where it
        is to be fresh."""
        variant = self.variant(*[x.dtype for x in tensors])
        extents = [tensors[i].shape[d] for i, d in self.sizes]
        numbers: list[int] = [*extents]
        places = []
        for x in tensors:
            places.append(len(numbers))
            numbers += [0, *x.stride()]
        makers: list[tuple[int, Callable[..., Tensor], int, tuple[int, ...], torch.dtype]] = []
        for (_, source), axes in zip(self.outs, self.shapes, strict=True):
            if isinstance(source, int):
                like = tensors[source]
                small = like.numel() * like.element_size() < HUGE
                makers.append((len(numbers), torch.empty_like if small else fresh, source, (), like.dtype))
                numbers += [0, *torch.empty_like(like, device="meta").stride()]
            else:
                shape = tuple([extents[a] for a in axes])
                dtype = {"real": variant.real, "int": torch.int64, "bool": torch.bool}[source]
                makers.append((len(numbers), new, -1, shape, dtype))
                numbers += [0, *torch.empty(shape, device="meta").stride()]
        nowhere: tuple[Tensor | None, ...] = (None,) * len(makers)
        pack, function = struct.Struct(f"{len(numbers)}l").pack, variant.function

        def step(given: Sequence[Tensor], into: Sequence[Tensor | None] = nowhere) -> list[Tensor]:
            values = numbers.copy()
            for place, x in zip(places, given, strict=True):
                values[place] = x.data_ptr()
            found = []
            for (place, make, source, shape, dtype), there in zip(makers, into, strict=True):
                out = there
                if out is None:
                    out = make(shape, dtype) if source < 0 else make(given[source])
                values[place] = out.data_ptr()
                found.append(out)
            status = function(pack(*values))
            if status:
                raise refused(status)
            return found

        return step

    def _load(self, dtypes: tuple[torch.dtype, ...]) -> Variant:
        function = load_library(prelude(self.text) + self.text, self.macros(dtypes)).run
        function.restype = ctypes.c_long
        function.argtypes = [ctypes.c_char_p]
        packed: dict[int, Callable[..., bytes]] = {}  # by how many numbers: packing them is quicker than an array

        def run(*numbers: int) -> None:
            pack = packed.get(len(numbers))
            if pack is None:
                pack = packed[len(numbers)] = struct.Struct(f"{len(numbers)}l").pack
            status = function(pack(*numbers))
            if status:
                raise refused(status)

        return Variant(self.real(dtypes), run, function)


def refused(status: int) -> Exception:
    """What a kernel couldn't do: torch.OutOfMemoryError for working memory that isn't there, ValueError for rows that
    are too long. Results (an argument's memory among them, where they go there) may then be written in part."""
    if status < 0:
        return ValueError(
            f"rows of {-1 - status} entries: C++ kernels count them in 32 bits, up to 2147479552. "
            'Split the rows, or say backend="torch"'
        )
    return torch.OutOfMemoryError(
        f"a C++ kernel asked for {status} bytes ({status / 2**30:.3g} GiB) of working memory, which isn't there. "
        "Pass fewer rows at a time"
    )


def new(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Memory for a result. On the CPU, whatever `torch.set_default_device` says: the kernel writes to its address."""
    return torch.empty(shape, dtype=dtype, device="cpu")


def result(
    into: Sequence[Tensor | None],
    place: int,
    shape: Sequence[int],
    dtype: torch.dtype,
    like: Tensor | None = None,
) -> Tensor:
    """Memory for a result: the caller's, where `into` has a tensor at its place, else fresh, in the order of `like`.

    ValueError for a tensor of another shape or dtype, or whose entries share memory.
    """
    given = into[place] if place < len(into) else None
    if given is None:
        return new(shape, dtype) if like is None else fresh(like)
    if given.shape != torch.Size(shape) or given.dtype != dtype or not given.is_cpu:
        raise ValueError(
            f"result {place} is {dtype} of shape {tuple(shape)} on the CPU, not {given.dtype} of {tuple(given.shape)}"
        )
    if any(n > 1 and step == 0 for n, step in zip(given.shape, given.stride(), strict=True)):
        raise ValueError(f"result {place}: its entries share memory (it is expanded)")
    return given


def on_cpu(*tensors: Tensor) -> None:
    """TypeError for a tensor elsewhere: its address would mean nothing here."""
    for x in tensors:
        if not x.is_cpu:
            raise TypeError(f"this loss was built for the CPU, but a tensor is on {x.device}")
