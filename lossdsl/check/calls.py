"""Calls of what the language itself offers: reductions, orders, islands, primitives; the rest goes to `inline`."""

from __future__ import annotations

from collections.abc import Callable

from lossdsl.check import inline
from lossdsl.check.axes import inferred, lookup, one, primes, resolve
from lossdsl.check.context import Context, Scope
from lossdsl.check.names import unknown_function
from lossdsl.check.operators import apply_primitive, need
from lossdsl.check.prelude import prelude
from lossdsl.check.terms import POISON, is_poison
from lossdsl.check.typed import Term
from lossdsl.check.types import Type, base_axis
from lossdsl.primitives.interval import REALS
from lossdsl.source.diagnostic import Label
from lossdsl.source.text import Span
from lossdsl.syntax import ast

NAMED = {"max": "maximum", "min": "minimum"}  # elementwise with two arguments or more, a reduction with a bracket


def call(cx: Context, scope: Scope, expr: ast.Call) -> Term:
    """A call, by what its name is here: the file's own functions first, then modes, the language, prelude, losses."""
    name = expr.function
    if name in scope.functions:
        cx.called.add(name)
        return inline.call_def(cx, scope, expr, scope.functions[name])
    if name in scope.modes:
        chosen = scope.modes[name]
        if chosen in cx.missing:
            for argument in expr.args:
                cx.expr(cx, scope, argument.value)
            return POISON
        if chosen in scope.functions or chosen != name:
            cx.called.add(name)
            renamed = ast.Call(chosen, expr.axes, expr.args, function_span=expr.function_span, span=expr.span)
            hidden = {k: v for k, v in scope.modes.items() if k != name}
            modes, scope.modes = scope.modes, hidden
            try:
                return call(cx, scope, renamed)
            finally:
                scope.modes = modes
    if name in _FORMS:
        return _FORMS[name](cx, scope, expr)
    if name in NAMED and not expr.axes:
        return _extremum(cx, scope, expr)
    if name in cx.registry.reductions and cx.registry.reductions[name].public:
        return reduction(cx, scope, expr)
    if name in ("mean", "normalize"):
        return _prelude_form(cx, scope, expr)
    if name in cx.registry.primitives and cx.registry.primitives[name].public:
        return _primitive(cx, scope, expr)
    if name in prelude():
        return inline.call_def(cx, scope, expr, prelude()[name])
    found = inline.find_loss(cx, scope, name, expr.function_span)
    if found is not None:
        return inline.call_loss(cx, scope, expr, found)
    for argument in expr.args:
        cx.expr(cx, scope, argument.value)
    if ("E0202", scope.at(expr.function_span)) in cx.reported:  # a loss of several packs
        return POISON
    return unknown_function(cx, scope, name, expr.function_span)


# --- arguments ------------------------------------------------------------------------------------------------------


def plain_arguments(cx: Context, scope: Scope, expr: ast.Call, count: int, form: str) -> list[Term] | None:
    """`count` arguments without where, weighted or names; None after an error. `form` shows the right call."""
    ok = _check_names(cx, scope, expr, form)
    for a in expr.args:
        if a.where is not None or a.weighted is not None:
            part = a.where if a.where is not None else a.weighted
            assert part is not None
            word = "where" if a.where is not None else "weighted"
            message = f"`{word}` stands in a reduction, and `{expr.function}` isn't one"
            fix = "write `if condition then x else y`" if word == "where" else "multiply"
            cx.error(scope, "E0308", message, part.span, f"`{word}` here", fix)
            ok = False
    if len(expr.args) != count:
        message = f"`{expr.function}` takes {_count(count)}, not {len(expr.args)}"
        cx.error(scope, "E0404", message, expr.span, "", f"write `{form}`")
        ok = False
    terms = [cx.expr(cx, scope, a.value) for a in expr.args]
    return terms if ok else None


def _count(n: int) -> str:
    return "one argument" if n == 1 else f"{n} arguments" if n else "no argument"


def _check_names(cx: Context, scope: Scope, expr: ast.Call, form: str) -> bool:
    for a in expr.args:
        if a.name is None:
            continue
        if a.name in ("dim", "axis", "axes", "keepdim", "keepdims"):
            if a.name.startswith("keep"):
                fix = "values are joined by their axes' names: leave it out"
            else:
                fix = f"name the axis in a bracket: `{expr.function}[C](x)`"
            cx.error(scope, "E0208", f"axes have names, not numbers: `{a.name} =` is torch", a.span, "", fix)
        else:
            message = f"`{expr.function}` has no argument called `{a.name}`"
            cx.error(scope, "E0404", message, a.span, "", f"write `{form}`")
        return False
    return True


def no_bracket(cx: Context, scope: Scope, expr: ast.Call) -> bool:
    """Whether the call has no axes in a bracket; reports if it has."""
    if not expr.axes:
        return True
    span = Span(expr.axes[0].span.start, expr.axes[-1].span.end)
    message = f"`{expr.function}` works entry by entry: it takes no axes"
    cx.error(scope, "E0307", message, span, "", f"write `{expr.function}(…)`")
    return False


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


