"""lossdsl show: a loss as its paper would show it."""

from __future__ import annotations

import sys

import click

from lossdsl.cli import FILE_IS_WRONG
from lossdsl.cli._files import discovered, fail, find, is_path, read_path, show


@click.command("show")
@click.argument("name", metavar="LOSS")
@click.option("--source", "only_text", is_flag=True, help="Print the .loss file itself.")
@click.option("--path", "only_path", is_flag=True, help="Print where the file is.")
@click.option("--plot", metavar="FILE.png", help="Draw the curves into a file (png, svg or pdf) instead.")
def command(name: str, only_text: bool, only_path: bool, plot: str | None) -> None:
    """Show a LOSS: what it is, the paper, inputs and params, equation, gradient, and both as curves.

    LOSS is the name of an installed one (focal, std/focal, an alias) or a path.
    """
    registry = discovered()
    if is_path(name):
        source = read_path(name)
        if only_text or only_path:
            click.echo(name if only_path else source.text, nl=only_path)
            return
    else:
        loss = find(registry, name)
        if only_text or only_path:
            click.echo(loss.path if only_path else loss.read(), nl=only_path)
            return
        source = read_path(loss.path)
    from lossdsl.cli._plot import picture, terminal
    from lossdsl.curves import curve
    from lossdsl.explain import mathematics, mathematics_in_words
    from lossdsl.pipeline import middle
    from lossdsl.source.diagnostic import DiagnosticError

    try:
        made = middle(source, registry)
    except DiagnosticError as error:
        show(error.source, error.diagnostics)
        sys.exit(FILE_IS_WRONG)
    drawn = curve(made, registry)
    if plot is not None:
        if drawn is None:
            fail(f"{made.checked.name} has no curve: it is a map, or has no example or no input with a gradient")
        try:
            picture(drawn, made.checked.name, plot)
        except ImportError:
            fail("--plot needs matplotlib: pip install matplotlib")
        except (OSError, ValueError) as error:
            fail(f"{plot}: {error}")
        click.echo(f"wrote {plot}")
        return
    record = mathematics(made, registry)
    lines = mathematics_in_words(record)
    if record["claims"]:
        lines += ["", "The file claims", *(f"  {claim}" for claim in record["claims"])]
    click.echo("\n".join(lines))
    if drawn is not None:
        click.echo(f"\n{terminal(drawn, made.checked.name)}")
