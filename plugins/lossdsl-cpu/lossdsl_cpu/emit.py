"""What the core asks of a backend: can it be used here, and the Python text of a plan's programs."""

from __future__ import annotations

import keyword
from collections.abc import Mapping, Sequence
from typing import Any

from lossdsl.backends.api import (
    Buffer,
    Emitted,
    KernelProgram,
    NotSupportedError,
    Plan,
    axis_sizes,
    free_axes,
    overwritable,
    size_argument,
    why_double,
)
from lossdsl.registry import Registry
from lossdsl_cpu.cxx import identifier
from lossdsl_cpu.ranges import narrowed
from lossdsl_cpu.rare_cpp import rare
from lossdsl_cpu.source import source, tensors

WIDTH = 88
LARGEST = 220_000  # characters of a program that is still optimised (`build.EFFORTS`), less what stands before it
TAKEN = ("torch", "kernel", "real", "into", "result", "on_cpu")  # names that functions use themselves
RUNTIME = ("math_cpp", "special_cpp", "rare_cpp", "support_cpp", "cache", "build", "memory", "load")


def emit(plan: Plan, registry: Registry | None = None) -> Emitted:
    """Functions that run the plan's programs as C++; NotSupportedError for what has no C++ here.

    `registry` has the primitives of plugins, which are printed from their records.
    """
    records = {} if registry is None else registry.primitives
    functions = [function(p, records) for p in plan.programs]
    for p, text in zip(plan.programs, functions, strict=True):
        if len(text) + len(rare(text)) > LARGEST and not p.name.endswith(".second"):
            raise NotSupportedError(f"{len(text) // 1000} kB of C++, which no compiler optimises in a few seconds")
    return Emitted(
        imports=(
            "from collections.abc import Sequence",
            "import torch",
            "from lossdsl_cpu.load import Kernel, on_cpu, result",
            "from torch import Tensor",
        ),
        functions="\n\n".join(functions),
        runtime=tuple(f"lossdsl_cpu.{name}" for name in RUNTIME),
    )


def wrapped(head: str, items: Sequence[str], tail: str, tuple_of: bool = False) -> list[str]:
    """A call (or a tuple) as one line, or with an item a line where that is too long."""
    left, right = ("(", ")") if tuple_of else ("", "")
    one = f"{head}{', '.join(items)}{tail}"
    if len(one) <= WIDTH:
        return [one]
    pad = " " * (len(head) - len(head.lstrip()))
    return [head + left, *(f"{pad}    {x}," for x in items), pad + right + tail]


def python_name(name: str) -> str:
    plain = identifier(name)
    return plain + "_" if keyword.iskeyword(plain) or plain in TAKEN else plain


def like(program: KernelProgram, b: Buffer) -> int | str:
    """The place of the argument whose dtype a result has, being a cotangent of it; else its kind."""
    ins = [x.name for x in tensors(program) if x.role != "out"]
    for head in ("grad_", "second_", "grad.", "second."):
        source_name = b.name.removeprefix(head)
        source = next((x for x in program.buffers if x.name == source_name and x.role in ("in", "param")), None)
        if source is not None and source_name != b.name and b.dtype == source.dtype == "real" and b.axes == source.axes:
            return ins.index(source_name)
    return b.dtype


def _literal(x: int | str) -> str:
    return f'"{x}"' if isinstance(x, str) else str(x)


def _place(shape: str, names: Mapping[str, str], ins: Sequence[Buffer]) -> tuple[int, int]:
    """The argument and its dimension of "x.shape[d]"."""
    name, _, dimension = shape.partition(".shape[")
    return [names[b.name] for b in ins].index(name), int(dimension.rstrip("]"))


def function(program: KernelProgram, records: Mapping[str, Any]) -> str:
    """The Python function of a program, and before it the kernel that it calls."""
    kind = program.name.rpartition(".")[2]
    kernel = f"_{kind.upper()}"
    ins = [b for b in tensors(program) if b.role != "out"]
    outs = [b for b in tensors(program) if b.role == "out"]
    names = {b.name: python_name(b.name) for b in (*ins, *outs)}
    found = axis_sizes(program, names)
    lines = []
    loose = free_axes(program)
    size = {axis: f"n{i}" for i, axis in enumerate(program.axes)}
    signature = [f"{names[b.name]}: Tensor" for b in ins]
    signature += ["*", *(f"{size_argument(a)}: int" for a in loose), "into: Sequence[Tensor | None] = ()"]
    over = overwritable(program)
    prepared = kind.startswith("both") and not loose
    if prepared or over:
        lines.append(f"@{kernel}.{'prepared' if prepared else 'marked'}")
    lines += wrapped(f"def {kind}(", signature, ") -> tuple[Tensor, ...]:")
    lines += wrapped("    on_cpu(", [names[b.name] for b in ins], ")")
    lines += wrapped(f"    kernel = {kernel}.variant(", [f"{names[b.name]}.dtype" for b in ins], ")")
    for axis, text in found.items():
        lines.append(f"    {size[axis]} = {text}")
    for i, b in enumerate(outs):
        place = like(program, b)
        if isinstance(place, int):
            model = names[ins[place].name]
            lines.append(f"    {names[b.name]} = result(into, {i}, {model}.shape, {model}.dtype, {model})")
        else:
            dtype = {"real": "kernel.real", "int": "torch.int64", "bool": "torch.bool"}[place]
            shape = ", ".join(size[a] for a in b.axes) + ("," if len(b.axes) == 1 else "")
            lines.append(f"    {names[b.name]} = result(into, {i}, ({shape}), {dtype})")
    numbers = [size[a] for a in program.axes]
    for b in (*ins, *outs):
        numbers.append(f"{names[b.name]}.data_ptr()")
        numbers += [f"*{names[b.name]}.stride()"] if b.axes else []
    lines += wrapped("    kernel.run(", numbers, ")")
    results = [names[b.name] for b in outs]
    lines += [f"    return ({results[0]},)"] if len(outs) == 1 else wrapped("    return ", results, "", tuple_of=True)
    reals = tuple(i for i, b in enumerate(ins) if b.role == "in" and b.dtype == "real")
    head = [f"{kernel} = Kernel(", f'    r"""\n{source(narrowed(program), records)}""",']
    head += wrapped("    args=[", [f'"{identifier(b.name)}"' for b in ins], "],")
    head.append(f"    reals={list(reals)!r},")
    like_text = [f'("{identifier(b.name)}", {_literal(like(program, b))})' for b in outs]
    head += wrapped("    outs=[", like_text, "],")
    if over:
        pairs = [(i, [x.name for x in ins].index(over[b.name])) for i, b in enumerate(outs) if b.name in over]
        head.append(f"    over={pairs!r},")
    if prepared:
        head.append(f"    sizes={[_place(found[a], names, ins) for a in program.axes]!r},")
        order = [[program.axes.index(a) for a in b.axes] for b in outs]
        head.append(f"    shapes={order!r},")
    if why_double(program):
        head.append("    double=True,")
    head.append(")")
    return "\n".join([*head, "", "", *lines]) + "\n"
