"""One look at a text that is being written: its tree, its types and what is wrong, as far as it goes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from lossdsl.check.typed import CheckedLoss, Term
from lossdsl.pipeline import front
from lossdsl.registry import Registry
from lossdsl.source.diagnostic import Diagnostic, DiagnosticError
from lossdsl.source.text import Source, Span
from lossdsl.syntax import ast
from lossdsl.syntax.lines import scan
from lossdsl.syntax.parse import read

WORD = re.compile(r"[^\W\d]\w*'*")
CALLED = re.compile(r"\s*(?:\(|\[[^\]\n]*\]\s*\()")  # what follows a function's name
_QUOTED = re.compile(r'"""[\s\S]*?(?:"""|\Z)|"[^"\n]*"?')


@dataclass(frozen=True, slots=True)
class Analysis:
    """A text and what could be made of it.

    Of a text that is wrong, `loss` has what can be read, and what its other statements were when they last could be;
    `checked` is of the last text that was right.
    """

    source: Source
    diagnostics: tuple[Diagnostic, ...]
    loss: ast.LossDef | None = None
    checked: CheckedLoss | None = None


def analyse(source: Source, registry: Registry, before: Analysis | None = None) -> Analysis:
    """Parses and checks a text; what fails is taken from the analysis before."""
    reading = read(source)
    loss = _completed(reading.loss, before.loss if before else None) if reading.problems else reading.loss
    found = Analysis(source, (), loss, before.checked if before else None)
    try:
        checked = front(source, registry).checked
    except DiagnosticError as error:
        return replace(found, diagnostics=error.diagnostics)
    return replace(found, checked=checked, diagnostics=checked.warnings)


def _completed(loss: ast.LossDef | None, before: ast.LossDef | None) -> ast.LossDef | None:
    """What can be read of a text, with the declarations and statements of an earlier one whose names are missing."""
    if loss is None or before is None:
        return loss or before
    known = {name for d in loss.decls for name in _names(d)}
    assigned = {(type(s), s.name) for s in loss.body}
    decls = tuple(d for d in before.decls if not known & set(_names(d)))
    body = tuple(s for s in before.body if (type(s), s.name) not in assigned)
    return replace(loss, decls=loss.decls + decls, body=loss.body + body)


def _names(decl: ast.Decl) -> list[str]:
    if isinstance(decl, ast.InputDecl):
        return [item.name for item in decl.items]
    if isinstance(decl, ast.ParamDecl):
        return [item.name for item, _ in decl.items]
    return [decl.axis.name] if isinstance(decl, ast.AxisDecl) else ["batch"]


def word_at(source: Source, offset: int) -> Span | None:
    """The name or word that an offset is in or behind; None in a comment or a quoted text."""
    if any(c.span.start <= offset <= c.span.end for c in scan(source).comments):
        return None
    if any(m.start() < offset < m.end() for m in _QUOTED.finditer(source.text)):
        return None
    line, _ = source.position(offset)
    start = source.line_starts[line - 1]
    for match in WORD.finditer(source.line(line)):
        if start + match.start() <= offset <= start + match.end():
            return Span(start + match.start(), start + match.end())
    return None


def terms(checked: CheckedLoss) -> Iterator[Term]:
    """Every term, those that use others before those used."""
    roots = [checked.result, checked.keep, checked.weight, *(t for _, t in checked.outputs)]
    stack = [t for t in reversed(roots) if t is not None] + [t for _, t in checked.conditions]
    seen: set[int] = set()
    while stack:
        term = stack.pop()
        if id(term) in seen:
            continue
        seen.add(id(term))
        yield term
        stack.extend(reversed(term.args))


def term_of(checked: CheckedLoss, span: Span) -> Term | None:
    """The term that a piece of the text stands for."""
    return next((t for t in terms(checked) if t.span == span), None)
