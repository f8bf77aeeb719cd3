"""Renderers: what a person, a program and GitHub get, character by character."""

from __future__ import annotations

import io
import json

import pytest

from lossdsl.source.diagnostic import Diagnostic, Label
from lossdsl.source.render import render_github, render_json, render_terminal, wants_colour
from lossdsl.source.text import Source, Span


def find(source: Source, part: str, text: str = "") -> Label:
    start = source.text.index(part)
    return Label(Span(start, start + len(part)), text)


TWO = Source("a.loss", "loss a\ninput logits[N, C]\n# one\n# two\n# three\nx = logits + w\nreturn x\n")


def test_terminal_shows_context_and_both_places() -> None:
    labels = (find(TWO, "w\n", "has [K]"), find(TWO, "logits[N, C]", "has [N, C]"), find(TWO, "logits +"))
    labels = (Label(Span(labels[0].span.start, labels[0].span.start + 1), "has [K]"), *labels[1:])
    diagnostic = Diagnostic("E0203", "axes disagree", labels, "sum K away")
    assert render_terminal(TWO, [diagnostic]) == (
        "error[E0203]: axes disagree\n"
        " --> a.loss:6:14\n"
        "  |\n"
        "2 | input logits[N, C]\n"
        "  |       ------------ has [N, C]\n"
        "...\n"
        "4 | # two\n"
        "5 | # three\n"
        "6 | x = logits + w\n"
        "  |              ^ has [K]\n"
        "  |     --------\n"
        "  |\n"
        "  = fix: sum K away\n"
    )


def test_terminal_counts_columns_of_wide_combining_and_tabs() -> None:
    source = Source("w.loss", "終\t= e\u0301 + bad\n")
    out = render_terminal(source, [Diagnostic("E0201", "m", (find(source, "bad", "here"),))])
    line, mark = out.splitlines()[3:5]
    assert line == "1 | 終   = e\u0301 + bad"
    assert mark == "  | " + 11 * " " + "^^^ here"  # 終 takes two columns, the accent none


def test_terminal_at_the_end_of_the_file_and_of_an_empty_one() -> None:
    for text in ("", "loss a", "loss a\n"):
        source = Source("e.loss", text)
        out = render_terminal(source, [Diagnostic("E0113", "m", (Label(Span(len(text), len(text)), "ends"),))])
        assert out.splitlines()[-1].endswith("^ ends")
    assert render_terminal(TWO, [Diagnostic("E0601", "no place", ())]) == "error[E0601]: no place\n"


def test_terminal_underlines_the_first_line_of_a_longer_place() -> None:
    source = Source("m.loss", "x = f(a,\n  b)\r\n")
    out = render_terminal(source, [Diagnostic("E0201", "m", (Label(Span(4, 13), "call"),), severity="warning")])
    assert out.startswith("warning[E0201]: m")
    assert out.splitlines()[4] == "  |     ^^^^ call"


def test_terminal_is_not_steered_by_the_file() -> None:
    source = Source("x\x1b[2J.loss", "a = \x1b[31m\u202e b\n")
    out = render_terminal(source, [Diagnostic("E0103", "odd \x1b", (Label(Span(4, 5), "\x1b"),))])
    assert "\x1b" not in out
    assert "\u202e" not in out


def test_colour_only_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    out = render_terminal(TWO, [Diagnostic("E0203", "m", (find(TWO, "logits +"),), "f")], colour=True)
    assert out.startswith("\x1b[31;1merror[E0203]\x1b[0m")
    terminal = io.StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert wants_colour(terminal)
    assert not wants_colour(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not wants_colour(terminal)


def test_json_holds_every_place() -> None:
    diagnostic = Diagnostic("E0203", "m", (find(TWO, "logits + w", "a"), find(TWO, "logits[N", "b")), "f")
    (got,) = json.loads(render_json(TWO, [diagnostic]))
    place = {"line": 6, "column": 5, "end_line": 6, "end_column": 15}
    other = {"line": 2, "column": 7, "end_line": 2, "end_column": 15}
    assert got == {
        "code": "E0203", "severity": "error", "message": "m", "file": "a.loss", **place,
        "labels": [{**place, "text": "a"}, {**other, "text": "b"}], "fix": "f",
    }  # fmt: skip


def test_github_escapes_what_would_end_the_command() -> None:
    source = Source("a,b:c.loss", "x = 100%\n")
    diagnostics = [
        Diagnostic("E0201", "50% off\nmore", (find(source, "100%"),), "none"),
        Diagnostic("W0501", "w", (Label(Span(0, 9), ""),), severity="note"),
    ]
    assert render_github(source, diagnostics) == (
        "::error file=a%2Cb%3Ac.loss,line=1,endLine=1,col=5,endColumn=8,title=E0201::50%25 off%0Amore%0Afix: none\n"
        "::notice file=a%2Cb%3Ac.loss,line=1,endLine=2,title=W0501::w\n"
    )
