"""lossdsl inspect: the machine code of a loss's Triton kernels, for a device that need not be there."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from lossdsl.cli import FILE_IS_WRONG
from lossdsl.cli._files import discovered, fail, read_target, show

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lossdsl.backends.triton.offline import Machine
    from lossdsl.registry import Registry
    from lossdsl.source.text import Source

DTYPES = ("bfloat16", "float16", "float32", "float64")


@click.command("inspect")
@click.argument("what", metavar="LOSS")
@click.option("--target", required=True, help="sm_80, sm_90, sm_100, gfx942, gfx950, …")
@click.option("--dtype", type=click.Choice(DTYPES), default="bfloat16", show_default=True)
@click.option(
    "--length",
    "lengths",
    multiple=True,
    type=click.IntRange(1, 2**31 - 1),
    help="Of a row, or of features that are multiplied; may be repeated.",
)
@click.option("--all", "every", is_flag=True, help="Every kernel in every shape that can be chosen (minutes).")
@click.option("--packed", is_flag=True, help="Rows that start anywhere, as those of an odd length do.")
@click.option("--json", "as_json", is_flag=True, help="The same as records for programs.")
def command(
    what: str, target: str, dtype: str, lengths: tuple[int, ...], every: bool, packed: bool, as_json: bool
) -> None:
    """Compile the kernels of LOSS for a target: registers, spilled bytes, shared memory, instructions, widths of global
    loads and stores, exponentials an entry. No GPU is needed."""
    from lossdsl.backends.api import NotSupportedError
    from lossdsl.backends.triton.emit import probe
    from lossdsl.backends.triton.offline import target_of
    from lossdsl.source.diagnostic import DiagnosticError

    if not (answer := probe()).ok:
        fail(answer.reason)
    registry = discovered()
    source = read_target(what, registry)
    try:
        target_of(target)
        found = []
        for machine in machines(source, registry, target, dtype, lengths, every, packed):
            found.append(machine)
            if not as_json:
                click.echo(line(machine))
    except DiagnosticError as error:
        show(error.source, error.diagnostics)
        sys.exit(FILE_IS_WRONG)
    except NotSupportedError as error:
        fail(f"the Triton backend can't print this loss: {error}")
    except ValueError as error:
        fail(str(error))
    if as_json:
        click.echo(json.dumps([asdict(m) for m in found], indent=2))


def machines(
    source: Source, registry: Registry, target: str, dtype: str, lengths: Sequence[int], every: bool, packed: bool
) -> Iterator[Machine]:
    """The kernels of a loss; where it has no row-wise ones, those that go over tiles of its matrices."""
    from lossdsl.backends.api import NotSupportedError, Plan
    from lossdsl.backends.triton.offline import inspected
    from lossdsl.backends.triton.offline_tiles import inspected_tiles
    from lossdsl.pipeline import middle, module_kernels, tile_programs

    made = middle(source, registry)
    kernels = module_kernels(made, registry, one_visit=True)
    wanted = tuple(k.program for k in kernels if every or k.name in ("value", "gradient", "both"))
    sizes = None if every else lengths or (1000, 32000)
    try:
        yield from inspected(Plan(wanted), registry, target, dtype, sizes, aligned=not packed)
    except NotSupportedError:
        tiles = {n: p for n, p in tile_programs(made, registry).items() if every or "params" not in n}
        if not tiles:
            raise
        for program in tiles.values():
            yield from inspected_tiles(Plan((program,)), registry, target, dtype, lengths or (64, 128))


def line(m: Machine) -> str:
    """A kernel in two lines."""
    s = m.shape
    rows = f"{s.rows} row{'s' if s.rows > 1 else ''} of {s.block}" if s.kind == "rows" else f"blocks of {s.block}"
    if s.kind == "tiles":
        rows = f"tiles of {s.rows} × {s.block}"
    split = f", {s.splits} programs a row" if s.splits > 1 else ""
    return (
        f"{m.kernel}: {rows}{split}, {s.warps} warps\n"
        f"  {m.registers} registers, {m.spilled} bytes spilled, {m.shared} bytes shared, "
        f"{m.instructions} instructions, {m.exps} exp an entry\n"
        f"  loads {_widths(m.loads)}; stores {_widths(m.stores)}"
    )


def _widths(counts: dict[int, int]) -> str:
    return ", ".join(f"{n} of {bits} bits" for bits, n in reversed(counts.items())) or "none"
