"""lossdsl compile: a loss as a Python module."""

from __future__ import annotations

import sys
from difflib import unified_diff
from pathlib import Path

import click

from lossdsl.cli import FILE_IS_WRONG
from lossdsl.cli._files import chosen_heads, chosen_modes, discovered, fail, known_device, read_target, show


@click.command("compile")
@click.argument("file", metavar="FILE")
@click.option("-o", "--output", "out", metavar="OUT", default="-", show_default=True, help="Where to write; - prints.")
@click.option("--backend", default="auto", show_default=True, help="torch, triton, cpu, … or the best for the device.")
@click.option(
    "--device", default="cpu", show_default=True, callback=known_device, help="For which `--backend auto` chooses."
)
@click.option("--standalone", is_flag=True, help="For where lossdsl isn't installed: torch (and triton) alone.")
@click.option("--precise", is_flag=True, help="Compute in float64, whatever comes in: gradients within 8 ulp.")
@click.option("--check", "only_check", is_flag=True, help="Write nothing; exit with 1 if OUT isn't what FILE gives.")
@click.option("--mode", "modes", multiple=True, metavar="PARAM=NAME", help="Choose a mode param's function.")
@click.option(
    "--head", "heads", multiple=True, metavar="linear|LOGITS=linear", help="Take hidden states, weight and bias."
)
def command(
    file: str,
    out: str,
    backend: str,
    device: str,
    standalone: bool,
    precise: bool,
    only_check: bool,
    modes: tuple[str, ...],
    heads: tuple[str, ...],
) -> None:
    """Compile FILE (a path, a loss's name, or `-`) to a readable Python module: the same bytes every time."""
    from lossdsl.artifacts.artifact import publish
    from lossdsl.backends.manager import BackendError
    from lossdsl.check.heads import HeadError
    from lossdsl.pipeline import build
    from lossdsl.source.diagnostic import DiagnosticError

    if only_check and out == "-":
        fail("--check compares with a file: say which with -o OUT")
    registry = discovered()
    source = read_target(file, registry)
    options = chosen_modes(modes) | chosen_heads(heads)
    try:
        built = build(source, registry, backend, device=device, modes=options, standalone=standalone, precise=precise)
    except DiagnosticError as error:
        show(error.source, error.diagnostics)
        sys.exit(FILE_IS_WRONG)
    except (BackendError, HeadError) as error:
        fail(str(error))
    show(source, built.checked.warnings)
    text = built.artifact.text
    if out == "-":
        click.echo(text, nl=False)
    elif only_check:
        _compare(Path(out), text, file)
    else:
        new = next((f for f in reversed(Path(out).parents) if not f.exists()), None)
        try:
            publish(Path(out), text)
        except OSError as error:
            fail(f"{out}: {error.strerror or error}")
        if new is not None:
            click.echo(f"made the folder {new}", err=True)
        alone = "runs without lossdsl" if standalone else "imports lossdsl; with --standalone it wouldn't"
        wrote = f"class {built.artifact.manifest['class']}, backend {built.choice.spec.name}, {alone}"
        click.echo(f"wrote {out}: {wrote}", err=True)


def _compare(out: Path, text: str, file: str) -> None:
    """Exit with 1, and the difference, unless the file holds the text."""
    before = out.read_text(encoding="utf-8") if out.is_file() else ""
    if before == text:
        return
    difference = unified_diff(
        before.splitlines(keepends=True), text.splitlines(keepends=True), str(out), f"from {file}"
    )
    click.echo("".join(difference), nl=False)
    click.echo(f"{out} is not what {file} compiles to" if out.is_file() else f"{out} isn't there", err=True)
    sys.exit(FILE_IS_WRONG)
