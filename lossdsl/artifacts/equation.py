"""The mathematics that a module shows: the file's own lines, and the gradient as formulas."""

from __future__ import annotations

from lossdsl.ir.graph import JointGraph
from lossdsl.source.text import Source
from lossdsl.syntax.ast import Assign, LossDef


def equation(lossdef: LossDef, source: Source) -> str:
    """The assignments and the return of a file, as they stand there, without comments."""
    spans = [s.span for s in lossdef.body if isinstance(s, Assign)]
    parts = [_words(source.text[s.start : s.end]) for s in spans]
    result = lossdef.result.span
    return "\n".join([*parts, f"return {_words(source.text[result.start : result.end])}"])


def _words(text: str) -> str:
    """A statement on one line: comments left out, line breaks and runs of blanks as one blank."""
    lines = [line.split("#", 1)[0] for line in text.splitlines()]
    return " ".join(" ".join(lines).split())


def gradient(joint: JointGraph) -> str:
    """The gradient as formulas; empty for now where it would be longer than a page."""
    return ""
