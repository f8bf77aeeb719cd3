"""lossdsl bench: losses on backends against baselines."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lossdsl.cli import FILE_IS_WRONG
from lossdsl.cli._files import chosen_heads, chosen_sizes, discovered, fail, read_target, show
from lossdsl.cli._rivals import RIVALS, label, rival

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from lossdsl.registry import Registry
    from lossdsl.source.text import Source

SHAPES = ("N=1024,C=32000", "N=4096,C=1000", "N=65536,C=100", "N=65536,C=10", "N=32,C=10")
HEAD_SHAPES = ("N=4096,D=512,C=32000",)
DTYPES = ("float32", "float64", "bfloat16", "float16")


@click.command("bench")
@click.argument("losses", metavar="LOSS…", nargs=-1, required=True)
@click.option("--size", "shapes", multiple=True, metavar="N=1024,C=32000", help="Sizes of the axes; may be repeated.")
@click.option(
    "--backend", "backends", multiple=True, help="Which to time (cpu, on a GPU triton, and torch by default)."
)
@click.option("--baseline", "baselines", multiple=True, help="clone, copy, exp, eager, compile (all but the last).")
@click.option("--dtype", type=click.Choice(DTYPES), default="float32", show_default=True)
@click.option("--device", default="cpu", show_default=True)
@click.option("--cache", type=click.Choice(["cold", "hot"]), default="cold", help="A GPU's second-level cache.")
@click.option("--rounds", type=click.IntRange(2), default=30, show_default=True)
@click.option("--threads", type=click.IntRange(1), help="Threads of torch and of the kernels.")
@click.option(
    "--against",
    "rivals",
    multiple=True,
    metavar="NAME|MODULE:FUNCTION",
    help="Time that, too: of the inputs that have no default, the mean loss. Cross-entropies by name: "
    f"{', '.join(RIVALS)}.",
)
@click.option(
    "--head", "heads", multiple=True, metavar="linear|LOGITS=linear", help="With hidden states of D features."
)
@click.option("--std", "spread", default=2.0, show_default=True, help="Standard deviation of the logits of a head.")
@click.option("--inplace", is_flag=True, help="The first backend once more, with gradients written over the logits.")
@click.option(
    "--json",
    "out",
    type=click.Path(dir_okay=False, path_type=Path, allow_dash=True),
    help="Write the figures there, too; - prints them, and the tables to stderr.",
)
def command(
    losses: tuple[str, ...],
    shapes: tuple[str, ...],
    backends: tuple[str, ...],
    baselines: tuple[str, ...],
    dtype: str,
    device: str,
    cache: str,
    rounds: int,
    threads: int | None,
    rivals: tuple[str, ...],
    heads: tuple[str, ...],
    spread: float,
    inplace: bool,
    out: Path | None,
) -> None:
    """Time value and gradient of each LOSS, in one process, interleaved; wrong gradients are not timed."""
    import torch

    from lossdsl import bench
    from lossdsl.backends.manager import BackendError
    from lossdsl.source.diagnostic import DiagnosticError

    unknown = [b for b in baselines if b not in bench.BASELINES]
    if unknown:
        fail(f"there is no baseline {unknown[0]!r}; there are {', '.join(bench.BASELINES)}")
    if threads:
        torch.set_num_threads(threads)
    registry = discovered()
    reports = []
    for name in losses:
        source = read_target(name, registry)
        for shape in shapes or (HEAD_SHAPES if heads else SHAPES):
            try:
                report = bench.measure(
                    source,
                    registry,
                    chosen_sizes(shape),
                    backends=backends or ("triton" if device == "cuda" else "cpu", "torch"),
                    baselines=baselines or (("plain", "matmuls") if heads else bench.BASELINES[:4]),
                    dtype=getattr(torch, dtype),
                    device=device,
                    rounds=rounds,
                    others=others(rivals, source, registry, chosen_heads(heads)),
                    heads=chosen_heads(heads),
                    spread=spread,
                    inplace=inplace,
                    cold=cache == "cold",
                    spare=not shapes,
                )
            except DiagnosticError as error:
                show(error.source, error.diagnostics)
                sys.exit(FILE_IS_WRONG)
            except (BackendError, ValueError, bench.WrongGradientError) as error:
                fail(str(error))
            except RuntimeError as error:  # torch has no error of its own for memory of the CPU
                if not any(word in str(error) for word in ("allocate", "out of memory", "overflow")):
                    raise
                fail(f"{shape} takes more memory than there is: {str(error).splitlines()[0]}")
            reports.append(report)
            click.echo(bench.table(report), err=out == Path("-"))
    if out is not None:
        figures = json.dumps([r.as_json() for r in reports], indent=2) + "\n"
        if out == Path("-"):
            click.echo(figures, nl=False)
        else:
            out.write_text(figures, encoding="utf-8")


def others(
    names: Sequence[str], source: Source, registry: Registry, heads: dict[str, str]
) -> dict[str, Callable[..., Tensor]]:
    """Functions of somebody else's as baselines; exit with 2 if there is none of a name."""
    from lossdsl.pipeline import middle

    if not names:
        return {}
    inputs = middle(source, registry, heads).checked.inputs
    wanted = [k for k, i in enumerate(inputs) if i.default is None and i.draw is None]

    def of_wanted(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return lambda *tensors: function(*(tensors[k] for k in wanted))

    found = {}
    for name in names:
        try:
            found[label(name)] = of_wanted(rival(name, bool(heads)))
        except (ImportError, AttributeError, ValueError) as error:
            fail(f"--against {name}: {error}")
    return found