# --- reductions -----------------------------------------------------------------------------------------------------


def reduction(cx: Context, scope: Scope, expr: ast.Call) -> Term:
    """sum, max, logsumexp, … over written or inferred axes."""
    name = expr.function
    form = f"{name}[C](x where condition)"
    if not _check_names(cx, scope, expr, form):
        return POISON
    if len(expr.args) != 1:
        fix = f"write `{form}`"
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


def reduce_over(
    cx: Context, scope: Scope, name: str, axes: tuple[str, ...], body: Term, mask: Term | None, span: Span
) -> Term:
    """A reduction together with the conditions that a loss used as a function puts on its axes."""
    return cx.terms.reduce(name, axes, inline.conditioned(cx, scope, axes, body, span), mask, span)


def _keeping(cx: Context, scope: Scope, expr: ast.Call) -> Term:
    """softmax, log_softmax, cumsum: one axis, which stays."""
    name = expr.function
    if not _check_names(cx, scope, expr, f"{name}[C](x)"):
        return POISON
    if len(expr.args) != 1:
        message = f"`{name}` takes one argument, not {len(expr.args)}"
        return cx.error(scope, "E0404", message, expr.span, "", f"write `{name}[C](x)`")
    argument = expr.args[0]
    if argument.weighted is not None:
        return cx.error(scope, "E0308", "`weighted` stands in `mean` and `sum` only", argument.weighted.span, "")
    body, mask = masked(cx, scope, argument)
    body = need(cx, scope, "real", body, argument.value.span, f"`{name}`")
    axes = over(cx, scope, expr, [body] if mask is None else [body, mask])
    if axes is None:
        return POISON
    span = scope.at(expr.span)
    body = inline.conditioned(cx, scope, axes, body, span)
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


def _prelude_form(cx: Context, scope: Scope, expr: ast.Call) -> Term:
    """mean, which may be weighted, and normalize, whose masked entries are 0: else as the prelude says."""
    function = prelude()[expr.function]
    if len(expr.args) != 1 or expr.args[0].name is not None:
        return inline.call_def(cx, scope, expr, function)
    argument = expr.args[0]
    span = scope.at(expr.span)
    if expr.function == "normalize":
        result = inline.call_def(cx, scope, expr, function)
        if argument.where is not None and result.op == "where":
            kept, others = result.args[-1], result.args[1:-1]
            result = cx.terms.apply("select", (kept, result.args[0], cx.terms.const(0, span)), span)
            result = cx.terms.where(result, others, span) if others else result
        return result
    if argument.weighted is None:
        return inline.call_def(cx, scope, expr, function)
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


def _extremum(cx: Context, scope: Scope, expr: ast.Call) -> Term:
    name = expr.function
    if len(expr.args) == 1:
        message = f"`{name}` of one value needs its axis"
        fix = f"write `{name}[C](x)` over an axis, `{name}(a, b)` entry by entry"
        cx.expr(cx, scope, expr.args[0].value)
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


# --- the other forms ------------------------------------------------------------------------------------------------


def _size(cx: Context, scope: Scope, expr: ast.Call) -> Term:
    argument = expr.args[0].value if len(expr.args) == 1 else None
    if not isinstance(argument, ast.AxisRef) or expr.axes:
        return cx.error(scope, "E0404", "`size` takes the name of an axis", expr.span, "", "write `size(C)`")
    axes = resolve(cx, scope, argument.name, argument.span)
    if axes is None:
        return POISON
    span = scope.at(expr.span)
    result: Term | None = None
    for axis in axes:
        here = inline.extent(cx, scope, axis, span)
        result = here if result is None else cx.terms.apply("mul", (result, here), span)
    assert result is not None
    return result


def _detach(cx: Context, scope: Scope, expr: ast.Call) -> Term:
    ok = no_bracket(cx, scope, expr)
    terms = plain_arguments(cx, scope, expr, 1, "detach(x)")
    return cx.terms.detach(terms[0], scope.at(expr.span)) if terms is not None and ok else POISON


def _order(cx: Context, scope: Scope, expr: ast.Call) -> Term:
    name = expr.function
    form = f"{name}[C -> K](key)"
    if not _check_names(cx, scope, expr, form):
        return POISON
    target = expr.axes[0].to if len(expr.axes) == 1 and not expr.axes[0].binds else None
    if target is None or len(expr.args) != 1:
        message = f"`{name}` puts the entries of one axis in order, along a new one"
        return cx.error(scope, "E0311", message, expr.span, "", f"write `{form}`")
    argument = expr.args[0]
    key, mask = masked(cx, scope, argument)
    key = need(cx, scope, "real", key, argument.value.span, f"`{name}`")
    axis = one(cx, scope, expr.axes[0].axis)
    if axis is None or is_poison(key):
        return POISON
    if axis not in key.type.axes and (mask is None or axis not in mask.type.axes):
        has = cx.show_axes(key.type.axes)
        message = f"`{name}` can't order `{expr.axes[0].axis.name}`: {cx.text(scope, argument.value.span)} has {has}"
        return cx.error(scope, "E0301", message, expr.axes[0].span, "not an axis of the key")
    to = _order_axis(cx, scope, target, cx.terms.size(axis, scope.at(target.span)))
    if to is None:
        return POISON
    span = scope.at(expr.span)
    return cx.terms.order(axis, to, name == "descending", inline.conditioned(cx, scope, (axis,), key, span), mask, span)


