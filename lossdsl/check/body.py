"""The body of a file: its assignments and defs, and what it returns."""

from __future__ import annotations

from dataclasses import dataclass

from lossdsl.check.axes import inferred, resolve
from lossdsl.check.brought import bringer
from lossdsl.check.context import Context, Function, Scope
from lossdsl.check.operators import need
from lossdsl.check.terms import POISON, is_poison
from lossdsl.check.typed import Term
from lossdsl.source.diagnostic import Label
from lossdsl.source.text import Span
from lossdsl.syntax import ast


def statements(cx: Context, scope: Scope, body: tuple[ast.Statement, ...]) -> None:
    """Assignments and defs in their order; each name is given one value."""
    places: dict[str, Span] = {}
    scope.later = {s.name: s.name_span for s in body if isinstance(s, ast.Assign)}
    scope.written = {s.name: s.value for s in body if isinstance(s, ast.Assign)}
    for statement in body:
        if isinstance(statement, ast.Def):
            define(cx, scope, statement, places)
            continue
        name = scope.assigning = statement.name
        value = cx.expr(cx, scope, statement.value)
        scope.assigning = ""
        scope.later.pop(name, None)
        if name in scope.values or name in scope.modes:
            if cx.gaps.branches:
                continue
            first: tuple[Label, ...] = ()
            if name in places:
                first = (Label(places[name], "first assigned here"),)
            elif scope.site is None and (name in cx.inputs or name in cx.params):
                place = cx.inputs[name].span if name in cx.inputs else cx.params[name].span
                first = (Label(place, "declared here"),)
            what = "assigned twice" if name in places else "an input or param already"
            fix = f"give the second value a name of its own: `{name}2`"
            cx.error(scope, "E0204", f"`{name}` is {what}", statement.name_span, "again", fix, *first)
            continue
        places[name] = statement.name_span
        scope.values[name] = value


def define(cx: Context, scope: Scope, definition: ast.Def, places: dict[str, Span]) -> None:
    """A def of the file; it sees the params and values above it."""
    name = definition.name
    known = f"def {name}"
    if name in scope.functions:
        first = Label(places[known], "first defined here") if known in places else None
        cx.error(
            scope, "E0204", f"`{name}` is defined twice", definition.span, "again", "", *([first] if first else [])
        )
        return
    if name in cx.registry.primitives or name in cx.registry.reductions or name in _TAKEN:
        message = f"`{name}` is a function of the language"
        cx.error(scope, "E0204", message, definition.span, "defined again", f"call it `my_{name}`")
        return
    seen: set[str] = set()
    for p in definition.parameters:
        if p.name in seen:
            cx.error(scope, "E0204", f"`{name}` has two parameters `{p.name}`", p.span, "again", "rename one")
        seen.add(p.name)
    places[known] = definition.span
    above = Scope(
        dict(scope.values),
        scope.functions,
        {},
        scope.batch,
        scope.rows,
        scope,
        site=scope.site,
        title=scope.title,
        modes=scope.modes,
        conditions=scope.conditions,
        later=dict(scope.later),
    )
    scope.functions[name] = Function(definition, above)


_TAKEN = ("softmax", "log_softmax", "cumsum", "size", "detach", "descending", "ascending", "logdet", "eigvals", "solve")


def piped(expr: ast.Pipe) -> ast.Call:
    """`x |> f(…)` as the call `f(x, …)`."""
    c = expr.call
    first = ast.Argument(expr.value, span=expr.value.span)
    return ast.Call(c.function, c.axes, (first, *c.args), function_span=c.function_span, span=expr.span)


@dataclass(frozen=True, slots=True)
class Outermost:
    """What is returned: the body of the caller's reduction, its word and axes (no word: the value as it is)."""

    body: Term
    word: str | None
    axes: tuple[str, ...]
    keep: Term | None = None
    weight: Term | None = None


