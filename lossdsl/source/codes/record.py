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
