"""Calls of defs: their body is read again with the arguments in place of the parameters."""

from __future__ import annotations

from dataclasses import dataclass

from lossdsl.check.axes import fresh_copy, inferred, introduced, lookup, non_batch, resolve
from lossdsl.check.context import Context, Function, Scope
from lossdsl.check.operators import need
from lossdsl.check.terms import POISON, is_index, is_poison
from lossdsl.check.typed import Term
from lossdsl.check.types import base_axis
from lossdsl.source.diagnostic import Label
from lossdsl.source.suggest import closest
from lossdsl.source.text import Span
from lossdsl.syntax import ast


@dataclass(frozen=True, slots=True)
class _Given:
    argument: ast.Argument
    term: Term
    mask: Term | None = None


def call_def(cx: Context, scope: Scope, expr: ast.Call, function: Function) -> Term:
    """A call of a def: its body with its parameters bound."""
    definition = function.definition
    name = definition.name
    given = _arguments(cx, scope, expr, definition)
    if given is None:
        return POISON
    foreign = function.scope.title != "" and function.scope.site is None
    inner = Scope(
        values=dict(function.scope.values),
        functions=function.scope.functions,
        axes={},
        batch=scope.batch if foreign else function.scope.batch,
        rows=() if foreign else function.scope.rows,
        parent=None if foreign else function.scope,
        later=function.scope.later,
        modes=function.scope.modes,
        conditions=scope.conditions,
        site=scope.at(expr.span) if foreign else function.scope.site,
        title=f"`{name}`" if foreign else function.scope.title,
    )
    if not _bind_axes(cx, scope, expr, definition, given, inner):
        return POISON
    if any(is_poison(g.term) for g in given.values()):
        return POISON
    for p in definition.parameters:
        inner.values[p.name] = _masked(cx, inner, p, given[p.name])
    key = (
        id(definition),
        id(function.scope),
        tuple(id(inner.values[p.name]) for p in definition.parameters),
        tuple(sorted(inner.axes.items())),
        inner.batch,
        tuple(id(c) for c in inner.conditions),
        tuple(sorted(inner.modes.items())),
    )
    if key in cx.memo:
        return cx.memo[key]
    active = f"def {id(definition)} {name}"
    if active in cx.active:
        return recursion(cx, scope, name, cx.active[cx.active.index(active) + 1 :], expr.function_span)
    for term in inner.values.values():
        inner.used |= term.type.axes
    for images in inner.axes.values():
        inner.used.update(images)
    introduce(cx, inner, (definition.body,))
    cx.active.append(active)
    before, cx.terms.inlined = cx.terms.inlined, cx.terms.inlined or inner.site is not None
    result = cx.expr(cx, inner, definition.body)
    cx.terms.inlined = before
    cx.active.pop()
    cx.memo[key] = result
    return result


def recursion(cx: Context, scope: Scope, name: str, through: list[str], span: Span) -> Term:
    """Report a function that is called while it is being written out, by way of the active ones `through`."""
    way = " and ".join(f"`{one.rpartition(' ')[2]}`" for one in through)
    message = (
        f"`{name}` calls itself{f' through {way}' if way else ''}: functions are written out where they are called"
    )
    fix = "say it with a reduction over an axis, such as `sum[K](…)` or `prod[K](…)`, or with `root`"
    return cx.error(scope, "E0206", message, span, "calls itself", fix)


def _masked(cx: Context, inner: Scope, parameter: ast.Parameter, given: _Given) -> Term:
    """The argument where its mask holds; the mask is that of the parameter's axes, even if it varies along none."""
    if given.mask is None:
        return given.term
    assert parameter.axis is not None
    axes = inner.axes[parameter.axis.name]
    mask = given.mask
    if not mask.type.axes & set(axes):
        mask = cx.terms.fill(mask, axes[:1], mask.span)
    return cx.terms.where(given.term, (mask,), given.term.span)


