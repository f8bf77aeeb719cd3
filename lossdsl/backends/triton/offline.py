"""Compiling a loss' kernels for a device that isn't there, and reading what the compiler has made of them.

Nothing here needs a GPU: Triton's package brings the assembler and disassembler of NVIDIA's devices, and LLVM prints
the text of AMD's.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from lossdsl.backends.api import Buffer, KernelProgram, Plan
from lossdsl.backends.triton.arguments import along, sizes, tile_axis
from lossdsl.backends.triton.blocks import stops
from lossdsl.backends.triton.demand import demand
from lossdsl.backends.triton.emit import emit
from lossdsl.backends.triton.host import like
from lossdsl.backends.triton.launch import ALL, stack_of
from lossdsl.backends.triton.shapes import Device, Shape, available, lighter, power_of_2, shape_of, too_long
from lossdsl.backends.triton.sharing import shared
from lossdsl.backends.triton.spell import identifier
from lossdsl.backends.triton.stages import Stage
from lossdsl.backends.triton.staging import long_stages_of, room, stages_of
from lossdsl.registry import Registry

TARGETS = ("sm_80", "sm_90", "sm_100", "gfx942", "gfx950")
# What Triton 3.9 compiles for: of any other name LLVM ends the process.
NVIDIA = frozenset({75, 80, 86, 87, 89, 90, 100, 103, 120, 121})
AMD = frozenset({"gfx908", "gfx90a", "gfx940", "gfx941", "gfx942", "gfx950"})
LENGTHS = tuple(2**k for k in range(1, 19))  # of rows, where none are given
TYPES = {"float32": "fp32", "float64": "fp64", "bfloat16": "bf16", "float16": "fp16"}
BYTES = {"fp32": 4, "fp64": 8, "bf16": 2, "fp16": 2}


@dataclass(frozen=True, slots=True)
class Machine:
    """What one compiled kernel is made of.

    registers, spilled, shared   a thread's registers; bytes that it moves to and from registers spilled to local
                                 memory, by the program's text; bytes of shared memory
    instructions                 of the program's text, with unrolled ones counted
    loads, stores                global accesses by their width in bits
    exps                         exponentials an entry of a row, from the text
    """

    kernel: str
    shape: Shape
    registers: int
    spilled: int
    shared: int
    instructions: int
    loads: dict[int, int]
    stores: dict[int, int]
    exps: int


def target_of(name: str) -> tuple[Any, Device]:
    """The compiler's target, and what the choice of a kernel's shape depends on; ValueError for an unknown name."""
    from triton.backends.compiler import GPUTarget

    if (found := re.fullmatch(r"sm_?(\d+)a?", name)) and int(found[1]) in NVIDIA:
        return GPUTarget("cuda", int(found[1]), 32), Device(32, 132)
    if name in AMD:
        return GPUTarget("hip", name, 64), Device(64, 304)
    known = ", ".join([*(f"sm_{n}" for n in sorted(NVIDIA)), *sorted(AMD)])
    raise ValueError(f"{name!r} is no target: there are {known}")


def module_of(plan: Plan, registry: Registry) -> ModuleType:
    """The kernels of a plan, imported from a file as a user's would be."""
    emitted = emit(plan, registry)
    text = "\n".join(["from __future__ import annotations", *emitted.imports, "", "", emitted.functions])
    name = "lossdsl_inspected_" + hashlib.sha256(text.encode()).hexdigest()[:16]
    if name in sys.modules:
        return sys.modules[name]
    path = Path(tempfile.mkdtemp(prefix="lossdsl-")) / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def shapes(
    stage: Stage, dtype: str, device: Device, lengths: Sequence[int] | None = None
) -> tuple[tuple[Shape, int], ...]:
    """Every shape that the heuristic can choose for a stage, with a length of row for which it does; for these lengths
    alone if any are given."""
    run = 16 // BYTES[TYPES[dtype]]
    wide = dtype == "float64"
    blocks = shared(stage, on_chip=False)
    wanted = demand(stage, on_chip=True), demand(stage, on_chip=False)
    parted = stops(blocks)
    found: dict[tuple[Shape, int], int] = {}
    if not stage.sweeps:
        return ((shape_of(1, 0, wanted, wide, device, run=run), 0),)
    for length in lengths or LENGTHS:
        for rows in (1, 10**6):
            shape = shape_of(rows, length, wanted, wide, device, stage.whole, run)
            if not parted:
                shape = replace(shape, splits=1)
            block = power_of_2(length) if shape.kind == "rows" else 0
            found.setdefault((shape, block), length)
    return tuple((shape, length) for (shape, _), length in found.items())


