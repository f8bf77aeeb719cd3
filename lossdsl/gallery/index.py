"""The table of all losses, searched and sorted in the browser by a few lines of script."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape

from lossdsl.gallery.page import FOOT, HEAD, Entry


def index(entries: Sequence[Entry]) -> str:
    """The first page."""
    packs = Counter(entry.file.pack for entry in entries)
    counts = ", ".join(f"{n} in {pack}" for pack, n in packs.most_common())
    backends = list(dict.fromkeys(name for entry in entries for name in entry.backends))
    heads = ["name", "pack", "what it is", "tags", "properties", *backends]
    top = "".join(f'<th><button type="button">{escape(h)}</button></th>' for h in heads)
    rows = "".join(_row(entry, backends) for entry in entries)
    return "\n".join(
        [
            HEAD.format(title="Losses · lossdsl"),
            "<main>",
            f'<h1>Losses</h1><p class="lead">{len(entries)} losses: {counts}.</p>',
            '<p><input type="search" id="search" placeholder="focal, convex, ranking, index …"'
            ' aria-label="search" autocomplete="off"> <output id="count"></output></p>',
            f'<div class="wide"><table id="all"><thead><tr>{top}</tr></thead><tbody>{rows}</tbody></table></div>',
            "</main>",
            '<script src="search.js"></script>',
            FOOT,
        ]
    )


def _row(entry: Entry, backends: Sequence[str]) -> str:
    names = " ".join([entry.full, *entry.aliases, *(name for row in entry.elsewhere for name in row.names)])
    words = " ".join([names, entry.summary, *entry.tags, *entry.properties, *entry.inputs])
    cells = [f'<a href="{entry.href}">{escape(entry.file.name)}</a>', escape(entry.file.pack), escape(entry.summary)]
    cells += [_words(entry.tags), _words(entry.properties)]
    for name in backends:
        c = entry.backends.get(name)
        cells.append(f'<span class="{c.how}">{c.how}</span>' if c else "")
    return f'<tr data-words="{escape(words.lower())}">{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'


def _words(words: Sequence[str]) -> str:
    return escape(", ".join(w.replace("_", " ") for w in words))
