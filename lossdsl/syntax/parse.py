"""The parser: text to `LossDef`, or every syntax error of the file at once.

Each logical line is parsed by itself with the rule that its first word names, so an error costs one statement.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from lossdsl.source.data import cache_folder, grammar_text
from lossdsl.source.diagnostic import Diagnostic, DiagnosticError, Label
from lossdsl.source.text import Source, Span
from lossdsl.syntax import ast
from lossdsl.syntax.lines import DEEPEST, Line, scan
from lossdsl.syntax.mistakes import explain_line
from lossdsl.syntax.order import assemble, rule_of

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


def parse(source: Source) -> ast.LossDef:
    """Parses one file.

    Raises DiagnosticError with every syntax error of the file; nothing in the text makes it raise anything else.
    """
    return parse_file(source).loss


def parse_file(source: Source) -> ParsedFile:
    """As `parse`, with the statements in their order and places."""
    scanned = scan(source)
    problems = list(scanned.problems)
    statements: list[ParsedStatement] = []
    for line in scanned.lines:
        if len(problems) >= MOST:
            label = Label(Span(line.span.start, line.span.start + max(len(line.word), 1)), "not looked at from here on")
            raise DiagnosticError(
                source, [*_ordered(problems), Diagnostic("E0140", f"there are {MOST} errors", (label,))]
            )
        rule = rule_of(source, line)
        if isinstance(rule, Diagnostic):
            problems.append(rule)
            continue
        unclosed = any(line.span.start <= d.labels[0].span.start < line.span.end for d in scanned.problems)
        built = [] if unclosed else _statement(source, line, rule)
        if isinstance(built, list):
            problems.extend(built)
            built = None
        statements.append(ParsedStatement(rule, line, built))
    loss = assemble(source, [(s.rule, s.line, s.node) for s in statements], scanned.comments, problems)
    if problems or loss is None:
        raise DiagnosticError(source, _ordered(problems))
    return ParsedFile(loss, tuple(statements))


def _ordered(problems: list[Diagnostic]) -> list[Diagnostic]:
    return sorted(problems, key=lambda d: d.labels[0].span.start)


def parse_expression(text: str) -> ast.Expr:
    """Parses a text that is one expression, for tests and tools. Raises DiagnosticError."""
    source = Source("expression", text)
    scanned = scan(source)
    if scanned.problems:
        raise DiagnosticError(source, scanned.problems)
    brackets = tuple(b for line in scanned.lines for b in line.brackets)
    built = _statement(source, Line(Span(0, len(text)), "", brackets), "expr")
    if isinstance(built, list):
        raise DiagnosticError(source, built)
    expression: ast.Expr = built
    return expression


def _statement(source: Source, line: Line, rule: str) -> Any | list[Diagnostic]:
    """The statement's node, or what is wrong with it."""
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
                found.append(mistake.diagnostic)
                turned = _turned(text, mistake.diagnostic)
                if turned is None or len(found) >= MOST_NAMES:
                    return found
                text = turned  # go on as if the name had been right, to find the others
            else:
                return found or built
    except UnexpectedInput as stop:
        place = stop.pos_in_stream
        token = getattr(stop, "token", None)
        at = getattr(token, "start_pos", None) if token is not None and token.type != "$END" else place
        if at is None or (token is not None and token.type == "$END"):
            at = line.span.end
        return [*found, *explain_line(source, line, rule, at)]


def _turned(text: str, problem: Diagnostic) -> str | None:
    """The text with the first letter of a name in its other case; None if something else was wrong."""
    at = problem.labels[0].span.start
    letter = text[at].swapcase()
    if problem.code != "E0108" or len(letter) != 1 or letter == text[at]:
        return None
    return f"{text[:at]}{letter}{text[at + 1 :]}"
