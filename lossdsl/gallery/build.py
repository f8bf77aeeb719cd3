"""Making the pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib.resources import files
from pathlib import Path

from lossdsl.coverage import coverage
from lossdsl.curves import curve
from lossdsl.explain import mathematics
from lossdsl.gallery.index import index
from lossdsl.gallery.page import Entry, page
from lossdsl.packs.facts import input_kinds, properties
from lossdsl.packs.header import read_header
from lossdsl.packs.migrating import read_rows
from lossdsl.pipeline import middle
from lossdsl.registry import Registry
from lossdsl.source.text import Source


def entry(registry: Registry, full: str) -> Entry:
    """All that is shown of a loss. DiagnosticError if its file is wrong."""
    file = registry.losses[full]
    text = file.read()
    source = Source(file.path, text)
    header = read_header(text)
    made = middle(source, registry)
    return Entry(
        file=file,
        source=source,
        record=mathematics(made, registry),
        aliases=header.aliases,
        tags=header.tags,
        summary=header.summary,
        properties=properties(text),
        inputs=input_kinds(text),
        curve=curve(made, registry),
        backends=coverage(made, registry),
        elsewhere=tuple(row for row in read_rows() if file.name in row.losses),
    )


def write(entries: Sequence[Entry], folder: Path) -> None:
    """The pages of some losses, their index, style and script, into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    ordered = sorted(entries, key=lambda e: (e.file.name, e.file.pack))
    for i, one in enumerate(ordered):
        before = ordered[i - 1] if i else None
        after = ordered[i + 1] if i + 1 < len(ordered) else None
        (folder / one.href).write_text(page(one, before, after), encoding="utf-8")
    (folder / "index.html").write_text(index(ordered), encoding="utf-8")
    for name in ("style.css", "search.js"):
        text = (files("lossdsl.gallery") / name).read_text(encoding="utf-8")
        (folder / name).write_text(text, encoding="utf-8")


def build(registry: Registry, names: Iterable[str], folder: Path, progress: Callable[[int], None]) -> int:
    """Make the gallery of the losses that have these full names; how many there are."""
    entries = []
    for full in names:
        entries.append(entry(registry, full))
        progress(len(entries))
    write(entries, folder)
    return len(entries)
