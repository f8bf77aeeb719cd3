"""`python -m lossdsl.gallery FOLDER [--pack PACK] [LOSS …]`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from lossdsl.api import registry
from lossdsl.gallery.build import build
from lossdsl.packs.lookup import UnknownLossError, find_loss


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.argument("losses", nargs=-1)
@click.option("--pack", "packs", multiple=True, help="Only losses of this pack; several: of any.")
def main(folder: Path, losses: tuple[str, ...], packs: tuple[str, ...]) -> None:
    """Write a page for each of the LOSSES (all that are installed) into FOLDER."""
    known = registry()
    try:
        found = [find_loss(known.losses, name) for name in losses] or list(known.losses.values())
    except UnknownLossError as error:
        raise click.UsageError(str(error)) from None
    names = sorted(f"{loss.pack}/{loss.name}" for loss in found if not packs or loss.pack in packs)

    def progress(done: int) -> None:
        if sys.stderr.isatty():
            click.echo(f"\r{done} of {len(names)}", nl=False, err=True)

    made = build(known, names, folder, progress)
    click.echo(f"{made} pages: {folder / 'index.html'}")


if __name__ == "__main__":
    main()
