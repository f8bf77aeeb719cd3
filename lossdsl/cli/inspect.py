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
    from lossdsl.backends.triton.offline import Machine

DTYPES = ("bfloat16", "float16", "float32", "float64")


@click.command("inspect")
@click.argument("what", metavar="LOSS")
@click.option("--target", required=True, help="sm_80, sm_90, sm_100, gfx942, gfx950, …")
@click.option("--dtype", type=click.Choice(DTYPES), default="bfloat16", show_default=True)
@click.option("--length", "lengths", multiple=True, type=click.IntRange(1), help="Of a row; may be repeated.")
@click.option("--all", "every", is_flag=True, help="Every kernel in every shape that can be chosen (minutes).")
@click.option("--packed", is_flag=True, help="Rows that start anywhere, as those of an odd length do.")
@click.option("--json", "as_json", is_flag=True, help="The same as records for programs.")
def command(
    what: str, target: str, dtype: str, lengths: tuple[int, ...], every: bool, packed: bool, as_json: bool
) -> None:
    """Compile the kernels of LOSS for a target: registers, spilled bytes, shared memory, instructions, widths of global
    loads and stores, exponentials an entry. No GPU is needed."""
    from lossdsl.backends.api import NotSupportedError, Plan
    from lossdsl.backends.triton.emit import probe
    from lossdsl.backends.triton.offline import inspected, target_of
    from lossdsl.pipeline import middle, module_kernels
    from lossdsl.source.diagnostic import DiagnosticError

    if not (answer := probe()).ok:
        fail(answer.reason)
    registry = discovered()
    source = read_target(what, registry)
    try:
        target_of(target)
        kernels = module_kernels(middle(source, registry), registry, one_visit=True)
        wanted = tuple(k.program for k in kernels if every or k.name in ("value", "gradient", "both"))
        sizes = None if every else lengths or (1000, 32000)
        found = []
        for machine in inspected(Plan(wanted), registry, target, dtype, sizes, aligned=not packed):
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


def line(m: Machine) -> str:
    """A kernel in two lines."""
    s = m.shape
    rows = f"{s.rows} row{'s' if s.rows > 1 else ''} of {s.block}" if s.kind == "rows" else f"blocks of {s.block}"
    split = f", {s.splits} programs a row" if s.splits > 1 else ""
    return (
        f"{m.kernel}: {rows}{split}, {s.warps} warps\n"
        f"  {m.registers} registers, {m.spilled} bytes spilled, {m.shared} bytes shared, "
        f"{m.instructions} instructions, {m.exps} exp an entry\n"
        f"  loads {_widths(m.loads)}; stores {_widths(m.stores)}"
    )


def _widths(counts: dict[int, int]) -> str:
    return ", ".join(f"{n} of {bits} bits" for bits, n in reversed(counts.items())) or "none"
