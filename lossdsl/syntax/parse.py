"""The parser: text to `LossDef`, or every syntax error of the file at once.

Each logical line is parsed by itself with the rule that its first word names, so an error costs one statement.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

from lossdsl.source.data import cache_folder, grammar_text
from lossdsl.source.diagnostic import Diagnostic, DiagnosticError, Label, in_order
from lossdsl.source.text import Source, Span
from lossdsl.syntax import ast
from lossdsl.syntax.gaps import NONE, Broken, Gaps, gaps
from lossdsl.syntax.lines import DEEPEST, Line, scan
from lossdsl.syntax.mistakes import beside, explain_line
from lossdsl.syntax.order import assemble, rule_of
from lossdsl.syntax.sequence import check_order, missing_head

if TYPE_CHECKING:
    from lark import Lark

MOST = 100  # errors of one file that are told
MOST_NAMES = 20  # of one statement that are in the wrong case
RULES = (
    "loss_head", "map_head", "alias", "docstring", "cite", "tags", "input", "param", "batch", "axis", "def_", "assign",
    "output", "return_", "claim", "example", "expr",
)  # fmt: skip


@cache
def _parser() -> Lark:
    """The parser, with its tables kept between runs: making them takes longer than all else that `fmt` does.

    Lark looks whether kept tables are of this grammar and version, and whole; if not it makes them anew.
    """
    from lark import Lark

    from lossdsl.syntax.build import Builder

    grammar = grammar_text("loss.lark")
    folder = cache_folder()
    kept = str(folder / f"grammar-{sha256(grammar.encode()).hexdigest()[:16]}.tables") if folder else False
    return Lark(grammar, parser="lalr", start=list(RULES), transformer=Builder(), cache=kept)


@dataclass(frozen=True, slots=True)
class ParsedStatement:
    """A statement with the rule and the place it was read from."""

    rule: str
    line: Line
    node: Any


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """A file with what the formatter needs besides its tree."""

    loss: ast.LossDef
    statements: tuple[ParsedStatement, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """What could be read of a file: without `problems` all of it; else `gaps` says what the rest may have declared.

    `loss` is None where too little could be read to go on.
    """

    loss: ast.LossDef | None
    statements: tuple[ParsedStatement, ...]
    problems: tuple[Diagnostic, ...]
    gaps: Gaps = NONE


def parse(source: Source) -> ast.LossDef:
    """Parses one file.

    Raises DiagnosticError with every syntax error of the file; nothing in the text makes it raise anything else.
    """
    return parse_file(source).loss


def parse_file(source: Source) -> ParsedFile:
    """As `parse`, with the statements in their order and places."""
    reading = read(source)
    if reading.problems or reading.loss is None:
        raise DiagnosticError(source, reading.problems)
    return ParsedFile(reading.loss, reading.statements)


def read(source: Source) -> Reading:
    """Reads as much of a file as is written rightly, and says what is wrong with the rest; never fails."""
    scanned = scan(source)
    problems = list(scanned.problems)
    statements: list[ParsedStatement] = []
    broken = [Broken("", span) for span in scanned.refused]
    block = 0  # the column of a def that is written as in Python
    for line in scanned.lines:
        if len(problems) >= MOST:
            label = Label(Span(line.span.start, line.span.start + max(len(line.word), 1)), "not looked at from here on")
            problems = [*in_order(problems), Diagnostic("E0140", f"there are {MOST} errors", (label,))]
            return Reading(None, (), tuple(problems))
        column = source.position(line.span.start)[1]
        block = block if column > block else 0
        rule = rule_of(source, line)
        if isinstance(rule, Diagnostic):
            problems.append(rule)
            broken.append(Broken("", line.span))
            continue
        unclosed = any(line.span.start <= d.labels[0].span.start < line.span.end for d in scanned.problems)
        node, found = (None, []) if unclosed else _statement(source, line, rule)
        if found or node is None:
            problems.extend(found)
            broken.append(Broken(rule, line.span, node is not None))
            if not block and rule == "def_" and any(d.code == "E0112" for d in found):
                block = column
            if any(d.code == "E0116" for d in found):  # no statement of any kind, so of no place in the file either
                broken[-1] = Broken("", line.span)
                continue
        if block and column > block:  # in the body of a def of Python, whose place in the file is no other mistake
            broken.append(Broken("def_", line.span))
            continue
        statements.append(ParsedStatement(rule, line, node))
    check_order([(s.rule, s.line) for s in statements], problems)
    if not statements and not problems:
        problems.append(missing_head(Span(0, min(1, len(source.text))), "the file has no statements"))
    whole = [s for s in statements if s.node is not None]
    left_out = gaps(source, broken, (s.rule for s in whole)) if problems else NONE
    loss = assemble([(s.rule, s.line, s.node) for s in whole], scanned.comments) if whole else None
    return Reading(loss, tuple(statements), tuple(in_order(problems)), left_out)


def parse_expression(text: str) -> ast.Expr:
    """Parses a text that is one expression, for tests and tools. Raises DiagnosticError."""
    source = Source("expression", text)
    scanned = scan(source)
    if scanned.problems:
        raise DiagnosticError(source, scanned.problems)
    brackets = tuple(b for line in scanned.lines for b in line.brackets)
    built, problems = _statement(source, Line(Span(0, len(text)), "", brackets), "expr")
    if problems:
        raise DiagnosticError(source, problems)
    return cast(ast.Expr, built)


def _statement(source: Source, line: Line, rule: str) -> tuple[Any | None, list[Diagnostic]]:
    """The statement's node and what is wrong with it; names in the wrong case are read as if they were in the right."""
    from lark import UnexpectedInput
    from lark.utils import TextSlice

    from lossdsl.syntax.brackets import check_tree
    from lossdsl.syntax.names import Mistake

    text, found = source.text, list[Diagnostic]()
    try:
        while True:
            try:
                built = _parser().parse(TextSlice(text, line.span.start, line.span.end), start=rule)
                check_tree(built, DEEPEST)
            except Mistake as mistake:
                turned = _turned(text, mistake.diagnostic)
                if turned is None or len(found) >= MOST_NAMES:
                    return None, [*found, *beside(source, line, rule, mistake.diagnostic)]
                found.append(mistake.diagnostic)
                text = turned  # go on as if the name had been right, to find the others
            else:
                return built, found
    except UnexpectedInput as stop:
        place = stop.pos_in_stream
        token = getattr(stop, "token", None)
        at = getattr(token, "start_pos", None) if token is not None and token.type != "$END" else place
        if at is None or (token is not None and token.type == "$END"):
            at = line.span.end
        return None, [*found, *explain_line(source, line, rule, _whole(source.text, line.span.start, at))]


def _whole(text: str, first: int, at: int) -> int:
    """Where the word starts that the parser stopped in: of `index` it may have read `in` as a word of its own."""
    start = at
    while first < start < len(text) and (text[start - 1].isalnum() or text[start - 1] == "_"):
        start -= 1
    inside = at < len(text) and (text[at].isalnum() or text[at] == "_") and text[start].isalpha()
    return start if inside else at


def _turned(text: str, problem: Diagnostic) -> str | None:
    """The text with the first letter of a name in its other case; None if something else was wrong."""
    at = problem.labels[0].span.start
    letter = text[at].swapcase()
    if problem.code != "E0108" or len(letter) != 1 or letter == text[at]:
        return None
    return f"{text[:at]}{letter}{text[at + 1 :]}"
