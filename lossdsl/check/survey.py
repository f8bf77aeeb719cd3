"""What editors ask of a file: what stands at a place, where it comes from, and which names could stand there.

Works on files that are wrong, as far as their text can be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lossdsl.check.axes import walk
from lossdsl.check.check import run
from lossdsl.check.context import Context
from lossdsl.check.names import SPECIAL, functions_known
from lossdsl.check.prelude import prelude, prelude_source
from lossdsl.check.types import Type, base_axis
from lossdsl.packs.header import header_of
from lossdsl.registry import Registry
from lossdsl.source.diagnostic import Diagnostic
from lossdsl.source.text import Source, Span
from lossdsl.syntax import ast

Role = Literal["value", "function", "axis"]


@dataclass(frozen=True, slots=True)
class Target:
    """Where a name is defined: a place in a text. `path` is empty for the file itself, `prelude.loss` for that."""

    path: str
    span: Span


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name at a place of the file: a value with its type, a function with its documentation, or an axis."""

    span: Span
    role: Role
    name: str
    type: Type | None
    doc: str
    target: Target | None


@dataclass(frozen=True, slots=True)
class Survey:
    """`symbols` in the order of the text; `values` are all names of the file with their types (None: unknown)."""

    symbols: tuple[Symbol, ...]
    values: Mapping[str, Type | None]
    functions: tuple[str, ...]
    axes: tuple[str, ...]
    diagnostics: tuple[Diagnostic, ...]

    def at(self, offset: int) -> Symbol | None:
        """The symbol that covers a character offset, its end included."""
        covering = [s for s in self.symbols if s.span.start <= offset <= s.span.end]
        return min(covering, key=lambda s: s.span.end - s.span.start, default=None)


def survey(loss: ast.LossDef, source: Source, registry: Registry, modes: Mapping[str, str] | None = None) -> Survey:
    """All that is known of the names of a file; its diagnostics are errors, or warnings if there are none."""
    cx, scope, checked = run(loss, source, registry, modes or {})
    places = _definitions(loss)
    docs: dict[str, tuple[str, Target | None]] = {}
    symbols = []
    for span, role, name, type in dict.fromkeys((s, r, n, t) for s, r, n, t in _declared(cx, loss) + cx.uses):
        if role == "function":
            if name not in docs:
                docs[name] = _function(registry, loss, name)
            doc, target = docs[name]
        else:
            key = base_axis(name) if role == "axis" else name
            place = places.get((role, key))
            doc, target = "", None if place is None else Target("", place)
        symbols.append(Symbol(span, _role(role), name, type, doc, target))
    values = {n: t.type for n, t in scope.values.items()} if scope is not None else {}
    diagnostics = cx.diagnostics or list(checked.warnings if checked is not None else ())
    return Survey(
        tuple(sorted(symbols, key=lambda s: (s.span.start, s.span.end))),
        values,
        tuple(functions_known(cx, scope)) if scope is not None else (),
        tuple(scope.axes) if scope is not None else (),
        tuple(diagnostics),
    )


def _role(text: str) -> Role:
    return "value" if text == "value" else "function" if text == "function" else "axis"


def _definitions(loss: ast.LossDef) -> dict[tuple[str, str], Span]:
    """The place of each value, and the first of each axis, in declarations and the body."""
    places: dict[tuple[str, str], Span] = {}
    for decl in loss.decls:
        items: tuple[ast.Item, ...] = ()
        if isinstance(decl, ast.InputDecl):
            items = decl.items
        elif isinstance(decl, ast.ParamDecl):
            items = tuple(i for i, _ in decl.items)
        for item in items:
            places.setdefault(("value", item.name), Span(item.span.start, item.span.start + len(item.name)))
    for statement in loss.body:
        if isinstance(statement, ast.Assign):
            places.setdefault(("value", statement.name), statement.name_span)
    for node in walk((loss.decls, loss.body, loss.result)):
        if isinstance(node, ast.AxisRef):
            places.setdefault(("axis", base_axis(node.name)), node.span)
    return places


def _declared(cx: Context, loss: ast.LossDef) -> list[tuple[Span, str, str, Type | None]]:
    """The names in declarations and on the left of assignments, and the axes behind inputs."""
    found: list[tuple[Span, str, str, Type | None]] = []
    types = {n: t for _, role, n, t in cx.uses if role == "value"}
    for (role, name), span in _definitions(loss).items():
        if role == "value":
            declared = cx.inputs.get(name) or cx.params.get(name)
            known = types.get(name)
            if known is None and declared is not None:
                known = Type(frozenset(declared.axes))
            found.append((span, "value", name, known))
    for node in walk(loss.decls):
        if isinstance(node, ast.AxisRef):
            found.append((node.span, "axis", node.name, None))
    return found


def _function(registry: Registry, loss: ast.LossDef, name: str) -> tuple[str, Target | None]:
    """The documentation of a function and where it is defined; nothing for one that doesn't exist."""
    for statement in loss.body:
        if isinstance(statement, ast.Def) and statement.name == name:
            return _signature(statement), Target("", statement.span)
    if name in registry.reductions:
        return registry.reductions[name].doc, None
    if name in registry.primitives:
        return registry.primitives[name].doc, None
    if name in prelude():
        definition = prelude()[name].definition
        text = prelude_source().text[definition.span.start : definition.span.end]
        return " ".join(text.split()), Target("prelude.loss", definition.span)
    if name in SPECIAL:
        return "a function of the language", None
    for file in registry.losses.values():
        if file.name == name:
            return header_of(file).doc or file.name, Target(str(Path(file.path)), Span(0, 0))
    return "", None


def _signature(definition: ast.Def) -> str:
    axes = f"[{', '.join(a.name for a in definition.axes)}]" if definition.axes else ""
    return f"{definition.name}{axes}({', '.join(p.name for p in definition.parameters)})"
