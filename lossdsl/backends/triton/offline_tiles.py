"""Compiling the kernels that multiply matrices for a device that isn't there, and reading what they have become."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

from lossdsl.backends.api import KernelProgram, Plan
from lossdsl.backends.triton.arguments import sizes, tile_axis
from lossdsl.backends.triton.blocks import stops
from lossdsl.backends.triton.launch import ALL
from lossdsl.backends.triton.multiply import LEAST, PART, TileShape, tile_shape
from lossdsl.backends.triton.offline import TYPES, Machine, _type, amd, module_of, nvidia, target_of
from lossdsl.backends.triton.products import Tiled, tiled
from lossdsl.backends.triton.shapes import Device, Shape, available, power_of_2
from lossdsl.backends.triton.sharing import shared, tiles
from lossdsl.backends.triton.spell import identifier
from lossdsl.backends.triton.stages import Stage
from lossdsl.backends.triton.tiles import plain_buffers
from lossdsl.registry import Registry


def inspected_tiles(
    plan: Plan, registry: Registry, target: str, dtype: str = "float32", features: Sequence[int] = (64,)
) -> Iterator[Machine]:
    """Compile every kernel of a plan's products for a target, for sums of so many features."""
    to, device = target_of(target)
    module = module_of(plan, registry)
    for program in plan.programs:
        for t in tiled(program)[1]:
            if not isinstance(t, Tiled):
                continue
            for count in features:
                shape = shape_for(t, dtype == "float64", device)
                yield _compiled(module, program, t, t.stage, shape, count, (0, ALL), to, dtype)
                ends = stops(shared(t.stage, on_chip=False))
                if ends:  # rows that several programs share
                    yield _compiled(module, program, t, t.stage, shape, count, (0, ends[0]), to, dtype)
                if t.flipped is not None:
                    yield _compiled(module, program, t, t.flipped, shape, count, (0, ALL), to, dtype)


def shape_for(t: Tiled, wide: bool, device: Device) -> TileShape:
    """The tile that is chosen for a stage."""
    alive = [tiles(shared(s, on_chip=False)) for s in (t.stage, t.flipped) if s is not None]
    return tile_shape(max(alive), wide, device)


def _compiled(
    module: ModuleType,
    program: KernelProgram,
    t: Tiled,
    stage: Stage,
    shape: TileShape,
    features: int,
    sweeps: tuple[int, int],
    target: Any,
    dtype: str,
) -> Machine:
    """Compile one kernel for tensors that lie plainly."""
    import triton
    import triton.language as tl
    from triton.compiler import ASTSource

    half = TYPES[dtype]
    real = "fp64" if half == "fp64" else "fp32"
    function = getattr(module, f"_{stage.name}_tiles")
    column, by_rows = t.other[0].axes[0], stage is t.stage
    kinds: dict[str, str] = {}
    constants: dict[str, Any] = {}
    plain = plain_buffers(t, stage)
    for b in plain.buffers:
        name = identifier(b.name)
        kinds[name] = _type(program, b, real, real)
        kinds |= {f"{name}_{identifier(a)}": "i32" for a in b.axes}
        if b.axes:
            constants[f"{name}_{identifier(b.axes[-1])}"] = 1
        if tile_axis(plain, b) is not None:
            constants[f"U_{name}"] = 1
    kinds |= {f"n_{identifier(a)}": "i32" for a in (*sizes(plain), column)}
    for p in t.products:
        n = identifier(p.matrix)
        kinds |= {f"own_{n}_": f"*{real}", f"other_{n}_": f"*{real}", f"bias_{n}_": f"*{real}", f"d_{n}_": f"*{real}"}
        kinds |= {f"own_{n}_row_": "i32", f"other_{n}_row_": "i32", f"over_{n}_": "i32", f"d_bias_{n}_": f"*{real}"}
        constants |= {f"own_{n}_over_": 1, f"other_{n}_over_": 1, f"bias_{n}_row_": 1}
        constants[f"F_{n}_"] = max(LEAST, power_of_2(features))
        constants[f"GIVE_{n}_"] = 1 if by_rows else 3
    constants |= {"REAL": tl.float64 if real == "fp64" else tl.float32, "R": shape.rows, "K": PART}
    constants[f"B_{identifier(column)}"] = shape.block
    kinds |= {"part": "*fp64", "splits": "i32"}
    shared_rows = sweeps != (0, ALL)
    constants |= {"FIRST": sweeps[0], "LAST": sweeps[1], "P": 16 if shared_rows else 2}
    if not shared_rows:
        constants["splits"] = 1
    names = function.arg_names
    constants = {n: v for n, v in constants.items() if n in names}
    signature = {n: "constexpr" if n in constants else kinds[n] for n in names}
    aligned = [n for n in names if signature[n].startswith("*") or n.endswith("_row_")]
    attrs = {(names.index(n),): [["tt.divisibility", 16]] for n in aligned if n not in constants}
    source = ASTSource(function, signature, {(names.index(n),): v for n, v in constants.items()}, attrs)
    options: dict[str, Any] = {"num_warps": shape.warps, "num_stages": 1, "enable_fp_fusion": False}
    if target.backend == "cuda":
        options["maxnreg"] = available(shape.warps, Device())
    made = triton.compile(source, target=target, options=options)
    label = f"{stage.name} tiles" + (f" {sweeps[0]}-{sweeps[1]}" if shared_rows else "")
    read = nvidia if target.backend == "cuda" else amd
    entries = max(1, shape.rows * shape.block // (shape.warps * target.warp_size))
    return read(label, Shape("tiles", shape.rows, shape.block, shape.warps), made, entries)
