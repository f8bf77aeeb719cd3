"""lossdsl explain: a loss as mathematics with its gradient and cost, or an error code in full."""

from __future__ import annotations

import json
import re
import sys
from textwrap import indent, wrap

import click

from lossdsl.cli import FILE_IS_WRONG
from lossdsl.cli._files import chosen_heads, chosen_sizes, discovered, fail, known_device, read_target, show

CODE = re.compile(r"[EWN]\d{4}", re.IGNORECASE)


@click.command("explain")
@click.argument("what", metavar="FILE|CODE")
@click.option("--json", "as_json", is_flag=True, help="The same as a record for programs.")
@click.option(
    "--device", default="cpu", show_default=True, callback=known_device, help="For which the backend is chosen."
)
@click.option(
    "--head", "heads", multiple=True, metavar="linear|LOGITS=linear", help="Take hidden states, weight and bias."
)
@click.option("--size", "size", metavar="N=4096,C=32000,D=512", help="Which tiles of its matrix the loss takes there.")
@click.option("--memory", show_default="64MiB", help="What tiles may take, for --size.")
def command(
    what: str, as_json: bool, device: str, heads: tuple[str, ...], size: str | None, memory: str | None
) -> None:
    """Explain a loss (a path, a name, or `-`): equation, gradient, sweeps over the data, cost, backend. Or an error
    code: what it means, an example, and what to do."""
    from lossdsl.source.diagnostic import DiagnosticError

    if CODE.fullmatch(what):
        record = code_record(what.upper())
        click.echo(json.dumps(record, indent=2, ensure_ascii=False) if as_json else code_in_words(record))
        return
    if memory is not None and size is None:
        fail("--memory is for --size: say the sizes at which tiles are chosen")
    from lossdsl.explain import loss_in_words, loss_record

    registry = discovered()
    source = read_target(what, registry)
    try:
        sizes = chosen_sizes(size) if size else None
        record = loss_record(source, registry, device, chosen_heads(heads), sizes, memory or "64MiB")
    except DiagnosticError as error:
        show(error.source, error.diagnostics)
        sys.exit(FILE_IS_WRONG)
    except ValueError as error:  # a head that the loss can't have, a size that is missing
        fail(str(error))
    click.echo(json.dumps(record, indent=2, ensure_ascii=False) if as_json else loss_in_words(record))


# --- codes ------------------------------------------------------------------------------------------------------------


def code_record(code: str) -> dict[str, str]:
    """A code's record as plain data; exit with 2 if there is none."""
    from lossdsl.source.codes import all_codes
    from lossdsl.source.suggest import closest

    codes = all_codes()
    if code not in codes:
        near = closest(code, codes)
        fail(f"there is no code {code}" + (f"; did you mean {near}?" if near else ""))
    found = codes[code]
    return {"code": code, "title": found.title, "reason": found.reason, "example": found.example, "fix": found.fix}


def code_in_words(record: dict[str, str]) -> str:
    def paragraph(text: str) -> str:
        return "\n".join(wrap(text, 88))

    parts = [f"{record['code']}: {record['title']}", paragraph(record["reason"])]
    parts += [f"For example\n\n{indent(record['example'].strip(), '    ')}"] if record["example"] else []
    parts += [paragraph(f"What to do: {record['fix']}")] if record["fix"] else []
    return "\n\n".join(parts)
