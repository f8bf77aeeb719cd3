"""Roots: which axes the unknown has, and whether its equation determines it."""

from __future__ import annotations

from lossdsl.check.context import Context, Scope
from lossdsl.check.operators import need
from lossdsl.check.terms import POISON, is_poison
from lossdsl.check.typed import Term
from lossdsl.check.types import Type
from lossdsl.syntax import ast


def root(cx: Context, scope: Scope, expr: ast.Root) -> Term:
    """The unknown that makes an equation zero; one for each index of its ends and of its equation."""
    span = scope.at(expr.span)
    low = need(cx, scope, "real", cx.expr(cx, scope, expr.low), expr.low.span, "`root`")
    high = need(cx, scope, "real", cx.expr(cx, scope, expr.high), expr.high.span, "`root`")
    if is_poison(low) or is_poison(high):
        return POISON
    axes = low.type.axes | high.type.axes
    cx.roots += 1
    name = str(cx.roots)
    before = scope.values.get(expr.variable)
    interval = low.type.interval.hull(high.type.interval)
    for _ in range(4):
        # The unknown varies along whatever its equation varies along, which is known once it has been read.
        variable = cx.terms.make("var", (), (name, tuple(sorted(axes))), Type(axes, "real", interval), span)
        scope.values[expr.variable] = variable
        body = need(cx, scope, "real", cx.expr(cx, scope, expr.body), expr.body.span, "`root`")
        if is_poison(body) or body.type.axes <= axes:
            break
        axes |= body.type.axes
    if before is None:
        del scope.values[expr.variable]
    else:
        scope.values[expr.variable] = before
    if is_poison(body):
        return POISON
    holding = _holding(body, variable)
    if not holding:
        message = f"the equation of this root doesn't hold `{expr.variable}`"
        return cx.error(scope, "E0412", message, expr.body.span, f"`{expr.variable}` should stand here")
    if _others(body) - {name}:
        message = "the equation of this root holds the unknown of another"
        fix = "put one of the equations into the other, so that there is one unknown"
        return cx.error(scope, "E0412", message, expr.span, "a root in the equation of another", fix)
    mixed = axes & frozenset[str]().union(*map(_joined, holding))
    if mixed:
        message = f"the equation of this root runs over {cx.show_axes(mixed)}, along which `{expr.variable}` varies"
        fix = f"an end that doesn't vary there, such as `max{cx.show_axes(mixed)}(…)`: one unknown for each equation"
        end = expr.low if low.type.axes & mixed else expr.high if high.type.axes & mixed else expr.body
        return cx.error(scope, "E0412", message, end.span, f"this varies along {cx.show_axes(mixed)}", fix)
    return cx.terms.make("root", (low, high, body), (name,), Type(axes, "real", interval), span)


def _holding(body: Term, variable: Term) -> list[Term]:
    """The terms of an equation that its unknown stands in, without the unknown itself."""
    found: dict[int, Term] = {}
    seen: set[int] = set()
    stack = [body]
    while stack:
        term = stack[-1]
        waiting = [a for a in term.args if id(a) not in seen]
        if waiting:
            stack.extend(waiting)
            continue
        stack.pop()
        seen.add(id(term))
        if any(a is variable or id(a) in found for a in term.args):
            found[id(term)] = term
    return [*found.values()] or [body] * (body is variable)


def _others(body: Term) -> set[str]:
    """The unknowns in a term that belong to no root within it."""
    unknowns: set[str] = set()
    roots: set[str] = set()
    stack, seen = [body], {id(body)}
    while stack:
        term = stack.pop()
        if term.op in ("var", "root"):
            (unknowns if term.op == "var" else roots).add(str(term.attrs[0]))
        for a in term.args:
            if id(a) not in seen:
                seen.add(id(a))
                stack.append(a)
    return unknowns - roots


def _joined(term: Term) -> frozenset[str]:
    """The axes along which a term joins the entries of its argument: those it reduces, normalises, orders or picks."""
    if term.op == "reduce":
        axes = term.attrs[1]
        return frozenset(axes) if isinstance(axes, tuple) else frozenset()
    if term.op in ("pick", "softmax", "log_softmax", "cumsum", "order", "logdet", "eigvals", "solve"):
        first = term.attrs[0]
        names = first if isinstance(first, tuple) else term.attrs[:2]
        return frozenset(n for n in names if isinstance(n, str))
    return frozenset()
