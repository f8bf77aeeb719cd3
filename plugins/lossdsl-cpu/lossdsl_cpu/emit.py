"""What the core asks of a backend: can it be used here, and the Python text of a plan's programs."""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from typing import Any

from lossdsl.backends.api import Availability, Buffer, Emitted, KernelProgram, Plan
from lossdsl.registry import Registry
from lossdsl_cpu.build import CompilerError, compiler, version
from lossdsl_cpu.cxx import identifier
from lossdsl_cpu.source import source, tensors

RUNTIME = ("math_cpp", "special_cpp", "support_cpp", "cache", "build", "load")


def probe() -> Availability:
    """Whether there is a C++ compiler, and which."""
    try:
        path = compiler()
        return Availability(True, device=f"{version(path)} ({path})")
    except CompilerError as error:
        return Availability(False, str(error))


def emit(plan: Plan, registry: Registry | None = None) -> Emitted:
    """Functions that run the plan's programs as C++; NotSupportedError for what has no C++ here.

    `registry` has the primitives of plugins, which are printed from their records.
    """
    records = {} if registry is None else registry.primitives
    return Emitted(
        imports=("import torch", "from lossdsl_cpu.load import Kernel, fresh, on_cpu", "from torch import Tensor"),
        functions="\n\n".join(function(p, records) for p in plan.programs),
        runtime=tuple(f"lossdsl_cpu.{name}" for name in RUNTIME),
    )


def python_name(name: str) -> str:
    plain = identifier(name)
    return plain + "_" if keyword.iskeyword(plain) or plain in ("torch", "kernel", "real") else plain


def like(program: KernelProgram, b: Buffer) -> int | str:
    """The place of the argument whose dtype a result has, being a cotangent of it; else its kind."""
    ins = [x.name for x in tensors(program) if x.role != "out"]
    source_name = b.name.partition(".")[2]
    real = next((x for x in program.buffers if x.name == source_name and x.role == "in" and x.dtype == "real"), None)
    return ins.index(source_name) if "." in b.name and real is not None and b.dtype == "real" else b.dtype


def function(program: KernelProgram, records: Mapping[str, Any]) -> str:
    """The Python function of a program, and before it the kernel that it calls."""
    kind = program.name.rpartition(".")[2]
    kernel = f"_{kind.upper()}"
    ins = [b for b in tensors(program) if b.role != "out"]
    outs = [b for b in tensors(program) if b.role == "out"]
    names = {b.name: python_name(b.name) for b in (*ins, *outs)}
    found: dict[str, str] = {}
    lines = []
    for b in ins:
        for d, axis in enumerate(b.axes):
            found.setdefault(axis, f"{names[b.name]}.shape[{d}]")
    loose = []
    for axis in program.axes:
        base = axis.rstrip("'")
        if axis not in found:
            same = next((v for a, v in found.items() if a.rstrip("'") == base), None)
            if same is None:
                if base not in loose:
                    loose.append(base)
                same = python_name(base)
            found[axis] = same
    size = {axis: f"n{i}" for i, axis in enumerate(program.axes)}
    signature = [f"{names[b.name]}: Tensor" for b in ins]
    signature += (["*"] if loose else []) + [f"{python_name(a)}: int" for a in loose]
    lines.append(f"def {kind}({', '.join(signature)}) -> tuple[Tensor, ...]:")
    listed = ", ".join(names[b.name] for b in ins)
    lines.append(f"    on_cpu({listed})")
    lines.append(f"    kernel = {kernel}.variant({', '.join(names[b.name] + '.dtype' for b in ins)})")
    for axis, text in found.items():
        lines.append(f"    {size[axis]} = {text}")
    for b in outs:
        place = like(program, b)
        if isinstance(place, int):
            lines.append(f"    {names[b.name]} = fresh({names[ins[place].name]})")
        else:
            dtype = {"real": "kernel.real", "int": "torch.int64", "bool": "torch.bool"}[place]
            shape = "".join(f"{size[a]}, " for a in b.axes)
            lines.append(f"    {names[b.name]} = torch.empty(({shape}), dtype={dtype})")
    lines.append("    kernel.run(")
    if program.axes:
        lines.append(f"        {', '.join(size[a] for a in program.axes)},")
    for b in (*ins, *outs):
        stride = f", *{names[b.name]}.stride()" if b.axes else ""
        lines.append(f"        {names[b.name]}.data_ptr(){stride},")
    lines.append("    )")
    lines.append(f"    return ({', '.join(names[b.name] for b in outs)}{',' if len(outs) == 1 else ''})")
    reals = tuple(i for i, b in enumerate(ins) if b.role == "in" and b.dtype == "real")
    head = [f"{kernel} = Kernel(", f'    r"""\n{source(program, records)}""",']
    head.append(f"    args={tuple(identifier(b.name) for b in ins)!r},")
    head.append(f"    reals={reals!r},")
    head.append(f"    outs={tuple((identifier(b.name), like(program, b)) for b in outs)!r},")
    head.append(")")
    return "\n".join([*head, "", "", *lines]) + "\n"