def introduce(cx: Context, scope: Scope, roots: tuple[object, ...]) -> None:
    """Give the axes that an inlined text introduces (orders, copies with a name of their own) fresh ones."""
    orders, copies = introduced(roots)
    for name in orders:
        if lookup(scope, name) is None and name in scope.orders:
            scope.axes[name] = (cx.new_axis(name, scope.orders[name]),)
    for name, (of, _) in copies.items():
        if lookup(scope, name) is None and name not in orders:
            images = lookup(scope, of)
            if images is not None:
                scope.axes[name] = tuple(fresh_copy(scope, a) for a in images)


def _arguments(cx: Context, scope: Scope, expr: ast.Call, definition: ast.Def) -> dict[str, _Given] | None:
    """The arguments by parameter; None after an error."""
    parameters = {p.name: p for p in definition.parameters}
    form = f"{expr.function}({', '.join(parameters)})"
    given: dict[str, _Given] = {}
    ok = True
    for i, a in enumerate(expr.args):
        name = a.name
        if name is None and i < len(definition.parameters):
            name = definition.parameters[i].name
        if name is None or name not in parameters:
            if a.name in ("dim", "axis", "axes", "keepdim"):
                fix = f"name the axis in a bracket: `{expr.function}[C](x)`"
                cx.error(scope, "E0208", f"axes have names, not numbers: `{a.name} =` is torch", a.span, "", fix)
            elif a.name is not None:
                near = closest(a.name, parameters)
                fix = f"did you mean `{near}`?" if near else f"write `{form}`"
                cx.error(scope, "E0404", f"`{expr.function}` has no parameter `{a.name}`", a.span, "", fix)
            else:
                message = f"`{expr.function}` takes {len(parameters)} arguments, not {len(expr.args)}"
                fix = f"write `{form}`"
                if definition.axes and isinstance(a.value, ast.Number | ast.Unary):
                    fix = f"an axis goes by its name, in a bracket: `{expr.function}[C]({', '.join(parameters)})`"
                cx.error(scope, "E0404", message, a.span, "one too many", fix)
            cx.expr(cx, scope, a.value)
            ok = False
            continue
        term = cx.expr(cx, scope, a.value)
        if name in given:
            cx.error(scope, "E0404", f"`{name}` of `{expr.function}` is given twice", a.span, "a second time")
            ok = False
            continue
        if a.weighted is not None:
            cx.error(scope, "E0308", "`weighted` stands in `mean` and `sum` only", a.weighted.span, "", "multiply")
            ok = False
        if a.where is not None:
            mask = need(cx, scope, "bool", cx.expr(cx, scope, a.where), a.where.span, "`where`")
            if parameters[name].axis is None:
                message = f"`{name}` of `{expr.function}` has no axis of its own: `where` would drop entries in silence"
                fix = "write `if condition then x else y`"
                cx.error(scope, "E0308", message, a.where.span, "`where` here", fix)
                ok = False
            elif is_poison(mask) or is_poison(term):
                term = POISON
            else:
                given[name] = _Given(a, term, mask)
        given.setdefault(name, _Given(a, term))
    missing = [p for p in parameters if p not in given]
    if missing and ok:
        names = ", ".join(f"`{m}`" for m in missing)
        cx.error(scope, "E0404", f"`{expr.function}` also takes {names}", expr.span, "", f"write `{form}`")
        ok = False
    return given if ok else None


def _bind_axes(
    cx: Context, scope: Scope, expr: ast.Call, definition: ast.Def, given: dict[str, _Given], inner: Scope
) -> bool:
    """Bind the def's axis parameters, and those that its parameters bring; False after an error."""
    own = [a.name for a in definition.axes]
    terms = [t for g in given.values() for t in (g.term, g.mask) if t is not None]
    written: list[str] = []
    for m in expr.axes:
        if m.to is not None:
            cx.error(scope, "E0307", f"`{expr.function}` takes axes only", m.span, "", f"write `{expr.function}[C](…)`")
            return False
        axes = resolve(cx, scope, m.axis.name, m.axis.span)
        if axes is None:
            return False
        written += axes
    if any(is_poison(t) for t in terms):
        return False
    if written and (not own or (len(own) > 1 and len(written) != len(own))):
        span = Span(expr.axes[0].span.start, expr.axes[-1].span.end)
        count = f"{len(own)} axes" if own else "no axes in a bracket"
        cx.error(scope, "E0307", f"`{expr.function}` takes {count}", span, "", "")
        return False
    if len(own) == 1:
        first = [
            t for n, g in given.items() if _declares(definition, n, own[0]) for t in (g.term, g.mask) if t is not None
        ]
        found = tuple(written) or _shared(scope, first, terms)
        found = found or inferred(cx, scope, expr.function, first or terms, expr.function_span)
        if found is None:
            return False
        inner.axes[own[0]] = found
    elif own and not written:
        message = f"`{expr.function}` takes {len(own)} axes in a bracket"
        names = ", ".join(own)
        cx.error(scope, "E0302", message, expr.function_span, "", f"write `{expr.function}[{names}](…)`")
        return False
    elif own:
        inner.axes.update({a: (x,) for a, x in zip(own, written, strict=True)})
    return all(_bind_parameter(cx, scope, expr, definition, p, given, inner, own) for p in definition.parameters)


