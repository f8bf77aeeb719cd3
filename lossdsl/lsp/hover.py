"""What an editor shows about the place under the cursor, in Markdown."""

from __future__ import annotations

from lossdsl.check.prelude import prelude, prelude_source
from lossdsl.check.typed import CheckedLoss
from lossdsl.check.types import Type, base_axis
from lossdsl.lsp.analysis import CALLED, Analysis, term_of, terms, word_at
from lossdsl.lsp.words import CONSTANTS, FUNCTIONS, KINDS, STATEMENTS, WORDS
from lossdsl.packs.header import header_of
from lossdsl.packs.lookup import UnknownLossError, find_loss
from lossdsl.primitives.interval import REALS, Interval
from lossdsl.registry import Registry
from lossdsl.source.text import Source, Span
from lossdsl.syntax import ast
from lossdsl.syntax.printing import print_statement


def hover(analysis: Analysis, registry: Registry, offset: int) -> tuple[str, Span] | None:
    """The Markdown for a place and the text that it is about, or None."""
    source = analysis.source
    span = word_at(source, offset)
    if span is None:
        return _expression(analysis, offset)
    word = source.text[span.start : span.end]
    text: str | None = None
    if _first_on_its_line(source, span) and not source.text[span.end :].lstrip(" \t").startswith("="):
        text = STATEMENTS.get(word)
    if text is None and word[0].isupper():
        text = _axis(analysis, word)
    if text is None and CALLED.match(source.text, span.end):
        text = function_text(analysis, registry, word)
    text = text or _value(analysis, word.rstrip("'")) or WORDS.get(word) or KINDS.get(word) or CONSTANTS.get(word)
    text = text or function_text(analysis, registry, word)
    return (text, span) if text else None


def _first_on_its_line(source: Source, span: Span) -> bool:
    line, _ = source.position(span.start)
    return not source.text[source.line_starts[line - 1] : span.start].strip()


def _code(text: str) -> str:
    return f"```loss\n{text.rstrip()}\n```"


def _range(interval: Interval | None) -> str:
    told = str(interval or REALS)
    return f", in {told}" if told not in (str(REALS), str(Interval(low_open=True))) else ""


def described(checked: CheckedLoss, of: Type) -> str:
    """A type in words: its kind, its axes in the file's order, its range."""
    order = [axis.name for axis in checked.axes]
    axes = sorted(of.axes, key=lambda a: (order.index(a) if a in order else len(order), a))
    listed = f"[{', '.join(axes)}]" if axes else ""
    return f"{of.kind}{listed}{_range(of.interval) if of.kind == 'real' else ''}"


# --- values and axes --------------------------------------------------------------------------------------------------


def _value(analysis: Analysis, name: str) -> str | None:
    loss, checked = analysis.loss, analysis.checked
    if loss is None:
        return None
    for decl in loss.decls:
        items = decl.items if isinstance(decl, ast.InputDecl | ast.ParamDecl) else ()
        for item in items:
            if (item[0] if isinstance(item, tuple) else item).name == name:
                return _code(print_statement(decl)) + _gradient(checked, name)
    for statement in loss.body:
        if isinstance(statement, ast.Assign) and statement.name == name:
            text = _code(print_statement(statement))
            term = term_of(checked, statement.value.span) if checked and checked.source == analysis.source else None
            return f"{text}\n{described(checked, term.type)}" if checked and term else text
    return None


def _gradient(checked: CheckedLoss | None, name: str) -> str:
    for given in checked.inputs if checked else ():
        if given.name == name and given.kind == "real":
            return "\n" + ("fixed: no gradient" if given.fixed else "with a gradient")
    for param in checked.params if checked else ():
        if param.name == name and not param.modes:
            return "\na parameter: changing it never recompiles"
    return ""


def _axis(analysis: Analysis, name: str) -> str | None:
    if analysis.loss is None:
        return None
    base = base_axis(name)
    bound: list[str] = []
    for decl in analysis.loss.decls:
        if isinstance(decl, ast.InputDecl):
            bound += [i.name for i in decl.items if any(base_axis(a.name) == base for a in i.axes)]
        elif isinstance(decl, ast.AxisDecl) and decl.axis.name == name:
            return _code(print_statement(decl))
    batch = any(a.name == base and a.batch for a in analysis.checked.axes) if analysis.checked else False
    what = f"a copy of the {'batch ' if batch else ''}axis {base}" if name != base else "an axis"
    if name == base and batch:
        what = "a batch axis"
    return f"`{name}`: {what}" + (f", bound by {', '.join(f'`{b}`' for b in dict.fromkeys(bound))}" if bound else "")


def _expression(analysis: Analysis, offset: int) -> tuple[str, Span] | None:
    """The type of the smallest expression around an operator or a bracket."""
    checked = analysis.checked
    if checked is None or checked.source != analysis.source or not analysis.source.text[offset : offset + 1].strip():
        return None
    # A name stands for its declaration's place: only what is longer than a word and under the cursor counts.
    around = [t for t in terms(checked) if t.span.start <= offset < t.span.end and t.op not in ("leaf", "const")]
    if not around:
        return None
    term = min(around, key=lambda t: t.span.end - t.span.start)
    piece = analysis.source.text[term.span.start : term.span.end]
    return f"{_code(piece)}\n{described(checked, term.type)}", term.span


# --- functions --------------------------------------------------------------------------------------------------------


def function_text(analysis: Analysis, registry: Registry, name: str) -> str | None:
    """A function's definition or description: the file's own, the prelude's, the language's, a loss's."""
    for statement in analysis.loss.body if analysis.loss else ():
        if isinstance(statement, ast.Def) and statement.name == name:
            return _code(print_statement(statement))
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    if name in prelude():
        definition = prelude()[name].definition
        return f"{_code(print_statement(definition))}\nprelude{_comment(definition)}"
    if name in registry.reductions and registry.reductions[name].public:
        return f"`{name}[C](e where m)`: {registry.reductions[name].doc}"
    primitive = registry.primitives.get(name)
    if primitive is not None and primitive.public:
        kinks = f"\n\n{primitive.kinks}" if primitive.kinks else ""
        return f"`{name}({', '.join('xyz'[: primitive.arity])})`: {primitive.doc}{kinks}"
    return _loss(registry, name)


def _comment(definition: ast.Def) -> str:
    """The comment above a group of definitions in the prelude."""
    source = prelude_source()
    line, _ = source.position(definition.span.start)
    while line > 1 and source.line(line - 1).strip() and not source.line(line).startswith("#"):
        line -= 1
    text = source.line(line)
    return f": {text.lstrip('# ')}" if text.startswith("#") else ""


def _loss(registry: Registry, name: str) -> str | None:
    try:
        file = find_loss(registry.losses, name)
    except UnknownLossError:
        return None
    header = header_of(file)
    cites = "".join(f"\n\n{cite}" for cite in header.cites)
    head = _code(f"{header.kind or 'loss'} {file.pack}/{header.name}")
    return f"{head}\n{header.doc.strip()}{cites}"