def _order_axis(cx: Context, scope: Scope, target: ast.AxisRef, size: Term) -> str | None:
    """The axis that an order creates, with its size noted."""
    if primes(target.name):
        message = f"the new axis of an order has a name of its own, not `{target.name}`"
        cx.error(scope, "E0311", message, target.span, "", "name it `K`; copies of it are K'")
        return None
    found = lookup(scope, target.name)
    if found is None:
        found = scope.axes[target.name] = (cx.new_axis(target.name, scope.orders.get(target.name, size)),)
    axis = found[0]
    known = cx.sizes.get(axis)
    if known is None:
        cx.sizes[axis] = size
    elif known.op == "size" and size.op == "size" and base_axis(str(known.attrs[0])) != base_axis(str(size.attrs[0])):
        message = (
            f"`{target.name}` would be the order of `{known.attrs[0]}` in one place and of `{size.attrs[0]}` in another"
        )
        cx.error(scope, "E0311", message, target.span, "", "give each order an axis of its own")
        return None
    return axis


def _matrix_axes(cx: Context, scope: Scope, expr: ast.Call, term: Term, form: str) -> tuple[str, str] | None:
    """The two axes of a square matrix, copies of one axis, which the term has."""
    if len(expr.axes) != 2:
        message = f"`{expr.function}` takes a square matrix: two copies of one axis"
        cx.error(scope, "E0311", message, expr.span, "", f"write `{form}`")
        return None
    first, second = one(cx, scope, expr.axes[0].axis), one(cx, scope, expr.axes[1].axis)
    if first is None or second is None or is_poison(term):
        return None
    if first == second or base_axis(first) != base_axis(second):
        message = f"`{expr.function}` takes a square matrix, and `{first}`, `{second}` are not two copies of one axis"
        cx.error(scope, "E0311", message, expr.axes[1].span, "", f"write `{form}`")
        return None
    for axis, m in ((first, expr.axes[0]), (second, expr.axes[1])):
        if axis not in term.type.axes:
            has = cx.show_axes(term.type.axes)
            message = f"`{expr.function}`: {cx.text(scope, expr.args[0].value.span)} has {has}, no `{m.axis.name}`"
            cx.error(scope, "E0301", message, m.axis.span, "not an axis of the matrix")
            return None
    return first, second


def _island(cx: Context, scope: Scope, expr: ast.Call) -> Term:
    name = expr.function
    form = {
        "logdet": "logdet[D, D'](m)",
        "eigvals": "eigvals[D, D' -> K](m)",
        "solve": "solve[N, N'](a, b)",
    }[name]
    terms = plain_arguments(cx, scope, expr, 2 if name == "solve" else 1, form)
    if terms is None:
        return POISON
    terms = [need(cx, scope, "real", t, a.value.span, f"`{name}`") for t, a in zip(terms, expr.args, strict=True)]
    target = expr.axes[-1].to if expr.axes else None
    if (target is not None) != (name == "eigvals"):
        return cx.error(scope, "E0311", f"`{name}` is written differently", expr.span, "", f"write `{form}`")
    pair = _matrix_axes(cx, scope, expr, terms[0], form)
    if pair is None or any(is_poison(t) for t in terms):
        return POISON
    span = scope.at(expr.span)
    bare = [t.args[0] if t.op == "where" else t for t in terms]
    masks = [m for t in terms if t.op == "where" for m in t.args[1:]]
    axes = bare[0].type.axes - set(pair)
    if name == "eigvals":
        assert target is not None
        to = _order_axis(cx, scope, target, cx.terms.size(pair[0], span))
        if to is None:
            return POISON
        result = cx.terms.make("eigvals", bare, (*pair, to), Type(axes | {to}, "real", REALS), span)
    elif name == "solve":
        if pair[0] not in bare[1].type.axes:
            has = cx.show_axes(bare[1].type.axes)
            message = f"`solve[{pair[0]}, {pair[1]}](a, b)`: b has {has}, no `{pair[0]}`"
            return cx.error(scope, "E0301", message, expr.args[1].value.span, f"this has {has}")
        axes = axes | (bare[1].type.axes - {pair[0]}) | {pair[1]}
        result = cx.terms.make("solve", bare, pair, Type(axes, "real", REALS), span)
    else:
        result = cx.terms.make("logdet", bare, pair, Type(axes, "real", REALS), span)
    masks = [m for m in masks if not m.type.axes & set(pair)]
    return cx.terms.where(result, masks, span) if masks else result


_FORMS: dict[str, Callable[[Context, Scope, ast.Call], Term]] = {
    "softmax": _keeping,
    "log_softmax": _keeping,
    "cumsum": _keeping,
    "size": _size,
    "detach": _detach,
    "descending": _order,
    "ascending": _order,
    "logdet": _island,
    "eigvals": _island,
    "solve": _island,
}
