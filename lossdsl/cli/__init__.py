"""The command line. One file a command in this folder, found by name and imported when it is called.

Exit codes: 0; 1 the file is wrong; 2 the call is wrong; 70 lossdsl itself is at fault.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

import click

from lossdsl import __version__

FILE_IS_WRONG = 1
CALL_IS_WRONG = 2
OUR_FAULT = 70
HERE = Path(__file__).parent


class Commands(click.Group):
    """A group whose commands are the files of this folder; those with a leading underscore are helpers."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(path.stem for path in HERE.glob("*.py") if not path.stem.startswith("_"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        command = import_module(f"{__name__}.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not name.startswith("-") and name not in self.list_commands(ctx):
            from lossdsl.source.suggest import closest

            near = closest(name, self.list_commands(ctx))
            ctx.fail(f"there is no command {name!r}" + (f"; did you mean {near!r}?" if near else ""))
        return super().resolve_command(ctx, args)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="lossdsl", message="%(prog)s %(version)s")
@click.option("--strict", is_flag=True, help="A plugin that can't be used stops the command.")
def group(strict: bool) -> None:
    """Losses as mathematics, compiled to fused kernels with proved gradients."""


def main() -> None:
    """The entry point `lossdsl`. What is not the user's mistake is reported as ours, without a traceback unless
    LOSSDSL_DEBUG=1."""
    from lossdsl.source.diagnostic import InternalError

    try:
        group(prog_name="lossdsl")
    except InternalError as error:
        _ours(str(error), error)
    except Exception as error:
        place = f"{type(error).__name__}: {error}"
        _ours(f"{place}\nThis is a fault of lossdsl, not of your file. Please report it with the .loss file.", error)


def _ours(text: str, error: Exception) -> None:
    if os.environ.get("LOSSDSL_DEBUG") == "1":
        raise error
    click.echo(f"internal error: {text}\nLOSSDSL_DEBUG=1 shows where.", err=True)
    sys.exit(OUR_FAULT)
