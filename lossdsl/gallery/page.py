"""One loss as a page."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from typing import Any

from lossdsl.coverage import Covered
from lossdsl.curves import Curve
from lossdsl.gallery.svg import panels
from lossdsl.packs.facts import PROPERTIES
from lossdsl.packs.migrating import Row
from lossdsl.registry import LossFile
from lossdsl.source.text import Source
from lossdsl.syntax.mathml import mathml

HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="stylesheet" href="style.css">
</head>
<body>
"""
FOOT = "</body>\n</html>\n"


@dataclass(frozen=True, slots=True)
class Entry:
    """What the gallery knows of a loss; `record` is `lossdsl.explain.mathematics`."""

    file: LossFile
    source: Source
    record: dict[str, Any]
    aliases: tuple[str, ...]
    tags: tuple[str, ...]
    summary: str
    properties: tuple[str, ...]
    inputs: tuple[str, ...]
    curve: Curve | None
    backends: dict[str, Covered]
    elsewhere: tuple[Row, ...]

    @property
    def full(self) -> str:
        return f"{self.file.pack}/{self.file.name}"

    @property
    def href(self) -> str:
        return f"{self.file.pack}-{self.file.name}.html"


def page(entry: Entry, before: Entry | None, after: Entry | None) -> str:
    """The page of a loss, with links to its neighbours."""
    r = entry.record
    parts = [HEAD.format(title=escape(f"{entry.file.name} · lossdsl")), _way(before, after), "<main>"]
    parts.append(f'<h1>{escape(entry.file.name)}</h1><p class="lead">{escape(r["doc"])}</p>')
    parts += [f'<p class="cite">{_cite(c)}</p>' for c in r["cites"]]
    labels = [
        f'<a class="tag" href="index.html#{t}">{escape(t)}</a>' for t in dict.fromkeys((entry.file.pack, *entry.tags))
    ]
    parts.append(f'<p class="tags">{"".join(labels)}</p>')
    if entry.aliases:
        parts.append(f"<p>Also known as {', '.join(f'<code>{escape(a)}</code>' for a in entry.aliases)}.</p>")
    if r["kind"] == "map":
        said = "A map: its value is a function for other files to call."
    elif r["reduction"]:
        said = f"The loss is the {r['reduction']} of ℓ over {', '.join(r['over'])}, unless the call says otherwise."
    else:
        said = "One number a batch."
    parts.append(f'<h2>Equation</h2><div class="wide">{mathml(entry.source)}</div><p class="small">{said}</p>')
    if entry.curve is not None:
        note = "The rest as in the file's example; the dotted line is the example."
        parts.append(f'<h2>Curves</h2>{panels(entry.curve, entry.file.name)}<p class="small">{note}</p>')
    parts += [_takes(r), _claims(entry), _file(entry), _gradient(r), _backends(entry), _elsewhere(entry)]
    return "\n".join(part for part in [*parts, "</main>", _way(before, after), FOOT] if part)


def _way(before: Entry | None, after: Entry | None) -> str:
    links = ['<a href="index.html">All losses</a>']
    links += [f'<a rel="prev" href="{before.href}">← {escape(before.file.name)}</a>'] if before else []
    links += [f'<a rel="next" href="{after.href}">{escape(after.file.name)} →</a>'] if after else []
    return f"<nav>{''.join(links)}</nav>"


def _cite(text: str) -> str:
    """A citation; an arXiv number leads there."""
    link = r'<a href="https://arxiv.org/abs/\1">arXiv:\1</a>'
    return re.sub(r"arXiv:(\d{4}\.\d{4,5})", link, escape(text))


def _takes(r: dict[str, Any]) -> str:
    rows = []
    for item in r["inputs"]:
        said = [item["kind"], *(["fixed"] if item["fixed"] else []), *(["optional"] if item["optional"] else [])]
        axes = f"[{', '.join(item['axes'])}]" if item["axes"] else ""
        rows.append((f"{item['name']}{axes}", ", ".join(said), "", item["in"] or ""))
    for item in r["params"]:
        default = item["default"]
        shown = f"{default:g}" if isinstance(default, float | int) else str(default)
        rows.append((item["name"], "param" + ", learnable" * item["learnable"], shown, item["in"] or ""))
    return f"<h2>Inputs and params</h2>{_table(('name', 'kind', 'default', 'in'), rows)}"


def _claims(entry: Entry) -> str:
    if not entry.record["claims"]:
        return ""
    named = "".join(f"<li><b>{p.replace('_', ' ')}</b>: {PROPERTIES[p]}</li>" for p in entry.properties)
    said = "".join(f"<li><code>{escape(claim)}</code></li>" for claim in entry.record["claims"])
    how = f"Claims of the file; <code>lossdsl check {escape(entry.full)}</code> proves or tests each."
    return f'<h2>Properties</h2><ul>{named}</ul><p class="small">{how}</p><ul class="claims">{said}</ul>'


def _file(entry: Entry) -> str:
    from pygments import highlight
    from pygments.formatters import HtmlFormatter

    from lossdsl.syntax.pygments_lexer import LossLexer

    text = highlight(entry.source.text, LossLexer(), HtmlFormatter(cssclass="file"))
    return f"<h2>The file</h2>{text}"


def _gradient(r: dict[str, Any]) -> str:
    lines = [*r["where"], f"loss = {r['compiled']}"]
    for item in r["gradient"]:
        axes = f"[{', '.join(item['axes'])}]" if item["axes"] else ""
        lines.append(f"d loss / d {item['input']}{axes} = {item['formula']}")
    lines += [] if r["second_derivative"] == "derived" else [f"no second derivative: {r['second_derivative']}"]
    text = "\n".join(escape(line) for line in lines)
    head = "As it is computed, and its gradient"
    opened = " open" * (len(lines) <= 12)
    return f"<h2>{head}</h2><details{opened}><summary>{len(lines)} lines</summary><pre>{text}</pre></details>"


def _backends(entry: Entry) -> str:
    rows = []
    for name, c in entry.backends.items():
        calls = ", ".join(c.islands)
        rows.append((name, c.how, f"{c.bytes:.3g}" if c.bytes else "", calls or c.reason))
    if not rows:
        return ""
    note = "Bytes that value and gradient of an element of the largest input move: float32, long axes."
    table = _table(("backend", "how", "bytes", "library calls, or what is missing"), rows)
    return f'<h2>Backends</h2>{table}<p class="small">{note}</p>'


def _elsewhere(entry: Entry) -> str:
    rows = [(row.library, row.theirs, row.ours, row.note) for row in entry.elsewhere]
    if not rows:
        return ""
    return f"<h2>In other libraries</h2>{_table(('library', 'there', 'here', ''), rows, code=(1, 2))}"


def _table(head: tuple[str, ...], rows: list[Any], code: tuple[int, ...] = (0,)) -> str:
    """A table; columns of which all cells are empty are left out."""
    kept = [i for i in range(len(head)) if any(row[i] for row in rows)]
    top = "".join(f"<th>{escape(head[i])}</th>" for i in kept)

    def cell(i: int, text: str) -> str:
        return f"<td><code>{escape(text)}</code></td>" if i in code else f"<td>{escape(text)}</td>"

    body = "".join(f"<tr>{''.join(cell(i, row[i]) for i in kept)}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'
