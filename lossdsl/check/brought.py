"""Which part of an expression brings an axis that the rest of it lacks."""

from __future__ import annotations

from lossdsl.check.context import Context, Scope
from lossdsl.check.terms import is_poison
from lossdsl.syntax import ast

_ROUNDS = 60  # steps into the expression


def bringer(cx: Context, scope: Scope, expr: ast.Expr, axes: frozenset[str]) -> ast.Expr | None:
    """The smallest part of a right expression that varies along `axes` beside one that doesn't, through assignments.

    None where no operation joins the two: then the whole expression is of these axes.
    """
    found: ast.Expr | None = None
    seen: set[str] = set()
    for _ in range(_ROUNDS):
        if isinstance(expr, ast.Name) and expr.name in scope.written and expr.name not in seen:
            seen.add(expr.name)
            expr = scope.written[expr.name]
            continue
        parts = _parts(expr)
        having = [part for part in parts if _has(cx, scope, part, axes)]
        if len(having) != 1:
            return found
        expr = having[0]
        found = expr if len(parts) > 1 else found
    return found


def _has(cx: Context, scope: Scope, expr: ast.Expr, axes: frozenset[str]) -> bool:
    term = cx.expr(cx, scope, expr)
    return not is_poison(term) and axes <= term.type.axes


def _parts(expr: ast.Expr) -> tuple[ast.Expr, ...]:
    """What an operation works on entry by entry; nothing for those that take axes away."""
    if isinstance(expr, ast.Binary):
        return (expr.left, expr.right)
    if isinstance(expr, ast.Unary):
        return (expr.value,)
    if isinstance(expr, ast.If):
        return (expr.condition, expr.then, expr.otherwise)
    return ()
