"""The Python function of a program: it makes the results, launches the stages, and sums what spans all rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lossdsl.backends.api import (
    Buffer,
    Island,
    KernelProgram,
    NotSupportedError,
    axis_sizes,
    free_axes,
    overwritable,
    size_argument,
)
from lossdsl.backends.triton.arguments import along, size, sizes, tile_axis
from lossdsl.backends.triton.blocks import stops, width
from lossdsl.backends.triton.demand import demand
from lossdsl.backends.triton.kernel import kernels
from lossdsl.backends.triton.layout import WIDTH, wrapped
from lossdsl.backends.triton.shapes import LONGEST_SORTED
from lossdsl.backends.triton.sharing import shared
from lossdsl.backends.triton.spell import identifier
from lossdsl.backends.triton.stages import Between, Stage, Total
from lossdsl.backends.triton.staging import room

DTYPES = {"int": "torch.int64", "bool": "torch.bool"}


def function(program: KernelProgram, stages: Sequence[Stage], long: Sequence[Stage | Between] = ()) -> str:
    """The text of a program's kernels, of how they are launched, and of the function that the module offers; `long`
    are the launches for rows that `stages` have no room for, which have a function of their own."""
    kind = program.name.rpartition(".")[2]
    ins = [b for b in program.buffers if b.role in ("in", "param")]
    outs = [b for b in program.buffers if b.role == "out"]
    if not any(b.role == "in" for b in ins):
        raise NotSupportedError(f"{kind}, which takes no tensor")
    parts = [
        text
        for stage in (*stages, *long)
        if isinstance(stage, Stage)
        for text in (*kernels(stage), launch(stage, longer=bool(long)))
        if text
    ]
    found = axis_sizes(program, {b.name: identifier(b.name) for b in ins})
    loose = free_axes(program)
    signature = [f"{identifier(b.name)}: Tensor" for b in ins]
    over = written_over(program, stages)
    more = [f"{size_argument(a)}: int" for a in loose]
    more += ["into: Sequence[Tensor | None] = ()"] if over else []
    signature += (["*"] if more else []) + more
    head = wrapped("    device = device_of(", [identifier(b.name) for b in ins if b.role == "in"], ")")
    reals = [identifier(b.name) for b in ins if b.role == "in" and b.dtype == "real"]
    head += wrapped("    real = arithmetic_of(", reals, ")")
    head += [f"    {size(axis)} = {text}" for axis, text in found.items() if axis in program.axes]
    lines = []
    if long:
        lines += wrapped(f"def {kind}_long(", signature, ") -> tuple[Tensor, ...]:")
        lines += [
            '    """The same for rows that have no room on chip."""',
            *head,
            *_body(program, long, outs, {}),
            "",
            "",
        ]
    lines += ["@ahead"] if kind.startswith("both") else []
    lines += wrapped(f"def {kind}(", signature, ") -> tuple[Tensor, ...]:")
    lines += head
    if long:
        limit, alive = room(stages)
        extents = dict.fromkeys(size(a) for stage in stages if stage.whole for a in stage.axes)
        lines.append(f"    if beyond([{', '.join(extents)}], {limit}, {alive}, real, device):")
        given = [identifier(b.name) for b in ins] + [f"{size_argument(a)}={size_argument(a)}" for a in loose]
        lines += wrapped(f"        return {kind}_long(", given, ")")
    lines += _body(program, stages, outs, over)
    if kind == "value":
        lines += ["", "", "value.emulates = interpreted()  # a device: nothing looks at indices before the kernels do"]
    if over:
        names = {name: i for i, name in enumerate(b.name for b in ins)}
        places = ", ".join(f"{i}: {names[over[b.name]]}" for i, b in enumerate(outs) if b.name in over)
        lines += ["", "", f"{kind}.over = {{{places}}}"]
    parts.append("\n".join(lines) + "\n")
    return "\n\n".join(part.rstrip("\n") + "\n" for part in parts)


def _body(
    program: KernelProgram, stages: Sequence[Stage | Between], outs: Sequence[Buffer], over: Mapping[str, str]
) -> list[str]:
    """The lines that make the results, launch the stages and return."""
    lines: list[str] = []
    made = {b.name for b in program.buffers if b.role != "scratch"}
    for i, b in enumerate(outs):
        if b.name in over:
            lines.append(f"    {identifier(b.name)} = into[{i}] if into else None")
            lines.append(f"    if {identifier(b.name)} is None:")
            lines += [f"    {line}" for line in _new(b, like(program, b))]
        else:
            lines += _new(b, like(program, b))
    for stage in stages:
        if isinstance(stage, Between):
            lines.append(_between(stage))
            made.add(stage.result.name)
            continue
        for b in stage.buffers:
            if b.name not in made:
                made.add(b.name)
                lines += _new(b, None)
        given = [*_given(stage), *([f"alone={_alone(over)}"] if over else [])]
        lines += wrapped(f"    {stage.name.upper()}.run(", given, ")")
        for total in stage.totals:
            lines.append(summed(total))
            made.add(f"{total.value.name}@sum")
    results = [identifier(b.name) for b in outs]
    one = [f"    return {', '.join(results)}" + ("," if len(results) == 1 else "")]
    return lines + (one if len(one[0]) <= WIDTH else wrapped("    return (", results, ")"))


def _between(s: Between) -> str:
    """The line that computes an order or sums so far of whole tensors."""
    axes = s.given[0].axes
    given = [identifier(b.name) for b in s.given]
    dim = axes.index(s.axis)
    if s.what == "order":
        given += ["None"] * (2 - len(given))
        text = f"ordered({', '.join(given)}, {dim}, {s.backwards}, {size(s.ranks)})"
    else:
        text = f"sums_so_far({given[0]}, {dim}, {s.backwards})"
    found = [s.ranks if a == s.axis else a for a in axes]
    if tuple(found) != s.result.axes:
        text += f".permute({', '.join(str(found.index(a)) for a in s.result.axes)})"
    return f"    {identifier(s.result.name)} = {text}"


def written_over(program: KernelProgram, stages: Sequence[Stage]) -> dict[str, str]:
    """Of a tile's program, results that may be written over an argument, and over which: one launch makes all, so that
    no later one reads what is gone."""
    if len(stages) != 1 or not stages[0].name.startswith(("tile_", "across_")):
        return {}
    return {out: b for out, b in overwritable(program).items() if out == f"grad_{b}"}


def _alone(over: Mapping[str, str]) -> str:
    """Whether a result lies over an argument, in the function's text."""
    tests = [f"{identifier(out)}.data_ptr() == {identifier(b)}.data_ptr()" for out, b in over.items()]
    return " or ".join(tests)


