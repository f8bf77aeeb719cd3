"""What the core asks of a backend: can it be used here, and the Python text of a plan's programs."""

from __future__ import annotations

import keyword

from lossdsl.backends.api import Availability, Buffer, Emitted, KernelProgram, Plan, Registry, free_axes, size_argument
from lossdsl_opencl.source import arguments, source


def probe() -> Availability:
    """Whether pyopencl can be imported and finds a device."""
    try:
        from lossdsl_opencl.load import device

        found = device()
    except Exception as error:  # a driver may raise anything
        return Availability(False, f"no OpenCL device: {type(error).__name__}: {error}")
    return Availability(True, device=f"{found.name.strip()}, {found.version.strip()}")


def emit(plan: Plan, registry: Registry) -> Emitted:
    """A function a program; NotSupportedError for what has no words here."""
    return Emitted(
        imports=("from lossdsl_opencl.load import Kernel", "from torch import Tensor"),
        functions="\n\n".join(function(p, registry) for p in plan.programs),
        runtime=("lossdsl_opencl.load",),
    )


def function(program: KernelProgram, registry: Registry) -> str:
    """The Python function of a program, and before it the kernel that it calls."""
    kind = program.name.rpartition(".")[2]
    text, parallel = source(program, registry)
    ins = [b for b in program.buffers if b.role in ("in", "param")]
    names = [b.name + "_" if keyword.iskeyword(b.name) or b.name == "Tensor" else b.name for b in ins]
    sizes = [size_argument(a) for a in free_axes(program)]
    shown = [(b.name, b.dtype, b.axes, b.role, like(program, b)) for b in arguments(program)]
    lines = [f"_{kind.upper()} = Kernel(", f'    r"""\n{text}""",', "    buffers=["]
    lines += [f"        {item!r}," for item in shown]
    lines += ["    ],", f"    axes={program.axes!r},", f"    parallel={parallel!r},", ")", "", ""]
    lines += [f"def {kind}(", *(f"    {n}: Tensor," for n in names)]
    lines += [*(["    *,"] if sizes else []), *(f"    {n}: int," for n in sizes), ") -> tuple[Tensor, ...]:"]
    given = ", ".join(f"{a!r}: {n}" for a, n in zip(free_axes(program), sizes, strict=True))
    return "\n".join([*lines, f"    return _{kind.upper()}([{', '.join(names)}], {{{given}}})"]) + "\n"


def like(program: KernelProgram, b: Buffer) -> str:
    """The argument whose dtype a result has, being a cotangent of it; else nothing."""
    for head in ("grad_", "second_"):
        name = b.name.removeprefix(head)
        for x in program.buffers:
            if b.role == "out" and x.name == name != b.name and x.role in ("in", "param") and x.axes == b.axes:
                return name
    return ""
