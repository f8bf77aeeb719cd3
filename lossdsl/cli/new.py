"""lossdsl new: a loss, a pack of losses or a backend to begin with."""

from __future__ import annotations

from pathlib import Path

import click

from lossdsl.cli._files import fail

AFTER = {
    "loss": "try:  lossdsl check {first}",
    "pack": "try:  cd {root} && pip install --editable '.[test]' && pytest",
    "backend": "try:  cd {root} && pip install --editable '.[test]' && pytest",
}


@click.command("new")
@click.argument("kind", type=click.Choice(["loss", "pack", "backend"]))
@click.argument("name")
@click.option("--directory", "-d", default=".", show_default=True, type=click.Path(file_okay=False, path_type=Path))
def command(kind: str, name: str, directory: Path) -> None:
    """Write a loss, a pack of losses or a backend that works, with tests and CI, for you to change.

    A loss is NAME.loss with a test beside it; the others are projects in a new folder lossdsl-NAME. Nothing that is
    there is overwritten.
    """
    from lossdsl.scaffold.make import ScaffoldError, checked_name, scaffold

    try:
        checked_name(kind, name, _taken(kind))
        written = scaffold(kind, name, directory)
    except ScaffoldError as error:
        fail(str(error))
    for path in written:
        click.echo(path)
    loss = next((path for path in written if path.suffix == ".loss"), written[0])
    click.echo(AFTER[kind].format(first=loss, root=directory / written[0].relative_to(directory).parts[0]))


def _taken(kind: str) -> dict[str, str]:
    """The names of this kind that are installed. Losses of different packs may have one name."""
    from lossdsl.plugins import survey

    registry, _ = survey()
    if kind == "backend":
        return {name: spec.distribution for name, spec in registry.backends.items()}
    if kind == "pack":
        return {loss.pack: loss.distribution for loss in registry.losses.values()}
    from lossdsl.check.names import SPECIAL
    from lossdsl.check.prelude import prelude

    words = [*SPECIAL, *prelude(), *registry.reductions, *registry.primitives]
    return {loss.name: loss.distribution for loss in registry.losses.values()} | dict.fromkeys(words, "the language")
