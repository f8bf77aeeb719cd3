"""Moves a sign or a factor that stands outside the returned mean or sum into it, where the caller may replace that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lossdsl.source.text import Source
from lossdsl.syntax import ast
from lossdsl.syntax.parse import parse
from lossdsl.syntax.printing import print_expression


def moved_inside(source: Source) -> Source:
    """`return -mean[N](e)` as `return mean[N](-e)`; likewise factors that are numbers or params.

    The value is the same. A file without such is left as it is, and a return with a comment in it.
    DiagnosticError if the file doesn't parse.
    """
    loss = parse(source)
    value = loss.result.value
    own = {s.name for s in loss.body if isinstance(s, ast.Def)}
    numbers = {i.name for d in loss.decls if isinstance(d, ast.ParamDecl) for i, _ in d.items if not i.axes}
    found = _inside(value, own, numbers)
    commented = any(value.span.start <= c.span.start < value.span.end for c in loss.comments)
    if found is None or commented:
        return source
    text = f"{source.text[: value.span.start]}{print_expression(found)}{source.text[value.span.end :]}"
    return Source(source.name, text, source.owner)


def _inside(value: ast.Expr, own: set[str], numbers: set[str]) -> ast.Call | None:
    """The reduction with what stood around it in its argument; None for anything else."""
    match value:
        case ast.Unary("-", ast.Call() as call):
            return _within(call, own, lambda e: ast.Unary("-", e))
        case ast.Binary("*" as op, left, ast.Call() as call) if _number(left, numbers):
            return _within(call, own, lambda e: ast.Binary(op, left, e))
        case ast.Binary("*" | "/" as op, ast.Call() as call, right) if _number(right, numbers):
            return _within(call, own, lambda e: ast.Binary(op, e, right))
    return None


def _number(expr: ast.Expr, numbers: set[str]) -> bool:
    """Whether it is one number for all rows, as far as the text alone tells."""
    return isinstance(expr, ast.Number) or (isinstance(expr, ast.Name) and expr.name in numbers)


def _reduces(call: ast.Call, own: set[str]) -> bool:
    return call.function in ("mean", "sum") and call.function not in own and len(call.args) == 1


def _within(call: ast.Call, own: set[str], around: Callable[[ast.Expr], ast.Expr]) -> ast.Call | None:
    if not _reduces(call, own):
        return None
    argument = call.args[0]
    return replace(call, args=(replace(argument, value=around(argument.value)),))
