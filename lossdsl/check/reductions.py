"""Reductions, and the functions that keep their axis: what they run over, and under which mask."""

from __future__ import annotations

from lossdsl.check.arguments import check_names
from lossdsl.check.axes import inferred, resolve
from lossdsl.check.conditions import conditioned
from lossdsl.check.context import Context, Scope
from lossdsl.check.defs import call_def
from lossdsl.check.operators import need
from lossdsl.check.prelude import prelude
from lossdsl.check.terms import POISON, is_poison
from lossdsl.check.typed import Term
from lossdsl.source.diagnostic import Label
from lossdsl.source.text import Span
from lossdsl.syntax import ast


def masked(cx: Context, scope: Scope, argument: ast.Argument) -> tuple[Term, Term | None]:
    """The body of a reduction and its mask."""
    body = cx.expr(cx, scope, argument.value)
    if argument.where is None:
        return body, None
    return body, need(cx, scope, "bool", cx.expr(cx, scope, argument.where), argument.where.span, "`where`")


def over(cx: Context, scope: Scope, expr: ast.Call, terms: list[Term]) -> tuple[str, ...] | None:
    """The axes of a reduction, written or inferred, each of which one of the terms has; None after an error."""
    if not expr.axes:
        return inferred(cx, scope, expr.function, terms, expr.function_span)
    have = frozenset[str]().union(*(t.type.axes for t in terms))
    result: list[str] = []
    ok = not any(is_poison(t) for t in terms)
    for m in expr.axes:
        if m.to is not None:
            message = f"`{expr.function}` takes axes, not `{m.axis.name} {'=' if m.binds else '->'} {m.to.name}`"
            cx.error(scope, "E0307", message, m.span, "", f"write `{expr.function}[{m.axis.name}](…)`")
            ok = False
            continue
        axes = resolve(cx, scope, m.axis.name, m.axis.span)
        if axes is None:
            ok = False
            continue
        for axis in axes:
            if axis in result:
                cx.error(scope, "E0307", f"`{m.axis.name}` is named twice", m.span, "a second time", "name it once")
                ok = False
            elif axis not in have and ok:
                argument = expr.args[0]
                what = cx.text(scope, argument.value.span, "its argument")
                message = f"`{expr.function}` can't run over `{m.axis.name}`: {what} has {cx.show_axes(have)}"
                label = Label(argument.value.span, f"this has {cx.show_axes(have)}")
                cx.error(scope, "E0301", message, m.axis.span, "not an axis of the argument", "", label)
                ok = False
            result.append(axis)
    return tuple(result) if ok else None


def reduction(cx: Context, scope: Scope, expr: ast.Call) -> Term:
    """sum, max, logsumexp, … over written or inferred axes."""
    name = expr.function
    form = f"{name}[C](x where condition)"
    if not check_names(cx, scope, expr, form):
        return POISON
    if len(expr.args) != 1:
        fix = f"write `{_with_axis(cx, scope, expr) or form}`"
        message = f"the reduction `{name}` takes one argument, not {len(expr.args)}"
        return cx.error(scope, "E0404", message, expr.span, "", fix)
    argument = expr.args[0]
    body, mask = masked(cx, scope, argument)
    if argument.weighted is not None and name != "sum":
        message = "`weighted` stands in `mean` and `sum` only"
        return cx.error(scope, "E0308", message, argument.weighted.span, "", "multiply, or write a mean")
    if name != "count":
        body = need(cx, scope, "real", body, argument.value.span, f"`{name}`")
    if argument.weighted is not None:
        weight = need(cx, scope, "real", cx.expr(cx, scope, argument.weighted), argument.weighted.span, "`weighted`")
        body = cx.terms.apply("mul", (weight, body), scope.at(argument.span))
    axes = over(cx, scope, expr, [body] if mask is None else [body, mask])
    if axes is None:
        return POISON
    if name == "argmax" and len(axes) > 1:
        message = "`argmax` gives an index along one axis"
        return cx.error(scope, "E0307", message, expr.span, "", "name one axis")
    return reduce_over(cx, scope, name, axes, body, mask, scope.at(expr.span))


