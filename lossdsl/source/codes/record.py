"""The datatype of a diagnostic code's record."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """What a code means, wherever it is raised.

    `title` is the one-line form without this file's names; `reason` says why the language is so; `example` is a whole
    small .loss text (for a code of calls: of Python) that produces it; `fix` says what to write instead.
    """

    code: str
    title: str
    reason: str
    example: str
    fix: str


_HEAD = "loss a\ninput x[N, C]\ninput y[N]: index C\n"
_END = "return sum[C](x)\n"


def in_body(code: str, title: str, line: str, reason: str, fix: str) -> ErrorCode:
    """A code whose example is one wrong line in an otherwise right file."""
    return ErrorCode(code, title, reason, f"{_HEAD}{line}\n{_END}", fix)
