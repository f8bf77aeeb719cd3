"""A KernelProgram as the text of one C++ file: what its tensors are, and one function that runs it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lossdsl.backends.api import Buffer, KernelProgram, Let, Load, Loop, Pick, Reduce, Store
from lossdsl_cpu.cxx import CELLS, identifier
from lossdsl_cpu.expanded import costly, helpers, primitives_of
from lossdsl_cpu.layout import print_rows
from lossdsl_cpu.nest import block
from lossdsl_cpu.rows import rows_of
from lossdsl_cpu.scope import Nest, count, extent, room, subtree


def tensors(program: KernelProgram) -> list[Buffer]:
    """The buffers that a call passes: ins and params, then outs."""
    return [b for b in program.buffers if b.role in ("in", "param")] + [b for b in program.buffers if b.role == "out"]


def element_type(b: Buffer) -> str:
    """The macro that names the type of a buffer's elements."""
    return f"T_{identifier(b.name)}"


def read(loop: Loop) -> Iterator[str]:
    """The names of values that a loop reads."""
    for s in subtree((*loop.head, *loop.body)):
        match s:
            case Let():
                yield from (a for a in s.args if isinstance(a, str))
            case Load():
                yield from s.index
            case Pick():
                yield from (s.source, *s.index)
            case Reduce():
                yield from (a for a in (*s.args, s.where) if isinstance(a, str))
            case Store():
                yield from (a for a in (s.value, s.where, *s.index) if isinstance(a, str))


def rows(nest: Nest, loop: Loop, costly_ops: frozenset[str]) -> bool:
    """Print an outermost loop by tiles of rows, if it has that form."""
    found = rows_of(nest.program, loop, costly_ops)
    if found is None or any(found.axes[-1] in nest.arrays[x].axes for x in read(loop) if x in nest.arrays):
        return False
    print_rows(nest, found)
    return True


def source(program: KernelProgram, records: Mapping[str, Any]) -> str:
    """The C++ text after the prelude; macros R_T and T_<buffer> name its types. `records` are the primitives, for those
    that the prelude doesn't spell."""
    own = helpers(program, records).splitlines()
    costly_ops = frozenset(op for op in primitives_of(program.body) if costly(op, records))
    lines = ["namespace own {", *own, "typedef R_T R;", "", "struct Call {"]
    for axis in program.axes:
        lines.append(f"  long {extent(axis)};")
    for b in tensors(program):
        const = "" if b.role == "out" else "const "
        strides = "".join(f", {identifier(b.name)}_{identifier(a)}" for a in b.axes)
        lines.append(f"  {const}{element_type(b)} *{identifier(b.name)};")
        if strides:
            lines.append(f"  long {strides[2:]};")
    for b in program.buffers:
        if b.role == "scratch":
            kind = CELLS[b.dtype]
            lines.append(f"  {kind} *{identifier(b.name)};")
            if b.axes:
                lines.append("  long " + ", ".join(f"{identifier(b.name)}_{identifier(a)}" for a in b.axes) + ";")
    lines += ["};", "", f"// {program.name}", "static void work(const long *a, Status &status) {", "  Arena arena;"]
    lines.append("  Call k;")
    place = 0
    for axis in program.axes:
        lines.append(f"  k.{extent(axis)} = a[{place}];")
        place += 1
    for b in tensors(program):
        const = "" if b.role == "out" else "const "
        lines.append(f"  k.{identifier(b.name)} = ({const}{element_type(b)} *)a[{place}];")
        place += 1
        for axis in b.axes:
            lines.append(f"  k.{identifier(b.name)}_{identifier(axis)} = a[{place}];")
            place += 1
    for b in program.buffers:
        if b.role == "scratch":
            kind = CELLS[b.dtype]
            lines.append(f"  k.{identifier(b.name)} = arena.raw<{kind}>({room(b.axes)});")
            for j, axis in enumerate(b.axes):
                lines.append(f"  k.{identifier(b.name)}_{identifier(axis)} = {count(b.axes[j + 1 :])};")
    nest = Nest(program, rows=lambda nest, loop: rows(nest, loop, costly_ops))
    block(nest, program.body)
    run = 'extern "C" long run(const long *a) { return attempt(work, a); }'
    return "\n".join([*lines, *nest.lines, "}", run, "}  // namespace own"]) + "\n"