def _with_axis(cx: Context, scope: Scope, expr: ast.Call) -> str:
    """A call that says its axis like an argument, `sum(x, D)` or torch's `softmax(x, -1)`, as it is written here."""
    if len(expr.args) != 2 or expr.axes or scope.site is not None:
        return ""
    value, axis = expr.args[0].value, expr.args[1].value
    name = axis.name if isinstance(axis, ast.AxisRef) else ""
    if not name:
        left = [a for a in cx.expr(cx, scope, value).type.axes if a not in scope.batch]
        name = cx.shown.get(left[0], left[0]) if len(left) == 1 else ""
    return f"{expr.function}[{name}]({cx.text(scope, value.span, '…').strip('`')})" if name else ""


def reduce_over(
    cx: Context, scope: Scope, name: str, axes: tuple[str, ...], body: Term, mask: Term | None, span: Span
) -> Term:
    """A reduction together with the conditions that a loss used as a function puts on its axes."""
    return cx.terms.reduce(name, axes, conditioned(cx, scope, axes, body, span), mask, span)


def keeping(cx: Context, scope: Scope, expr: ast.Call) -> Term:
    """softmax, log_softmax, cumsum: one axis, which stays."""
    name = expr.function
    if not check_names(cx, scope, expr, f"{name}[C](x)"):
        return POISON
    if len(expr.args) != 1:
        message = f"`{name}` takes one argument, not {len(expr.args)}"
        fix = f"write `{_with_axis(cx, scope, expr) or f'{name}[C](x)'}`"
        return cx.error(scope, "E0404", message, expr.span, "", fix)
    argument = expr.args[0]
    if argument.weighted is not None:
        return cx.error(scope, "E0308", "`weighted` stands in `mean` and `sum` only", argument.weighted.span, "")
    body, mask = masked(cx, scope, argument)
    body = need(cx, scope, "real", body, argument.value.span, f"`{name}`")
    axes = over(cx, scope, expr, [body] if mask is None else [body, mask])
    if axes is None:
        return POISON
    span = scope.at(expr.span)
    body = conditioned(cx, scope, axes, body, span)
    if len(axes) > 1:
        if name == "cumsum":
            return cx.error(scope, "E0307", "`cumsum` runs along one axis", expr.span, "", "name one axis")
        total = cx.terms.reduce("logsumexp", axes, body, mask, span)
        logp = cx.terms.apply("sub", (body, total), span)
        result = logp if name == "log_softmax" else cx.terms.apply("exp", (logp,), span)
        if mask is not None:
            empty = cx.terms.const(float("-inf") if name == "log_softmax" else 0, span)
            result = cx.terms.apply("select", (mask, result, empty), span)
        return result
    return cx.terms.keep(name, axes[0], body, mask, span)


def prelude_form(cx: Context, scope: Scope, expr: ast.Call) -> Term:
    """mean, which may be weighted, and normalize, whose masked entries are 0: else as the prelude says."""
    function = prelude()[expr.function]
    if len(expr.args) != 1 or expr.args[0].name is not None:
        return call_def(cx, scope, expr, function)
    argument = expr.args[0]
    span = scope.at(expr.span)
    if expr.function == "normalize":
        result = call_def(cx, scope, expr, function)
        if argument.where is not None and result.op == "where":
            kept, others = result.args[-1], result.args[1:-1]
            result = cx.terms.apply("select", (kept, result.args[0], cx.terms.const(0, span)), span)
            result = cx.terms.where(result, others, span) if others else result
        return result
    if argument.weighted is None:
        return call_def(cx, scope, expr, function)
    body, mask = masked(cx, scope, argument)
    body = need(cx, scope, "real", body, argument.value.span, "`mean`")
    weight = need(cx, scope, "real", cx.expr(cx, scope, argument.weighted), argument.weighted.span, "`weighted`")
    axes = over(cx, scope, expr, [t for t in (body, weight, mask) if t is not None])
    if axes is None or is_poison(weight):
        return POISON
    product = cx.terms.apply("mul", (weight, body), span)
    top = reduce_over(cx, scope, "sum", axes, product, mask, span)
    # A weight counts where its entry is there: the sum of weights skips what the body skips.
    there = list(body.args[1:]) if body.op == "where" else []
    bottom = reduce_over(cx, scope, "sum", axes, cx.terms.where(weight, there, span), mask, span)
    zero = cx.terms.const(0, span)
    some = cx.terms.apply("ne", (bottom, zero), span)
    return cx.terms.apply("select", (some, cx.terms.apply("div", (top, bottom), span), zero), span)
