"""lossdsl show: the text of a loss."""

from __future__ import annotations

import click

from lossdsl.cli._files import discovered, find


@click.command("show")
@click.argument("name", metavar="LOSS")
@click.option("--path", "only_path", is_flag=True, help="Print where the file is instead.")
def command(name: str, only_path: bool) -> None:
    """Print the .loss file of an installed LOSS: focal, std/focal, or an alias."""
    loss = find(discovered(), name)
    click.echo(loss.path if only_path else loss.read(), nl=only_path)
