"""What commands share: finding the text that an argument means, and reporting on it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NoReturn

import click

from lossdsl.cli import CALL_IS_WRONG
from lossdsl.registry import LossFile, Registry
from lossdsl.source.diagnostic import Diagnostic
from lossdsl.source.text import Source

Format = Literal["terminal", "json", "github"]
LARGEST = 64 * 1024  # bytes of a .loss file


def fail(message: str) -> NoReturn:
    """The call is wrong: say why on stderr, and exit with 2."""
    raise click.UsageError(message)


def discovered() -> Registry:
    """The registry of this installation, with a line on stderr for each plugin that can't be used.

    A name that two plugins bring exits with 2; so does, under `lossdsl --strict`, a plugin that can't be used.
    """
    from lossdsl.plugins import PluginConflictError, PluginFailedError, discover

    try:
        registry = discover(environment())
    except PluginConflictError as error:
        for conflict in error.conflicts:
            show(conflict.origin.source, [conflict.problem])
        sys.exit(CALL_IS_WRONG)
    except PluginFailedError as error:
        fail(str(error))
    for failure in registry.failures:
        if not failure.disabled:
            click.echo(f"warning[{failure.code}]: {failure}", err=True)
    return registry


def environment() -> dict[str, str]:
    """The variables of this process, with what `lossdsl --strict` adds."""
    context = click.get_current_context(silent=True)
    strict = context is not None and context.find_root().params.get("strict")
    return {**os.environ, **({"LOSSDSL_STRICT_PLUGINS": "1"} if strict else {})}


def is_path(target: str) -> bool:
    """Whether an argument means a file rather than a loss's name."""
    return target == "-" or target.endswith(".loss") or Path(target).is_file()


def find(registry: Registry, name: str) -> LossFile:
    """A loss by its name; exit with 2 and a suggestion if there is none."""
    from lossdsl.packs.lookup import UnknownLossError, find_loss

    try:
        return find_loss(registry.losses, name, registry.failures)
    except UnknownLossError as error:
        fail(str(error))


def read_target(target: str, registry: Registry | None = None) -> Source:
    """The text that an argument means: a path, `-` for the standard input, or the name of a loss."""
    if is_path(target):
        return read_path(target)
    found = find(registry or discovered(), target)
    return read_path(found.path, found.owner)


def read_path(path: str, owner: str = "") -> Source:
    """A file's text, which a distribution may have shipped; exit with 2 if it can't be read."""
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        fail(f"{path}: {error.strerror or error}" + (f" ({owner})" if owner else ""))
    return decode(data, "<stdin>" if path == "-" else path, owner)


def decode(data: bytes, name: str, owner: str = "") -> Source:
    """The Source of a file's bytes; exit with 2 if they are no text that could be a .loss file."""
    if len(data) > LARGEST:
        fail(f"{name} has {len(data)} bytes; a .loss file has at most {LARGEST}")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        fail(f"{name} is not UTF-8: byte {error.start} is 0x{data[error.start]:02x}")
    return Source(name, text.replace("\r\n", "\n").replace("\r", "\n"), owner)


def show(source: Source, diagnostics: Sequence[Diagnostic], form: Format = "terminal") -> None:
    """Print diagnostics: for a person on stderr, for GitHub on stdout. JSON is put together by the command."""
    from lossdsl.source.render import render_github, render_terminal, wants_colour

    if not diagnostics:
        return
    if form == "github":
        click.echo(render_github(source, diagnostics), nl=False)
    else:
        colour = wants_colour(sys.stderr)
        click.echo(render_terminal(source, diagnostics, colour), err=True, color=colour)


def known_device(_: click.Context, __: click.Parameter, device: str) -> str:
    """A device as given with --device, of a type that torch knows; exit with 2 if it isn't."""
    from lossdsl.backends.manager import BackendError, device_type

    try:
        return device_type(device)
    except BackendError as error:
        raise click.BadParameter(str(error)) from None


def chosen_heads(settings: Sequence[str]) -> dict[str, str]:
    """`linear` or `NAME=linear` as given with --head, as `pipeline.middle` takes it among the modes."""
    heads = {}
    for setting in settings:
        name, equals, kind = setting.partition("=")
        heads[f"head.{name}" if equals else "head"] = kind if equals else name
    return heads


def chosen_modes(settings: Sequence[str]) -> dict[str, str]:
    """`PARAM=NAME` as given with --mode."""
    chosen = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not (name and equals and value):
            fail(f"--mode {setting}: write PARAM=NAME")
        chosen[name] = value
    return chosen


def chosen_sizes(text: str) -> dict[str, int]:
    """Sizes of axes from an option; exit with 2 where it isn't like N=1024,C=32000."""
    sizes = {}
    for part in text.split(","):
        axis, _, number = part.partition("=")
        if not number.strip().isdigit():
            fail(f"--size is like N=1024,C=32000, not {text!r}")
        sizes[axis.strip()] = int(number)
        if not 0 < int(number) < 2**31:
            fail(f"--size {part.strip()}: a size is from 1 to 2147483647")
    return sizes