def like(program: KernelProgram, b: Buffer) -> str | None:
    """The argument whose dtype a result has, being a cotangent of it."""
    for head in ("grad_", "second_"):
        name = b.name.removeprefix(head)
        source = next((x for x in program.buffers if x.name == name and x.role == "in"), None)
        if name != b.name and source is not None and b.dtype == source.dtype == "real" and b.axes == source.axes:
            return name
    return None


def _new(b: Buffer, like_name: str | None) -> list[str]:
    """A tensor of the call's own."""
    shape = ", ".join(size(a) for a in b.axes) + ("," if len(b.axes) == 1 else "")
    dtype = f"{identifier(like_name)}.dtype" if like_name else DTYPES.get(b.dtype, "real")
    return wrapped(f"    {identifier(b.name)} = torch.empty(", [f"({shape})", f"dtype={dtype}", "device=device"], ")")


def _given(stage: Stage) -> list[str]:
    numbers = [size(a) for a in sizes(stage)]
    tensors = [identifier(b.name) for b in stage.buffers]
    return ["device", "real", f"[{', '.join(numbers)}]", f"[{', '.join(tensors)}]"]


def summed(total: Total) -> str:
    """The line that adds up what each row has put down of a sum over rows, in float64."""
    dims = ", ".join(str(i) for i, a in enumerate(total.part.axes) if a in total.axes)
    dims = f"({dims},)" if len(total.axes) == 1 else f"({dims})"
    name = identifier(f"{total.value.name}@sum")
    return f"    {name} = {identifier(total.part.name)}.sum({dims}, dtype=torch.float64)"


def launch(stage: Stage, longer: bool = True) -> str:
    """The constant that launches a stage; `longer`: whether rows that have no room on chip go another way."""
    tensors = []
    for b in stage.buffers:
        tile = tile_axis(stage, b)
        place = b.axes.index(tile) if tile is not None else None
        tensors.append(f"({_names(b.axes)}, {place})")
    second = f"_{stage.name}_blocks" if stage.sweeps and not stage.whole else "None"
    parts = shared(stage, on_chip=False)
    items = [
        f"_{stage.name}_rows",
        second,
        f"rows={_names(stage.rows)}",
        f"sweeps={_names(stage.axes)}",
        f"along={_names(along(stage))}",
        f"sizes={_names(sizes(stage))}",
        f"tensors=[{', '.join(tensors)}]",
        f"demand=({demand(stage, on_chip=True)}, {demand(stage, on_chip=False)})",
        f"parts={width(parts)}",
        f"stops={list(stops(parts))}",
    ]
    if stage.whole and not longer and any(isinstance(s, Island) and s.op == "order" for s in stage.statements):
        items.append(f"longest={LONGEST_SORTED}")
    return "\n".join(wrapped(f"{stage.name.upper()} = Launch(", items, ")"))


def _names(axes: Sequence[str]) -> str:
    inside = ", ".join(f'"{identifier(a)}"' for a in axes)
    return f"({inside},)" if len(axes) == 1 else f"({inside})"
