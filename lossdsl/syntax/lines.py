"""Where statements end: text into logical lines, by looking ahead in the text.

A statement ends at the end of its line, but goes on inside brackets (counted without regard to their shape, since
`in [0, inf)` mixes them), after an operator, and before a line that starts with an operator or with a word such as
`where`. Comments and strings are stepped over. Nothing here knows the grammar.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from lossdsl.source.diagnostic import Diagnostic, Label
from lossdsl.source.text import Source, Span
from lossdsl.syntax.ast import Comment
from lossdsl.syntax.words import PARTS, RESERVED

DEEPEST = 100  # brackets in brackets; the tree's depth has the same limit
LARGEST = 64 * 1024  # bytes of a file
LONGEST = 10_000  # characters of a statement that are not blank
_AHEAD = 100  # lines looked through for a closing bracket once one was never found

_PIECE = re.compile(r'(?P<doc>""")|(?P<string>"[^"\n]*"?)|(?P<comment>#[^\n]*)|(?P<open>[(\[{])|(?P<close>[)\]}])|\n')
_GOES_ON_AFTER = re.compile(
    r"(?:[-+*/^<>,~\\]|[=!<>]=|=|\|>|(?<!\w)(?:and|or|not|if|then|else|where|weighted|in))\s*\Z",
)
_GOES_ON_BEFORE = re.compile(
    r"\|>|[-+*/^<>]|==|!=|(?:where|weighted|then|else(?!\s*:)|and|or|in)(?![\w'])(?!\s*=(?!=))",
)
_BLANK = "\ufeff \t\r\f"
_WORD = re.compile(r"[^\W\d]\w*'*")
# The words are soft: `input and x` and `return -> 1` go on with a value of that name.
_KEYWORD = re.compile(
    rf"(?:{'|'.join(w for w in PARTS if w != 'return')})[ \t]+(?!(?:{'|'.join(RESERVED)})\b)[^\W\d]"
    rf'|return[ \t]+(?!(?:{"|".join(RESERVED - {"if", "not"})})\b)(?:[^\W\d]|[\d("]|-[^\s>])'
)
_STARTS = re.compile(rf"{_KEYWORD.pattern}|[^\W\d]\w*'*[ \t]*=(?!=)")


@dataclass(frozen=True, slots=True)
class Line:
    """A logical line: the text of one statement, over as many lines of the file as it takes."""

    span: Span
    word: str  # its first word, or ""
    brackets: tuple[tuple[int, str], ...]  # every bracket's offset and character, outside strings and comments


@dataclass(frozen=True, slots=True)
class Scan:
    """A file in logical lines, with its comments, and what is wrong already at this level.

    `refused` are statements that are too long or too deep to be read.
    """

    lines: tuple[Line, ...]
    comments: tuple[Comment, ...]
    problems: tuple[Diagnostic, ...]
    refused: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class _Row:
    """One line of the file with what starts in it; a string that spans lines makes them one row."""

    start: int
    end: int  # of the code, before a comment
    code_start: int
    brackets: tuple[tuple[int, str], ...]


def scan(source: Source) -> Scan:
    """Splits a file into logical lines; never fails, but reports strings and brackets that get out of hand."""
    size = len(source.text.encode("utf-8", "surrogatepass"))
    if size > LARGEST:
        where = Label(Span(0, min(len(source.text), 1)), f"the file has {size} bytes")
        return Scan((), (), (Diagnostic("E0101", "the file is larger than 64 KiB", (where,), "split it"),))
    comments: list[Comment] = []
    problems: list[Diagnostic] = []
    rows = list(_rows(source.text, comments, problems))
    refused: list[Span] = []
    lines = tuple(_join(source.text, rows, problems, refused))
    return Scan(lines, tuple(comments), tuple(problems), tuple(refused))


def _rows(text: str, comments: list[Comment], problems: list[Diagnostic]) -> Iterator[_Row]:
    """The lines of the file that hold code."""
    start, end, at = 0, 0, 0
    found: list[tuple[int, str]] = []
    while True:
        piece = _PIECE.search(text, at)
        stop = piece.start() if piece else len(text)
        end = _code_end(text, at, stop, end)
        if piece is None or piece.group() == "\n":
            if end > start:
                lead = _code_start(text, start, end)
                yield _Row(start, end, lead, tuple(found))
            if piece is None:
                return
            at = start = end = piece.end()
            found = []
            continue
        at = piece.end()
        if piece["comment"] is not None:
            comment = piece.group().rstrip()
            comments.append(Comment(comment, span=Span(piece.start(), piece.start() + len(comment))))
            continue
        if piece["doc"] is not None:
            close = text.find('"""', at)
            if close < 0:
                problems.append(_unclosed(Span(piece.start(), piece.end()), "docstring", '"""'))
                close = len(text)
            at = min(close + 3, len(text))
        elif piece["string"] is not None:
            if not piece.group().endswith('"') or len(piece.group()) == 1:
                problems.append(_unclosed(Span(piece.start(), piece.end()), "text", '"'))
        else:
            found.append((piece.start(), piece.group()))
        end = at


