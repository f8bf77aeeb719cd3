"""Diagnostics as text: for a terminal, as JSON, and as GitHub annotations."""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Sequence
from typing import Any, TextIO

from lossdsl.source.diagnostic import Diagnostic, Label
from lossdsl.source.text import Source, Span

_CONTEXT = 2  # lines before the one that is wrong
_TAB = 4
_COLOURS = {"error": "31;1", "warning": "33;1", "note": "36;1", "frame": "34;1", "bold": "1", "fix": "32;1"}
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})  # control, format, surrogate, line and paragraph separators


def wants_colour(stream: TextIO) -> bool:
    """Whether a stream is a terminal that takes colour; the variable NO_COLOR says no."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def render_terminal(source: Source, diagnostics: Sequence[Diagnostic], colour: bool = False) -> str:
    """The diagnostics as a person reads them, a blank line between two."""
    return "\n".join(_one(source, d, colour) for d in diagnostics)


def render_json(source: Source, diagnostics: Sequence[Diagnostic]) -> str:
    """The diagnostics as a JSON list. Lines and columns count from 1; the end is the first column after."""
    return json.dumps([as_dict(source, d) for d in diagnostics], indent=2, ensure_ascii=False)


def as_dict(source: Source, diagnostic: Diagnostic) -> dict[str, Any]:
    """One diagnostic as plain data."""
    places = [_place(source, label) for label in diagnostic.labels]
    first = places[0] if places else {"line": 1, "column": 1, "end_line": 1, "end_column": 1}
    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity,
        "message": diagnostic.message,
        "file": source.name,
        **{key: first[key] for key in ("line", "column", "end_line", "end_column")},
        "labels": places,
        "fix": diagnostic.fix,
    }


def render_github(source: Source, diagnostics: Sequence[Diagnostic]) -> str:
    """The diagnostics as workflow commands, which GitHub shows beside the lines of a pull request."""
    lines = []
    for diagnostic in diagnostics:
        d = as_dict(source, diagnostic)
        kind = "notice" if diagnostic.severity == "note" else diagnostic.severity
        text = diagnostic.message + (f"\nfix: {diagnostic.fix}" if diagnostic.fix else "")
        properties = {
            "file": source.name,
            "line": d["line"],
            "endLine": d["end_line"],
            "col": d["column"],
            "endColumn": max(d["end_column"] - 1, 1),  # GitHub's end is inside the range
            "title": diagnostic.code,
        }
        if d["line"] != d["end_line"]:
            del properties["col"], properties["endColumn"]
        listed = ",".join(f"{key}={_escape(str(value), ':,')}" for key, value in properties.items())
        lines.append(f"::{kind} {listed}::{_escape(text)}\n")
    return "".join(lines)


def _escape(text: str, more: str = "") -> str:
    return "".join(f"%{ord(c):02X}" if c in "%\r\n" + more else c for c in text)


def _place(source: Source, label: Label) -> dict[str, Any]:
    line, column = source.position(label.span.start)
    end_line, end_column = source.position(max(label.span.end, label.span.start))
    return {"line": line, "column": column, "end_line": end_line, "end_column": end_column, "text": label.text}


# --- the terminal -----------------------------------------------------------------------------------------------------


def _paint(text: str, style: str, colour: bool) -> str:
    return f"\x1b[{_COLOURS[style]}m{text}\x1b[0m" if colour and text else text


def _one(source: Source, diagnostic: Diagnostic, colour: bool) -> str:
    severity = diagnostic.severity
    head = _paint(f"{severity}[{diagnostic.code}]", severity, colour)
    out = [head + _paint(f": {_visible(diagnostic.message)}", "bold", colour)]
    marks: dict[int, list[tuple[Label, bool]]] = {}
    for i, label in enumerate(diagnostic.labels):
        marks.setdefault(source.position(label.span.start)[0], []).append((label, i == 0))
    width = len(str(max(marks, default=1)))
    bar = _paint("|", "frame", colour)
    if diagnostic.labels:
        line, column = source.position(diagnostic.labels[0].span.start)
        owner = f" ({source.owner})" if source.owner else ""
        out.append(" " * width + _paint(f"--> {_visible(source.name)}:{line}:{column}{owner}", "frame", colour))
        out.append(" " * (width + 1) + bar)
        shown = set(marks) | {n for n in range(line - _CONTEXT, line) if n >= 1}
        last = 0
        for number in sorted(shown):
            if last and number > last + 1:
                out.append(" " * (width - 1) + "...")
            text = source.line(number)
            gutter = _paint(f"{number:>{width}} ", "frame", colour)
            out.append(f"{gutter}{bar} {_cells(text)}".rstrip())
            for label, primary in sorted(marks.get(number, ()), key=lambda mark: -mark[0].span.start):
                style = severity if primary else "frame"
                under = _underline(source, number, label, "^" if primary else "-")
                out.append(f"{' ' * (width + 1)}{bar} {under[0]}{_paint(under[1], style, colour)}")
            last = number
    if diagnostic.fix:
        out.append(" " * (width + 1) + bar)
        out.append(
            f"{' ' * (width + 1)}{_paint('=', 'frame', colour)} {_paint('fix', 'fix', colour)}: {diagnostic.fix}"
        )
    return "\n".join(out) + "\n"


def _underline(source: Source, number: int, label: Label, mark: str) -> tuple[str, str]:
    """The blanks before a label's mark, and the mark with the label's words."""
    text, start = source.line(number), source.line_starts[number - 1]
    span: Span = label.span
    first = min(span.start - start, len(text))
    last = min(max(span.end - start, first), len(text))
    before = _columns(text[:first])
    marks = mark * max(_columns(text[:last]) - before, 1)  # at the end of a line nothing is left to underline
    return " " * before, f"{marks} {_visible(label.text)}".rstrip()


def _visible(text: str) -> str:
    """Text without the characters that would steer the terminal."""
    return "".join(c if c == "\n" or unicodedata.category(c) not in _INVISIBLE else "\ufffd" for c in text)


def _cells(text: str) -> str:
    """A line as it is printed: tabs spread to columns, control characters replaced."""
    return _visible(text.rstrip("\r").expandtabs(_TAB).replace("\ufeff", ""))


def _columns(text: str) -> int:
    """The terminal columns that the front of a line takes."""
    return sum(_width(c) for c in _cells(text))


def _width(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1