def _shared(scope: Scope, first: list[Term], terms: list[Term]) -> tuple[str, ...] | None:
    """The one non-batch axis that all arguments share, for a def that leaves a choice of several."""
    if not first:
        return None
    common = [a for a in non_batch(scope, first) if all(a in t.type.axes for t in terms if t.type.axes)]
    return (common[0],) if len(common) == 1 else None


def _declares(definition: ast.Def, parameter: str, axis: str) -> bool:
    return any(p.name == parameter and p.axis is not None and p.axis.name == axis for p in definition.parameters)


def _bind_parameter(
    cx: Context,
    scope: Scope,
    expr: ast.Call,
    definition: ast.Def,
    p: ast.Parameter,
    given: dict[str, _Given],
    inner: Scope,
    own: list[str],
) -> bool:
    term, span = given[p.name].term, given[p.name].argument.value.span
    axes = term.type.axes | (given[p.name].mask or term).type.axes
    what = cx.text(scope, span, f"`{p.name}`")
    has = cx.show_axes(axes)
    if p.axis is not None and p.axis.name in own:
        lacking = [a for a in inner.axes[p.axis.name] if a not in axes]
        if lacking:
            message = f"`{expr.function}` can't run over `{cx.shown.get(lacking[0], lacking[0])}`: {what} has {has}"
            cx.error(scope, "E0301", message, span, f"this has {has}")
            return False
    elif p.axis is not None:
        found = non_batch(scope, [term])
        if len(found) != 1:
            message = f"`{p.name}` of `{expr.function}` has one axis that isn't a batch axis, but {what} has {has}"
            cx.error(scope, "E0302", message, span, f"this has {has}")
            return False
        inner.axes[p.axis.name] = (found[0],)
    if p.kind is None:
        return True
    kind = term.type.kind
    if p.kind.name != "index":
        wanted = "real" if p.kind.name == "prob" else p.kind.name
        if wanted == "label":
            return True
        return not is_poison(need(cx, scope, wanted, term, span, f"`{p.name}` of `{expr.function}`"))
    if not is_index(kind):
        other = next((n for n, g in given.items() if is_index(g.term.type.kind)), None)
        if other is not None and all(q.kind is None for q in definition.parameters if q.name == other):
            message = (
                f"`{expr.function}` takes `{', '.join(given)}` in this order: `{other}` and `{p.name}` are exchanged"
            )
            label = Label(given[other].argument.value.span, f"given as `{other}`")
            cx.error(scope, "E0306", message, span, f"given as `{p.name}`", "exchange them", label)
            return False
        message = f"`{p.name}` of `{expr.function}` is an index into an axis, but {what} is {kind}"
        cx.error(scope, "E0306", message, span, f"of kind {kind}", "declare it `: index C`")
        return False
    assert p.kind.axis is not None
    if p.kind.axis.name in inner.axes:
        return True
    base = kind.removeprefix("index ")
    others = [g.term for n, g in given.items() if n != p.name]
    near = {a for t in others for a in t.type.axes if base_axis(a) == base}
    choice = sorted(near - term.type.axes or near, key=len)
    inner.axes[p.kind.axis.name] = (choice[0] if choice else base,)
    return True
