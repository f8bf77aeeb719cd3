"""lossdsl list: the losses that are installed."""

from __future__ import annotations

import json
import sys
from shutil import get_terminal_size

import click

from lossdsl.cli._files import discovered


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="A list of records for programs.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only losses with this tag; several: with all.")
@click.option("--pack", "packs", multiple=True, metavar="PACK", help="Only losses of this pack; several: of any.")
def command(as_json: bool, tags: tuple[str, ...], packs: tuple[str, ...]) -> None:
    """List the losses that are installed: name, what it is, pack."""
    from lossdsl.packs.header import header_of

    rows = []
    for loss in discovered().losses.values():
        header = header_of(loss)
        if set(tags) <= set(header.tags) and (not packs or loss.pack in packs):
            rows.append((loss, header))
    rows.sort(key=lambda row: (row[0].name, row[0].pack))
    if as_json:
        records = [
            {
                "name": loss.name,
                "full_name": f"{loss.pack}/{loss.name}",
                "pack": loss.pack,
                "kind": header.kind,
                "aliases": list(header.aliases),
                "summary": header.summary,
                "tags": list(header.tags),
                "distribution": loss.distribution,
                "path": loss.path,
            }
            for loss, header in rows
        ]
        click.echo(json.dumps(records, indent=2, ensure_ascii=False))
        return
    width = max((len(loss.name) for loss, _ in rows), default=0)
    pack_width = max((len(loss.pack) for loss, _ in rows), default=0)
    room = get_terminal_size().columns if sys.stdout.isatty() else None
    for loss, header in rows:
        line = f"{loss.name:<{width}}  {loss.pack:<{pack_width}}  {header.summary}".rstrip()
        click.echo(line if room is None or len(line) <= room else f"{line[: room - 1]}…")
