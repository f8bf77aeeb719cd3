"""The Python function of a program that multiplies matrices: it makes the results and launches the stages."""

from __future__ import annotations

from collections.abc import Sequence

from lossdsl.backends.api import KernelProgram, axis_sizes, free_axes, size_argument
from lossdsl.backends.triton.arguments import size, sizes, tile_axis
from lossdsl.backends.triton.blocks import stops, width
from lossdsl.backends.triton.host import _given, _names, _new, launch, summed
from lossdsl.backends.triton.kernel import kernels
from lossdsl.backends.triton.layout import wrapped
from lossdsl.backends.triton.products import Tiled
from lossdsl.backends.triton.separating import Product, Side
from lossdsl.backends.triton.sharing import shared, tiles
from lossdsl.backends.triton.spell import identifier
from lossdsl.backends.triton.stages import Stage
from lossdsl.backends.triton.tiles import plain_buffers, tile_kernels


def tile_function(program: KernelProgram, products: Sequence[Product], stages: Sequence[Tiled | Stage]) -> str:
    """The text of a program's kernels, of how they are launched, and of the function that the module offers. It takes
    by the keyword `wanted` which cotangents of factors and biases are, in the order of its results, and has as
    attributes how often it multiplies: in all, and once more for the cotangents of columns."""
    kind = program.name.rpartition(".")[2]
    ins = [b for b in program.buffers if b.role in ("in", "param")]
    outs = [b for b in program.buffers if b.role == "out"]
    cotangents = [x.cotangent for p in products for x in _sides(p) if x.cotangent]
    parts: list[str] = []
    for stage in stages:
        texts = tile_kernels(stage) if isinstance(stage, Tiled) else kernels(stage)
        parts += [text for text in texts if text]
        parts.append(_launch(stage) if isinstance(stage, Tiled) else launch(stage))
    loose = free_axes(program)
    signature = [f"{identifier(b.name)}: Tensor" for b in ins]
    signature += ["*", *(f"{size_argument(a)}: int" for a in loose)]
    signature.append(f"wanted: tuple[bool, ...] = {(True,) * len(cotangents)}")
    lines = wrapped(f"def {kind}(", signature, ") -> tuple[Tensor | None, ...]:")
    lines += wrapped("    device = device_of(", [identifier(b.name) for b in ins if b.role == "in"], ")")
    reals = [identifier(b.name) for b in ins if b.role == "in" and b.dtype == "real"]
    lines += wrapped("    real = arithmetic_of(", reals, ")")
    found = axis_sizes(program, {b.name: identifier(b.name) for b in ins})
    lines += [f"    {size(axis)} = {text}" for axis, text in found.items() if axis in program.axes]
    lines += [f"    {identifier(name)} = None" for name in cotangents]
    made = {b.name for b in ins} | set(cotangents)
    for b in outs:
        if b.name not in made:
            made.add(b.name)
            lines += _new(b, None)
    for stage in stages:
        buffers = plain_buffers(stage, stage.stage).buffers if isinstance(stage, Tiled) else stage.buffers
        for b in buffers:
            if b.name not in made:
                made.add(b.name)
                lines += _new(b, None)
        plain = stage.stage if isinstance(stage, Tiled) else stage
        if isinstance(stage, Tiled):
            lines += _run(stage, cotangents)
        else:
            lines += wrapped(f"    {stage.name.upper()}.run(", _given(stage), ")")
        for total in plain.totals:
            lines.append(summed(total))
            made.add(f"{total.value.name}@sum")
    results = [identifier(b.name) for b in outs]
    lines += wrapped("    return (", [*results[:-1], f"{results[-1]},"] if len(results) == 1 else results, ")")
    lines.append("")
    lines.append("")
    times = sum(s.times for s in stages if isinstance(s, Tiled))
    flips = any(isinstance(s, Tiled) and s.flipped is not None for s in stages)
    lines.append(f"{kind}.times = {times + flips}")
    return "\n\n".join(part.rstrip("\n") + "\n" for part in [*parts, "\n".join(lines)])


def _sides(p: Product) -> tuple[Side, ...]:
    return tuple(x for x in (p.left, p.right, p.bias) if x is not None)


def _launch(t: Tiled) -> str:
    """The constant that launches a stage."""
    flipped = t.flipped
    rows = plain_buffers(t, t.stage)
    columns = plain_buffers(t, flipped) if flipped is not None else None
    (row,), column = t.stage.rows, t.other[0].axes[0]
    items = shared(t.stage, on_chip=False)
    inner = tiles(items) if flipped is None else max(tiles(items), tiles(shared(flipped, on_chip=False)))
    given = [
        f"_{t.stage.name}_tiles",
        "None" if flipped is None else f"_{flipped.name}_tiles",
        f'row="{identifier(row)}"',
        f'column="{identifier(column)}"',
        f"sizes=({_sizes(rows, column)}, {_sizes(columns, column)})",
        f"tensors=({_tensors(rows)}, {_tensors(columns)})",
        "products=[" + ", ".join(f'("{identifier(p.matrix)}", {p.bias is not None})' for p in t.products) + "]",
        f"tiles={inner}",
        f"parts={width(items)}",
        f"stops={list(stops(items))}",
    ]
    return "\n".join(wrapped(f"{t.stage.name.upper()} = Multiply(", given, ")"))


def _sizes(stage: Stage | None, column: str) -> str:
    if stage is None:
        return "()"
    return _names(tuple(dict.fromkeys((*sizes(stage), column))))


def _tensors(stage: Stage | None) -> str:
    if stage is None:
        return "[]"
    found = []
    for b in stage.buffers:
        tile = tile_axis(stage, b)
        place = b.axes.index(tile) if tile is not None else None
        found.append(f"({_names(b.axes)}, {place})")
    return f"[{', '.join(found)}]"


def _run(t: Tiled, cotangents: Sequence[str]) -> list[str]:
    """The lines that launch a stage."""
    axes = dict.fromkeys((*sizes(plain_buffers(t, t.stage)), t.other[0].axes[0]))
    if t.flipped is not None:
        axes |= dict.fromkeys(sizes(plain_buffers(t, t.flipped)))
    extents = ", ".join(f'"{identifier(a)}": {size(a)}' for a in axes)
    both = [[identifier(b.name) for b in plain_buffers(t, s).buffers] if s is not None else [] for s in _stages(t)]
    factors = []
    targets = []
    for p, own, other in zip(t.products, t.own, t.other, strict=True):
        bias = p.bias if p.bias is not None else None
        sides = (own, other, bias)
        here = p.cotangent in {b.name for b in t.stage.buffers}
        wanted = [_wanted(side, cotangents) if here else "False" for side in sides]
        name = "None" if bias is None else identifier(bias.buffer)
        factors.append(f"Factors({identifier(own.buffer)}, {identifier(other.buffer)}, {name}, ({', '.join(wanted)}))")
        names = [identifier(s.cotangent) if s is not None and s.cotangent and here else "_" for s in sides]
        targets.append(f"({', '.join(names)})")
    call = wrapped(
        f"    {', '.join(targets)}, = {t.stage.name.upper()}.run(",
        [
            "device",
            "real",
            f"{{{extents}}}",
            f"([{', '.join(both[0])}], [{', '.join(both[1])}])",
            f"[{', '.join(factors)}]",
        ],
        ")",
    )
    return call


def _stages(t: Tiled) -> tuple[Stage, Stage | None]:
    return t.stage, t.flipped


def _wanted(side: Side | None, cotangents: Sequence[str]) -> str:
    if side is None or not side.cotangent:
        return "False"
    return f"wanted[{cotangents.index(side.cotangent)}]"