def outermost(cx: Context, scope: Scope, loss: ast.LossDef) -> Outermost:
    """The returned expression of a loss, by the rule that its outermost mean or sum is the caller's."""
    result = loss.result
    for part, word in ((result.where, "where"), (result.weighted, "weighted")):
        if part is not None:
            rows = ", ".join(scope.rows) or "N"
            message = f"`{word}` stands in the mean that the caller may replace"
            text = cx.text(scope, result.value.span, "e").strip("`")
            fix = f"write `return mean[{rows}]({text} {word} …)`"
            call = result.value
            if isinstance(call, ast.Call) and {m.axis.name for m in call.axes} & set(scope.rows):
                fix = f"write it inside the brackets: `return {call.function}[…](… {word} …)`"
            cx.error(scope, "E0308", message, part.span, f"`{word}` behind `return`", fix)
    value = result.value
    if isinstance(value, ast.Pipe):
        value = piped(value)
    if isinstance(value, ast.Call) and value.function in ("mean", "sum") and value.function not in scope.functions:
        found = _reduction(cx, scope, value)
        if found is not None:
            return found
    body = cx.expr(cx, scope, value)
    if is_poison(body):
        return Outermost(POISON, None, ())
    if body.type.kind == "label":
        cx.error(scope, "E0402", "a label can't be returned", value.span, "a label")
        return Outermost(POISON, None, ())
    batch = tuple(sorted(body.type.axes & set(scope.batch), key=scope.batch.index))
    extra = body.type.axes - set(scope.batch)
    if extra:
        return _extra(cx, scope, loss, value, body, extra)
    return Outermost(body, "mean" if batch else None, batch)


def _extra(
    cx: Context, scope: Scope, loss: ast.LossDef, value: ast.Expr, body: Term, extra: frozenset[str]
) -> Outermost:
    names = cx.show_axes(extra)
    has = cx.show_axes(body.type.axes)
    if not body.type.axes & set(scope.batch):
        message = f"what is returned has {has} and no batch axis (the batch is {cx.show_axes(scope.batch)})"
        fix = f"reduce it: `mean{names}(…)`, or declare `batch {names.strip('[]')}`"
    else:
        message = f"what is returned has {has}; only batch axes {cx.show_axes(scope.batch)} may be left to the caller"
        fix = f"reduce the others: `sum{names}(…)` or `mean{names}(…)`"
    others: tuple[Label, ...] = ()
    part = bringer(cx, scope, value, extra) if scope.site is None else None
    if part is not None:
        others = (Label(part.span, f"this brings {names}"),)
        index = next((i.name for i in cx.inputs.values() if i.kind.removeprefix("index ") in extra), None)
        if index is not None and isinstance(part, ast.Name):
            fix = f"write `{part.name}[{index}]` for its entry at `{index}`, or {fix}"
    cx.error(scope, "E0304", message, value.span, f"this has {has}", fix, *others)
    return Outermost(POISON, None, ())


def _reduction(cx: Context, scope: Scope, call: ast.Call) -> Outermost | None:
    """The returned mean or sum, if it runs over all axes of its argument, a batch axis among them."""
    if len(call.args) != 1 or any(m.to is not None for m in call.axes):
        return None
    argument = call.args[0]
    if argument.name is not None:
        return None
    before = len(cx.diagnostics)
    body = cx.expr(cx, scope, argument.value)
    keep = weight = None
    if argument.where is not None:
        keep = need(cx, scope, "bool", cx.expr(cx, scope, argument.where), argument.where.span, "`where`")
    if argument.weighted is not None:
        weight = need(cx, scope, "real", cx.expr(cx, scope, argument.weighted), argument.weighted.span, "`weighted`")
    parts = [t for t in (body, keep, weight) if t is not None]
    if any(is_poison(t) for t in parts):
        return Outermost(POISON, None, ()) if len(cx.diagnostics) > before else None
    have = frozenset[str]().union(*(t.type.axes for t in parts))
    if call.axes:
        axes: tuple[str, ...] = ()
        for m in call.axes:
            axes += resolve(cx, scope, m.axis.name, m.axis.span) or ()
    else:
        if have and not have - set(scope.batch):
            return None
        axes = inferred(cx, scope, call.function, parts, call.function_span) or ()
    if set(axes) != have or not have & set(scope.batch) or len(set(axes)) != len(axes):
        return None
    body = need(cx, scope, "real", body, argument.value.span, f"`{call.function}`")
    return Outermost(body, call.function, axes, keep, weight)
