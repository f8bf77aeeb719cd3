"""lossdsl fmt: one spelling for each .loss file."""

from __future__ import annotations

import sys
from difflib import unified_diff
from pathlib import Path

import click

from lossdsl.cli import FILE_IS_WRONG
from lossdsl.cli._files import read_path, show


@click.command("fmt")
@click.argument("files", nargs=-1, required=True, metavar="FILES...")
@click.option("--check", "only_check", is_flag=True, help="Change nothing; exit with 1 if a file isn't formatted.")
@click.option("--diff", "as_diff", is_flag=True, help="Change nothing; print what would change.")
@click.option(
    "--move-inside", is_flag=True, help="Move a sign or factor outside the returned mean or sum into it (W0507)."
)
def command(files: tuple[str, ...], only_check: bool, as_diff: bool, move_inside: bool) -> None:
    """Format FILES in place; `-` formats the standard input onto the standard output.

    A file that doesn't parse is left alone and reported.
    """
    from lossdsl.source.diagnostic import DiagnosticError
    from lossdsl.syntax.format import format_loss
    from lossdsl.syntax.inside import moved_inside

    wrong = changed = 0
    for file in files:
        source = read_path(file)
        try:
            text = format_loss(moved_inside(source) if move_inside else source)
        except DiagnosticError as error:
            show(source, error.diagnostics)
            wrong += 1
            continue
        if file == "-" and not (only_check or as_diff):
            click.echo(text, nl=False)
            continue
        if _unchanged(file, source.text, text):
            continue
        changed += 1
        if as_diff:
            before, after = source.text.splitlines(keepends=True), text.splitlines(keepends=True)
            click.echo("".join(unified_diff(before, after, file, f"{file} (formatted)")), nl=False)
        elif only_check:
            click.echo(f"{source.name} is not formatted; `lossdsl fmt {source.name}` does it", err=True)
        else:
            Path(file).write_bytes(text.encode())
            click.echo(f"formatted {file}")
    if wrong or (changed and (only_check or as_diff)):
        sys.exit(FILE_IS_WRONG)


def _unchanged(file: str, before: str, after: str) -> bool:
    """Whether the file's very bytes are those of its formatted text: line ends and a byte order mark count."""
    return before == after if file == "-" else Path(file).read_bytes() == after.encode()
