"""A call, by what its name is here: the file's own functions first, then the language, the prelude, the losses."""

from __future__ import annotations

from collections.abc import Callable

from lossdsl.check.arguments import no_bracket, plain_arguments
from lossdsl.check.axes import non_batch, resolve
from lossdsl.check.conditions import extent
from lossdsl.check.context import Context, Scope
from lossdsl.check.defs import call_def
from lossdsl.check.losses import call_loss, find_loss
from lossdsl.check.names import unknown_function
from lossdsl.check.operators import apply_primitive, need
from lossdsl.check.orders import island, order
from lossdsl.check.prelude import of_prelude, prelude
from lossdsl.check.reductions import keeping, prelude_form, reduction
from lossdsl.check.terms import POISON
from lossdsl.check.typed import Term
from lossdsl.syntax import ast

NAMED = {"max": "maximum", "min": "minimum"}  # elementwise with two arguments or more, a reduction with a bracket


def call(cx: Context, scope: Scope, expr: ast.Call) -> Term:
    """A call, by what its name is here: the file's own functions first, then modes, the language, prelude, losses."""
    cx.note("function", scope, expr.function, expr.function_span)
    if expr.function in scope.modes and expr.function not in scope.functions:
        cx.called.add(expr.function)
        chosen = scope.modes[expr.function]
        if chosen in cx.missing:
            for argument in expr.args:
                cx.expr(cx, scope, argument.value)
            return POISON
        expr = ast.Call(chosen, expr.axes, expr.args, function_span=expr.function_span, span=expr.span)
    name = expr.function
    if name in cx.gaps.functions and name not in scope.functions and scope.site is None:
        for argument in expr.args:
            cx.expr(cx, scope, argument.value)
        return POISON
    if name in scope.functions:
        cx.called.add(name)
        return call_def(cx, scope, expr, scope.functions[name])
    if name in _FORMS:
        return _FORMS[name](cx, scope, expr)
    if name in NAMED and not expr.axes:
        return _extremum(cx, scope, expr)
    if name in cx.registry.reductions and cx.registry.reductions[name].public:
        return reduction(cx, scope, expr)
    if name in ("mean", "normalize"):
        return prelude_form(cx, scope, expr)
    if name in cx.registry.primitives and (cx.registry.primitives[name].public or of_prelude(scope)):
        return _primitive(cx, scope, expr)
    if name in prelude():
        return call_def(cx, scope, expr, prelude()[name])
    found = find_loss(cx, scope, name, expr.function_span)
    if found is not None:
        return call_loss(cx, scope, expr, found)
    for argument in expr.args:
        cx.expr(cx, scope, argument.value)
    if ("E0202", scope.at(expr.function_span)) in cx.reported:  # a loss of several packs
        return POISON
    return unknown_function(cx, scope, name, expr.function_span, sum(a.name is None for a in expr.args))


def _extremum(cx: Context, scope: Scope, expr: ast.Call) -> Term:
    name = expr.function
    if len(expr.args) == 1:
        message = f"`{name}` of one value needs its axis"
        given = cx.expr(cx, scope, expr.args[0].value)
        axes = non_batch(scope, [given]) or sorted(given.type.axes)
        axis = cx.shown.get(axes[-1], axes[-1]) if axes else "C"
        fix = f"write `{name}[{axis}](x)` over an axis, `{name}(a, b)` entry by entry"
        return cx.error(scope, "E0302", message, expr.function_span, "over which axis?", fix)
    terms = plain_arguments(cx, scope, expr, max(2, len(expr.args)), f"{name}(a, b)")
    if terms is None:
        return POISON
    result = need(cx, scope, "real", terms[0], expr.args[0].value.span, f"`{name}`")
    for a, term in zip(expr.args[1:], terms[1:], strict=True):
        term = need(cx, scope, "real", term, a.value.span, f"`{name}`")
        result = cx.terms.apply(NAMED[name], (result, term), scope.at(expr.span))
    return result


def _primitive(cx: Context, scope: Scope, expr: ast.Call) -> Term:
    record = cx.registry.primitives[expr.function]
    letters = ("x", "y", "z") if expr.function != "clip" else ("x", "lo", "hi")
    form = f"{expr.function}({', '.join(letters[: record.arity])})"
    ok = no_bracket(cx, scope, expr)
    terms = plain_arguments(cx, scope, expr, record.arity, form)
    if terms is None or not ok:
        return POISON
    if record.plain and scope.site is None:
        message = f"`{expr.function}` is written for the sake of rounding, which the compiler looks after"
        cx.warn("W0509", message, expr.function_span, "", f"write `{record.plain}`")
    pairs = [(t, a.value.span) for t, a in zip(terms, expr.args, strict=True)]
    return apply_primitive(cx, scope, expr.function, pairs, scope.at(expr.span))


def _size(cx: Context, scope: Scope, expr: ast.Call) -> Term:
    argument = expr.args[0].value if len(expr.args) == 1 else None
    if not isinstance(argument, ast.AxisRef) or expr.axes:
        of = cx.expr(cx, scope, argument) if argument is not None and not isinstance(argument, ast.AxisRef) else POISON
        known = sorted(of.type.axes, key=cx.axis_order)
        fix = f"write `size({cx.shown.get(known[-1], known[-1]) if known else 'C'})`"
        return cx.error(scope, "E0404", "`size` takes the name of an axis", expr.span, "", fix)
    axes = resolve(cx, scope, argument.name, argument.span)
    if axes is None:
        return POISON
    span = scope.at(expr.span)
    result: Term | None = None
    for axis in axes:
        here = extent(cx, scope, axis, span)
        result = here if result is None else cx.terms.apply("mul", (result, here), span)
    assert result is not None
    return result


def _detach(cx: Context, scope: Scope, expr: ast.Call) -> Term:
    ok = no_bracket(cx, scope, expr)
    terms = plain_arguments(cx, scope, expr, 1, "detach(x)")
    return cx.terms.detach(terms[0], scope.at(expr.span)) if terms is not None and ok else POISON


_FORMS: dict[str, Callable[[Context, Scope, ast.Call], Term]] = {
    "softmax": keeping,
    "log_softmax": keeping,
    "cumsum": keeping,
    "size": _size,
    "detach": _detach,
    "descending": order,
    "ascending": order,
    "logdet": island,
    "eigvals": island,
    "solve": island,
}