def launched(
    program: KernelProgram, dtype: str, device: Device, lengths: Sequence[int] | None = None
) -> Iterator[tuple[Stage, Sequence[int]]]:
    """Every stage of a program with those lengths of rows that it is launched for: of orders and the like, stages that
    have rows on chip, and others for rows too long for that."""
    short, long = stages_of(program), long_stages_of(program)
    lengths = lengths or LENGTHS
    if not long:
        yield from ((stage, lengths) for stage in short)
        return
    limit, alive = room(short)
    far = {n for n in lengths if too_long(n, limit, alive, dtype == "float64", device)}
    for stages, own in ((short, [n for n in lengths if n not in far]), (long, [n for n in lengths if n in far])):
        for stage in stages if own else ():
            if isinstance(stage, Stage):
                yield stage, own


def launches(stage: Stage, shape: Shape) -> list[tuple[int, int]]:
    """The sweeps that each launch runs, first and last."""
    if shape.kind == "rows" or shape.splits == 1:
        return [(0, ALL)]
    ends = stops(shared(stage, on_chip=False))
    starts = [0, *(i + 1 for i in ends)]
    return [*zip(starts, ends, strict=False), (starts[-1], ALL)]


def inspected(
    plan: Plan,
    registry: Registry,
    target: str,
    dtype: str = "bfloat16",
    lengths: Sequence[int] | None = None,
    aligned: bool = True,
) -> Iterator[Machine]:
    """Compile every kernel of a plan for a target, in each shape that the heuristic chooses for these lengths of rows
    (all shapes without), and read the machine code: of the lighter shape that launches go over to, where one spills.
    `aligned`: rows start at multiples of 16 bytes."""
    to, device = target_of(target)
    module = module_of(plan, registry)
    for program in plan.programs:
        for stage, fitting in launched(program, dtype, device, lengths):
            whole = stage.whole or not stage.sweeps
            for shape, length in shapes(stage, dtype, device, fitting):
                less: Shape | None = shape
                while less is not None:
                    found = [
                        compiled(module, program, stage, less, length, sweeps, to, dtype, aligned)
                        for sweeps in launches(stage, less)
                    ]
                    spilled = any(machine.spilled for machine in found)
                    less = lighter(less, whole, device, 16 // BYTES[TYPES[dtype]]) if spilled else None
                yield from found


def _type(program: KernelProgram, b: Buffer, real: str, half: str) -> str:
    if b.role == "param" and not b.axes:
        return ("*fp64" if real == "fp64" else "fp32") if b.dtype == "real" else "i32"
    if b.dtype != "real":
        return {"int": "*i64", "bool": "*i1"}[b.dtype]
    if b.name.endswith("@sum"):
        return "*fp64"
    given = b.role == "in" and not b.name.startswith("seed_rows")
    return f"*{half}" if given or (b.role == "out" and like(program, b)) else f"*{real}"


def compiled(
    module: ModuleType,
    program: KernelProgram,
    stage: Stage,
    shape: Shape,
    length: int,
    sweeps: tuple[int, int],
    target: Any,
    dtype: str,
    aligned: bool,
) -> Machine:
    """Compile one kernel of a stage for tensors that lie plainly."""
    import triton
    import triton.language as tl
    from triton.compiler import ASTSource

    half = TYPES[dtype]
    real = "fp64" if half == "fp64" else "fp32"
    function = getattr(module, f"_{stage.name}_{shape.kind}")
    kinds: dict[str, str] = {}
    constants: dict[str, Any] = {}
    wide: list[str] = []
    for b in stage.buffers:
        name = identifier(b.name)
        kinds[name] = _type(program, b, real, half)
        if kinds[name].startswith("*"):
            wide.append(name)
        tile = tile_axis(stage, b)
        run = 1 if tile is None or not aligned else 16 // BYTES.get(kinds[name][1:], 8)
        for axis in b.axes:
            stride = f"{name}_{identifier(axis)}"
            kinds[stride] = "i32"
            if axis == b.axes[-1]:
                constants[stride] = 1
        if tile is not None:
            constants[f"U_{name}"] = run
    for axis in sizes(stage):
        kinds[f"n_{identifier(axis)}"] = "i32"
    constants["REAL"] = tl.float64 if real == "fp64" else tl.float32
    constants["R"] = shape.rows if shape.kind == "rows" and stage.rows else 1
    for axis in stage.axes:
        block = max(power_of_2(length), 2) if shape.kind == "rows" else shape.block
        constants[f"B_{identifier(axis)}"] = block
    if shape.kind == "rows":
        constants |= {f"EVEN_{identifier(axis)}": aligned for axis in along(stage)}
    if shape.kind == "blocks":
        kinds |= {"part": "*fp64", "splits": "i32"}
        wide.append("part")
        constants |= {"FIRST": sweeps[0], "LAST": sweeps[1], "P": max(power_of_2(shape.splits), 2)}
        if shape.splits == 1:
            constants["splits"] = 1
    names = function.arg_names
    signature = {n: "constexpr" if n in constants else kinds[n] for n in names}
    attrs = {(names.index(n),): [["tt.divisibility", 16]] for n in wide if n not in constants}
    source = ASTSource(function, signature, {(names.index(n),): v for n, v in constants.items()}, attrs)
    options: dict[str, Any] = {"num_warps": shape.warps, "enable_fp_fusion": False}
    if target.backend == "cuda":
        options["maxnreg"] = available(shape.warps, Device())
    made = triton.compile(source, target=target, options=options)
    entries = constants["R"] * max((block for n, block in constants.items() if n.startswith("B_")), default=1)
    entries = max(1, entries // (shape.warps * target.warp_size))
    passes = 1 if shape.kind == "rows" else 2
    label = stage.name if sweeps == (0, ALL) else f"{stage.name} {sweeps[0]}-{'' if sweeps[1] == ALL else sweeps[1]}"
    read = nvidia if target.backend == "cuda" else amd
    return read(f"{label} {shape.kind}", shape, made, entries * passes)


def nvidia(kernel: str, shape: Shape, made: Any, entries: int) -> Machine:
    """Read a cubin through cuobjdump and nvdisasm."""
    from triton import knobs

    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(made.asm["cubin"])
        file.flush()
        usage = subprocess.run(
            [knobs.nvidia.cuobjdump.path, "-res-usage", file.name], capture_output=True, text=True, check=True
        ).stdout
        text = subprocess.run(
            [knobs.nvidia.nvdisasm.path, "-c", file.name], capture_output=True, text=True, check=True
        ).stdout
    numbers = {k: int(v) for k, v in re.findall(r"(REG|STACK|SHARED|LOCAL):(\d+)", usage)}
    lines = [m[1] for m in re.finditer(r"^\s+/\*[0-9a-f]{4,}\*/\s+(.*?);", text, re.M)]
    plain = [re.sub(r"^@!?U?P\d+\s+", "", line) for line in lines]
    ops = [line.split()[0] for line in plain if line]
    stack = numbers.get("STACK", 0) + numbers.get("LOCAL", 0)
    spills = sum(4 * _words(op) for op in ops if op.startswith(("STL", "LDL")))
    if stack <= stack_of(made.asm["ptx"]):
        spills = 0  # what moves is its own arrays' (a sine has one)
    return Machine(
        kernel,
        shape,
        numbers.get("REG", 0),
        spills,
        int(made.metadata.shared),
        len([op for op in ops if op != "NOP"]),
        _widths(op for op in ops if op.startswith("LDG")),
        _widths(op for op in ops if op.startswith("STG")),
        (sum(op.startswith("MUFU.EX2") for op in ops) + wide_exps(made.asm["ptx"])) // entries,
    )


def wide_exps(ptx: str) -> int:
    """The exponentials in float64 of a text for NVIDIA's assembler, which are polynomials there: each begins with an
    fma of x and log2 e."""
    log2e = "0d3FF71547652B82FE"
    held = set(re.findall(rf"mov\.[fb]64\s+(%\w+),\s*{log2e}", ptx)) | {log2e}
    terms = [set(re.split(r",\s*", m)) for m in re.findall(r"fma\.rn\.f64\s+([^;]+);", ptx)]
    return sum(bool(held & t) for t in terms)


def _words(op: str) -> int:
    return int(found[1]) // 32 if (found := re.search(r"\.(64|128)", op)) else 1


def _widths(ops: Iterator[str]) -> dict[int, int]:
    found: Counter[int] = Counter()
    for op in ops:
        parts = op.split(".")
        width = next((int(p) for p in parts if p in ("64", "128", "256")), 32)
        if any(p in ("U8", "S8") for p in parts):
            width = 8
        elif any(p in ("U16", "S16") for p in parts):
            width = 16
        found[width] += 1
    return dict(sorted(found.items()))


def amd(kernel: str, shape: Shape, made: Any, entries: int) -> Machine:
    """Read the text of an AMD kernel."""
    text = made.asm["amdgcn"]
    number = {
        k: int(v) for k, v in re.findall(r"^\s+\.(vgpr_count|vgpr_spill_count|sgpr_spill_count):\s+(\d+)", text, re.M)
    }
    ops = re.findall(r"^\s+([a-z]+_[a-z0-9_]+)\s", text.partition(".section")[0] or text, re.M)
    sizes_of = {
        "dwordx4": 128,
        "dwordx3": 96,
        "dwordx2": 64,
        "dword": 32,
        "ushort": 16,
        "short": 16,
        "ubyte": 8,
        "byte": 8,
    }

    def widths(kind: str) -> dict[int, int]:
        found: Counter[int] = Counter()
        for op in ops:
            m = re.match(rf"(?:global|buffer|flat)_{kind}_(\w+)", op)
            if m:
                word = m[1].removesuffix("_d16_hi").removesuffix("_d16")
                found[next((w for name, w in sizes_of.items() if word.startswith(name)), 16)] += 1
        return dict(sorted(found.items()))

    return Machine(
        kernel,
        shape,
        number.get("vgpr_count", 0),
        4 * (number.get("vgpr_spill_count", 0)),
        int(made.metadata.shared),
        len([op for op in ops if op != "s_nop"]),
        widths("load"),
        widths("store"),
        sum(op.startswith(("v_exp_f32", "v_rndne_f64")) for op in ops) // entries,  # in float64 it rounds x/ln 2
    )
