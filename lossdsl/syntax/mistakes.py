"""Malformed statements, explained by what people write and what they mean."""

from __future__ import annotations

from lossdsl.source.diagnostic import Diagnostic, Label
from lossdsl.source.text import Source, Span
from lossdsl.syntax.lines import Line


def explain_line(source: Source, line: Line, rule: str, at: int) -> list[Diagnostic]:
    """Why a statement could not be read: the parser stopped at offset `at`."""
    if at >= line.span.end:
        label = Label(Span(line.span.end - 1, line.span.end), "ends here")
        return [Diagnostic("E0126", "the line ends too early", (label,), "")]
    return [Diagnostic("E0127", f"unexpected `{source.text[at]}`", (Label(Span(at, at + 1), "not expected here"),), "")]
