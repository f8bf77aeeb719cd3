"""The head of a `.loss` file, read without parsing: what `list` shows of hundreds of files in a blink.

The head is the part before the first declaration: name, aliases, docstring, citations, tags. A file whose head can't
be read has the name of its file and no words; what is wrong with it is for `lossdsl check` to say.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lossdsl.registry import LossFile

_BLANK = re.compile(r"(?:\s+|#[^\n]*)*")
_HEAD = re.compile(r"(loss|map)[ \t]+(\w+)")
_ALIAS = re.compile(r"alias[ \t]+(\w+(?:[ \t]*,[ \t]*\w+)*)")
_DOC = re.compile(r'"""(.*?)"""|"([^"\n]*)"', re.DOTALL)
_CITE = re.compile(r'cite[ \t]+"([^"\n]*)"')
_TAGS = re.compile(r"tags[ \t]+(\w+(?:[ \t]*,[ \t]*\w+)*)")


@dataclass(frozen=True, slots=True)
class Header:
    kind: str  # "loss" or "map"; "" when the head can't be read
    name: str
    aliases: tuple[str, ...]
    doc: str
    cites: tuple[str, ...]
    tags: tuple[str, ...]

    @property
    def summary(self) -> str:
        """The docstring's first sentence or line, whichever ends first."""
        line = " ".join(self.doc.split("\n\n")[0].split())
        return re.split(r"(?<=[a-z0-9)])\.\s", line, maxsplit=1)[0].rstrip(".")


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",")) if text else ()


def read_header(text: str) -> Header:
    """The header of a file's text; an empty one if there is none."""
    at = _blank(text, 0)
    head = _HEAD.match(text, at)
    if head is None:
        return Header("", "", (), "", (), ())
    at = _blank(text, head.end())
    aliases = None
    if match := _ALIAS.match(text, at):
        aliases = match[1]
        at = _blank(text, match.end())
    doc = ""
    if match := _DOC.match(text, at):
        doc = (match[1] if match[1] is not None else match[2]).strip()
        at = _blank(text, match.end())
    cites: list[str] = []
    while match := _CITE.match(text, at):
        cites.append(match[1])
        at = _blank(text, match.end())
    tags = _TAGS.match(text, at)
    return Header(head[1], head[2], _names(aliases), doc, tuple(cites), _names(tags[1] if tags else None))


def header_of(loss: LossFile) -> Header:
    """The header of a pack's file; an empty one if the file can't be read."""
    try:
        return read_header(loss.read())
    except (OSError, UnicodeDecodeError):
        return read_header("")


def _blank(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at
