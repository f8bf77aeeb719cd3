"""The formatter: one spelling for each file, with its comments and its paragraphs.

Kept: every comment (one on lines of its own stays above the statement it stood over, one behind a statement stays
behind it, one inside a statement moves above it) and single blank lines. Made uniform: spaces, brackets, line breaks,
and the `=` of assignments that stand under each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lossdsl.source.diagnostic import Diagnostic, DiagnosticError, InternalError, Label
from lossdsl.source.text import Source, Span
from lossdsl.syntax.ast import Assign, Comment, LossDef
from lossdsl.syntax.parse import ParsedFile, ParsedStatement, parse_file
from lossdsl.syntax.printing import print_statement

_RAGGED = 10  # names that differ by more in length are not aligned


@dataclass(frozen=True, slots=True)
class _Entry:
    """A statement, or a comment on a line of its own, about to be printed."""

    statement: ParsedStatement | None
    comment: str  # its text, or what stands behind the statement
    gap: bool  # a blank line before it


def format_loss(source: Source) -> str:
    """The file's text, formatted.

    Raises DiagnosticError if the file doesn't parse. That the result means the same, keeps every comment and is left
    alone by a second pass is verified on every call.
    """
    parsed = parse_file(source)
    text = _print(source, parsed)
    _verify(source, parsed.loss, text)
    return text


def _verify(source: Source, loss: LossDef, text: str) -> None:
    again = Source(source.name, text)
    try:
        parsed = parse_file(again)
    except DiagnosticError as error:
        if all(d.code == "E0101" for d in error.diagnostics):
            label = Label(Span(0, min(1, len(source.text))), error.diagnostics[0].message)
            raise DiagnosticError(source, [Diagnostic("E0101", "the file would be too large", (label,))]) from None
        raise InternalError(f"the formatter's output for {source.name} does not parse: {error}") from error
    if parsed.loss != loss:
        raise InternalError(f"the formatter would change the meaning of {source.name}")
    if sorted(c.text for c in parsed.loss.comments) != sorted(c.text for c in loss.comments):
        raise InternalError(f"the formatter would lose a comment of {source.name}")
    if _print(again, parsed) != text:
        raise InternalError(f"a second pass of the formatter would change {source.name} again")


def _print(source: Source, parsed: ParsedFile) -> str:
    entries = _entries(source, parsed)
    pads = _pads(entries)
    lines: list[str] = []
    for i, entry in enumerate(entries):
        if entry.gap and lines:
            lines.append("")
        if entry.statement is None:
            lines.append(entry.comment)
        else:
            text = _statement(source, entry.statement, pads.get(i, 0))
            lines.append(f"{text}  {entry.comment}" if entry.comment else text)
    return "\n".join(lines) + "\n"


def _statement(source: Source, statement: ParsedStatement, pad: int) -> str:
    match statement.rule:
        case "loss_head" | "map_head":
            return f"{statement.rule.removesuffix('_head')} {statement.node[1]}"
        case "docstring":
            return f'"""{statement.node.value}"""'
        case "cite":
            return f'cite "{statement.node.value}"'
        case "alias" | "tags":
            return f"{statement.rule} {', '.join(statement.node)}"
    return print_statement(statement.node, pad)


def _entries(source: Source, parsed: ParsedFile) -> list[_Entry]:
    """Statements and comments in the order in which they are printed."""
    entries: list[_Entry] = []
    comments = list(parsed.loss.comments)
    taken = 0  # comments that have their place
    end = 0  # of what was printed last, in the source
    for statement in parsed.statements:
        span = statement.line.span
        above: list[Comment] = []
        while taken < len(comments) and comments[taken].span.start < span.end:
            above.append(comments[taken])
            taken += 1
        for comment in above:
            inside = comment.span.start > span.start
            entries.append(_Entry(None, comment.text, not inside and _blank_between(source, end, comment.span.start)))
            if not inside:
                end = comment.span.end
        entry_gap = _blank_between(source, end, span.start) and not any(c.span.start > span.start for c in above)
        behind = ""
        if taken < len(comments) and _same_line(source, span.end, comments[taken].span.start):
            behind = comments[taken].text
            taken += 1
        entries.append(_Entry(statement, behind, entry_gap))
        end = span.end if not behind else comments[taken - 1].span.end
    for comment in comments[taken:]:
        entries.append(_Entry(None, comment.text, _blank_between(source, end, comment.span.start)))
        end = comment.span.end
    return entries


def _blank_between(source: Source, start: int, end: int) -> bool:
    return source.text.count("\n", start, end) > 1


def _same_line(source: Source, start: int, end: int) -> bool:
    return "\n" not in source.text[start:end]


def _pads(entries: Sequence[_Entry]) -> dict[int, int]:
    """How wide the names of assignments that stand under each other are made."""
    pads: dict[int, int] = {}
    run: list[int] = []

    def close() -> None:
        widths = [len(_name(entries[i])) for i in run]
        if widths and max(widths) - min(widths) <= _RAGGED:
            pads.update(dict.fromkeys(run, max(widths)))
        run.clear()

    for i, entry in enumerate(entries):
        if not _name(entry) or entry.gap:
            close()
        if _name(entry):
            run.append(i)
    close()
    return pads


def _name(entry: _Entry) -> str:
    return entry.statement.node.name if entry.statement and isinstance(entry.statement.node, Assign) else ""
