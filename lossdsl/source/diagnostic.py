"""What lossdsl tells a user whose file or call is wrong, as data.

A stage that finds a mistake adds a `Diagnostic`; it never prints. Renderers (terminal, JSON, GitHub annotations)
turn them into text. `DiagnosticError` carries all those of one run, so that nobody fixes a file one error at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from lossdsl.source.text import Source, Span

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Label:
    """A place in the source and what is to be said about it."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding: what is wrong, where, why, and what to do about it.

    `code` names a record of `source/codes/` (E0203); `message` is the one-line form for this case; `labels[0]` is the
    place the caret points at, the others are secondary; `fix` is a suggestion in the imperative, or empty.
    """

    code: str
    message: str
    labels: tuple[Label, ...]
    fix: str = ""
    severity: Severity = "error"


def in_order(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Diagnostics in the order of the text."""
    return sorted(diagnostics, key=lambda d: d.labels[0].span.start if d.labels else 0)


class DiagnosticError(Exception):
    """The file is wrong: every finding of one run, with the source they point into."""

    def __init__(self, source: Source, diagnostics: Iterable[Diagnostic]) -> None:
        self.source = source
        self.diagnostics = tuple(diagnostics)
        first = self.diagnostics[0]
        place = ""
        if first.labels:
            line, column = source.position(first.labels[0].span.start)
            owner = f" ({source.owner})" if source.owner else ""
            place = f"{source.name}:{line}:{column}{owner}: "
        more = f" (and {len(self.diagnostics) - 1} more)" if len(self.diagnostics) > 1 else ""
        super().__init__(f"{place}{first.severity}[{first.code}]: {first.message}{more}")


class InternalError(Exception):
    """A fault of lossdsl itself; the message asks for a report and says what to send."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}\nThis is a fault of lossdsl, not of your file. Please report it with the .loss file.")
