"""Where a name comes from: in this file, in the prelude, or in the file of another loss."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from lossdsl.check.prelude import prelude, prelude_source
from lossdsl.check.types import base_axis
from lossdsl.lsp.analysis import CALLED, Analysis, word_at
from lossdsl.packs.lookup import UnknownLossError, find_loss
from lossdsl.registry import Registry
from lossdsl.source.text import Source, Span
from lossdsl.syntax import ast


def definition(analysis: Analysis, registry: Registry, offset: int) -> tuple[Path | None, Source, Span] | None:
    """The file (None: this one) and the place where the name under the cursor is defined."""
    source = analysis.source
    span = word_at(source, offset)
    if span is None or analysis.loss is None:
        return None
    word = source.text[span.start : span.end]
    place = _own(analysis.loss, word, CALLED.match(source.text, span.end) is not None)
    if place is not None:
        return None, source, place
    if word in prelude():
        path = Path(str(files("lossdsl.check") / "prelude.loss"))
        at = prelude()[word].definition.span.start
        return path, prelude_source(), Span(at, at + len(word))
    try:
        file = find_loss(registry.losses, word)
    except UnknownLossError:
        return None
    return Path(file.path), Source(file.path, file.read()), Span(0, 0)


def _own(loss: ast.LossDef, word: str, called: bool) -> Span | None:
    name = word.rstrip("'")
    if called:
        found = next((d for d in loss.body if isinstance(d, ast.Def) and d.name == name), None)
        modes = (item for d in loss.decls if isinstance(d, ast.ParamDecl) and d.modes for item, _ in d.items)
        mode = next((item for item in modes if item.name == name), None)
        return Span(found.span.start, found.span.start + len(name)) if found else mode.span if mode else None
    if name[0].isupper():
        return _axis(loss, base_axis(word))
    for decl in loss.decls:
        items: tuple[ast.Item, ...] = ()
        if isinstance(decl, ast.InputDecl):
            items = decl.items
        elif isinstance(decl, ast.ParamDecl):
            items = tuple(item for item, _ in decl.items)
        for item in items:
            if item.name == name:
                return Span(item.span.start, item.span.start + len(name))
    assigned = (s for s in loss.body if isinstance(s, ast.Assign) and s.name == name)
    return next((s.name_span for s in assigned), None)


def _axis(loss: ast.LossDef, name: str) -> Span | None:
    """An axis is declared by `axis`, or else where an input has it first."""
    for decl in loss.decls:
        if isinstance(decl, ast.AxisDecl) and decl.axis.name == name and decl.size is not None:
            return decl.axis.span
    refs = (a for d in loss.decls if isinstance(d, ast.InputDecl) for item in d.items for a in item.axes)
    return next((a.span for a in refs if a.name == name), None)
