"""lossdsl list: the losses that are installed, and what other libraries call them."""

from __future__ import annotations

import json
import sys
from collections import Counter
from shutil import get_terminal_size
from typing import Any

import click

from lossdsl.cli._files import discovered, fail
from lossdsl.packs.facts import KINDS, PROPERTIES
from lossdsl.registry import Registry


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="A list of records for programs.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only losses with this tag; several: with all.")
@click.option("--tags", "only_tags", is_flag=True, help="The tags instead, and how many losses have each.")
@click.option("--pack", "packs", multiple=True, metavar="PACK", help="Only losses of this pack; several: of any.")
@click.option("--input", "kinds", multiple=True, type=click.Choice(KINDS), help="Only with an input of this kind.")
@click.option(
    "--property", "wanted", multiple=True, type=click.Choice(tuple(PROPERTIES)), help="Only whose file claims it."
)
@click.option(
    "--like", metavar="NAME", help="What is kornia.FocalLoss here? A name of another library, or one of ours."
)
def command(
    as_json: bool,
    tags: tuple[str, ...],
    only_tags: bool,
    packs: tuple[str, ...],
    kinds: tuple[str, ...],
    wanted: tuple[str, ...],
    like: str | None,
) -> None:
    """List the losses that are installed: name, pack, what each is."""
    if like is not None:
        _alike(like, as_json)
        return
    records = _records(discovered())
    _known("tag", tags, {tag for r in records for tag in r["tags"]}, "`lossdsl list --tags` names them")
    known_packs = {r["pack"] for r in records}
    _known("pack", packs, known_packs, f"there are {', '.join(sorted(known_packs))}")
    records = [
        r
        for r in records
        if set(tags) <= set(r["tags"])
        and (not packs or r["pack"] in packs)
        and set(kinds) <= set(r["inputs"])
        and set(wanted) <= set(r["properties"])
    ]
    if only_tags:
        _show_tags(records, as_json)
        return
    if as_json:
        click.echo(json.dumps(records, indent=2, ensure_ascii=False))
        return
    width = max((len(r["name"]) for r in records), default=0)
    pack_width = max((len(r["pack"]) for r in records), default=0)
    room = get_terminal_size().columns if sys.stdout.isatty() else None
    for r in records:
        line = f"{r['name']:<{width}}  {r['pack']:<{pack_width}}  {r['summary']}".rstrip()
        click.echo(line if room is None or len(line) <= room else f"{line[: room - 1]}…")


def _records(registry: Registry) -> list[dict[str, Any]]:
    """What is known of each loss without parsing it, by name."""
    from lossdsl.packs.facts import input_kinds, properties
    from lossdsl.packs.header import read_header

    found = []
    for loss in sorted(registry.losses.values(), key=lambda loss: (loss.name, loss.pack)):
        try:
            text = loss.read()
        except (OSError, UnicodeDecodeError):
            text = ""  # what is wrong with it is for `check` to say
        header = read_header(text)
        found.append(
            {
                "name": loss.name,
                "full_name": f"{loss.pack}/{loss.name}",
                "pack": loss.pack,
                "kind": header.kind,
                "aliases": list(header.aliases),
                "summary": header.summary,
                "tags": list(header.tags),
                "inputs": list(input_kinds(text)),
                "properties": list(properties(text)),
                "distribution": loss.distribution,
                "path": loss.path,
            }
        )
    return found


def _show_tags(records: list[dict[str, Any]], as_json: bool) -> None:
    """The tags of these losses with how many have each, the most frequent first."""
    counts = Counter(tag for r in records for tag in r["tags"])
    ordered = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    if as_json:
        click.echo(json.dumps(ordered, indent=2))
        return
    for tag, count in ordered.items():
        click.echo(f"{count:>4}  {tag}")


def _known(what: str, given: tuple[str, ...], known: set[str], otherwise: str) -> None:
    """Exit with 2 if a name that was given isn't known: with the name that is near, or `otherwise`."""
    from lossdsl.source.suggest import closest

    for name in given:
        if name not in known:
            near = closest(name, sorted(known))
            fail(f"there is no {what} {name!r}" + (f"; did you mean {near!r}?" if near else f"; {otherwise}"))


def _alike(name: str, as_json: bool) -> None:
    """What another library's loss is here, by the tables of examples/migrating."""
    from lossdsl.packs.lookup import UnknownLossError, find_loss
    from lossdsl.packs.migrating import alike, near, read_rows

    rows = read_rows()
    losses = discovered().losses
    found = alike(rows, name)
    if not found:
        try:
            plain = find_loss(losses, name.rsplit(".", 1)[-1])
        except UnknownLossError as error:
            close = [*near(rows, name), *(error.suggestions if "." not in name else ())]
            fail(f"no loss here is known as {name!r}" + (f"; did you mean {' or '.join(close[:3])}?" if close else ""))
        click.echo(
            "[]" if as_json else f"{plain.pack}/{plain.name} has that name; no other library's loss is known to be it"
        )
        return
    records = [
        {
            "library": row.library,
            "theirs": row.theirs,
            "also": list(row.also),
            "ours": f"lossdsl.{row.ours}" if row.ours.startswith("loss(") else row.ours,
            "losses": [_full(losses, loss) for loss in row.losses],
            "note": row.note,
        }
        for row in found
    ]
    if as_json:
        click.echo(json.dumps(records, indent=2, ensure_ascii=False))
        return
    for record in records:
        click.echo(f"{record['library']}  {record['theirs']}")
        click.echo(f"  is  {record['ours']}    ({', '.join(record['losses'])})")
        if record["note"]:
            click.echo(f"      {record['note']}")


def _full(losses: Any, name: str) -> str:
    """A loss's full name, or that its pack isn't installed."""
    from lossdsl.packs.lookup import UnknownLossError, find_loss

    try:
        found = find_loss(losses, name)
    except UnknownLossError:
        return f"{name}, whose pack is not installed"
    return f"{found.pack}/{found.name}"
