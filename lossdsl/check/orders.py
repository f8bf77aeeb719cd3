"""Orders, which make a new axis, and the functions of square matrices."""

from __future__ import annotations

from lossdsl.check.arguments import check_names, plain_arguments
from lossdsl.check.axes import lookup, one, primes
from lossdsl.check.conditions import conditioned
from lossdsl.check.context import Context, Scope
from lossdsl.check.operators import need
from lossdsl.check.reductions import masked
from lossdsl.check.terms import POISON, is_poison
from lossdsl.check.typed import Term
from lossdsl.check.types import Type, base_axis
from lossdsl.primitives.interval import REALS
from lossdsl.syntax import ast


def order(cx: Context, scope: Scope, expr: ast.Call) -> Term:
    name = expr.function
    form = f"{name}[C -> K](key)"
    if not check_names(cx, scope, expr, form):
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
    return cx.terms.order(axis, to, name == "descending", conditioned(cx, scope, (axis,), key, span), mask, span)


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


def island(cx: Context, scope: Scope, expr: ast.Call) -> Term:
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