def _code_end(text: str, at: int, stop: int, end: int) -> int:
    chunk = text[at:stop].rstrip(_BLANK)
    return at + len(chunk) if chunk else end


def _code_start(text: str, start: int, end: int) -> int:
    return end - len(text[start:end].lstrip(_BLANK))


def _unclosed(span: Span, what: str, quotes: str) -> Diagnostic:
    return Diagnostic("E0105", f"the {what} is never closed", (Label(span, "opened here"),), f"close it with {quotes}")


def _join(text: str, rows: list[_Row], problems: list[Diagnostic], refusals: list[Span]) -> Iterator[Line]:
    """Rows into logical lines."""
    first, end = 0, len(rows)
    while first < len(rows):
        last, depth = first, _depth(rows[first], 0)
        while last + 1 < min(len(rows), end) and (depth > 0 or _goes_on(text, rows[last], rows[last + 1])):
            last += 1
            depth = _depth(rows[last], depth)
        if depth > 0:
            last = _give_up(text, rows, first, last)
        if depth > 0 or end < len(rows):
            end = last + 1 + _AHEAD  # or a file of open brackets would be read again for each of its lines
        taken = rows[first : last + 1]
        brackets = tuple(b for row in taken for b in row.brackets)
        line = Line(Span(taken[0].code_start, taken[-1].end), _first_word(text, taken[0]), brackets)
        refused = _too_deep(brackets) or _too_long(text, line)
        if refused is None:
            yield line
        else:
            problems.append(refused)
            refusals.append(line.span)
        first = last + 1


def _depth(row: _Row, depth: int) -> int:
    for _, bracket in row.brackets:
        depth = depth + 1 if bracket in "([{" else max(depth - 1, 0)
    return depth


def _goes_on(text: str, row: _Row, following: _Row) -> bool:
    if text.startswith('"', following.code_start):
        return False
    if _GOES_ON_BEFORE.match(text, following.code_start):
        return True
    operator = _GOES_ON_AFTER.search(text, max(row.code_start, row.end - 12), row.end)
    if operator is None:
        return False
    starts = _KEYWORD if operator.group().startswith(",") else _STARTS  # `name = …` may follow a comma in an example
    return not starts.match(text, following.code_start)


def _give_up(text: str, rows: list[_Row], first: int, last: int) -> int:
    """A bracket is never closed: the statement ends where the next one seems to start, so that only it is wrong."""
    for i in range(first + 1, last + 1):
        if _STARTS.match(text, rows[i].code_start):
            return i - 1
    return last


def starts_statement(text: str, offset: int) -> bool:
    """Whether what stands at an offset looks like the start of a statement."""
    return _STARTS.match(text, offset) is not None


def _first_word(text: str, row: _Row) -> str:
    word = _WORD.match(text, row.code_start)
    return word.group() if word else ""


def _too_long(text: str, line: Line) -> Diagnostic | None:
    if line.span.end - line.span.start <= LONGEST or text.startswith('"', line.span.start):
        return None
    size = sum(map(len, text[line.span.start : line.span.end].split()))
    if size <= LONGEST:
        return None
    where = Label(Span(line.span.start, line.span.start + max(len(line.word), 1)), f"{size} characters")
    return Diagnostic("E0101", f"a statement is longer than {LONGEST} characters", (where,), "split it")


def _too_deep(brackets: tuple[tuple[int, str], ...]) -> Diagnostic | None:
    depth = 0
    for offset, bracket in brackets:
        depth = depth + 1 if bracket in "([{" else max(depth - 1, 0)
        if depth > DEEPEST:
            return too_deep(Span(offset, offset + 1))
    return None


def too_deep(span: Span) -> Diagnostic:
    """Brackets in brackets, or an operator's operand in another's, more than `DEEPEST` times."""
    message = f"the expression is nested more than {DEEPEST} levels deep"
    return Diagnostic("E0102", message, (Label(span, "too deep here"),), "give a part of it a name of its own")
