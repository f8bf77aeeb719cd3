"""Numbers that are known when the file is read: defaults and bounds of params."""

from __future__ import annotations

import math
from collections.abc import Callable

from lossdsl.check.context import Context, Scope
from lossdsl.syntax import ast

_FUNCTIONS: dict[str, Callable[[float], float]] = {
    "sqrt": math.sqrt,
    "log": math.log,
    "exp": math.exp,
    "abs": abs,
    "cos": math.cos,
    "sin": math.sin,
}
_NAMES = {"pi": math.pi, "inf": math.inf}
_INFINITY = ("infinity", "infty", "oo")


def constant(cx: Context, scope: Scope, expr: ast.Expr, what: str) -> float | int | None:
    """The value of a constant expression; None after an error."""
    try:
        value = value_of(expr)
        if not math.isnan(value):
            return value
        raise ArithmeticError
    except _NotConstantError as error:
        message = f"{what} is a number, known before any tensor is"
        spelt = isinstance(error.expr, ast.Name) and error.expr.name.casefold() in _INFINITY
        fix = "write `inf`" if spelt else "write a number, such as `0.5` or `pi / 2`"
        cx.error(scope, "E0405", message, error.expr.span, "not a constant", fix)
    except (ArithmeticError, ValueError):
        cx.error(scope, "E0405", f"{what} has no finite value", expr.span, "can't be computed")
    return None


class _NotConstantError(Exception):
    def __init__(self, expr: ast.Expr) -> None:
        super().__init__()
        self.expr = expr


def value_of(expr: ast.Expr) -> float | int:
    """The value of an expression of numbers; an exception of this module or an ArithmeticError where it has none."""
    match expr:
        case ast.Number(text):
            if text.isdigit() and len(text) <= 15:
                return int(text)
            value = float(text) if len(text) < 400 else math.inf
            if math.isinf(value):
                raise OverflowError
            return value
        case ast.Name(name) if name in _NAMES:
            return _NAMES[name]
        case ast.Unary("-", value=inner):
            return -value_of(inner)
        case ast.Binary(op, left, right):
            return _binary(expr, op, value_of(left), value_of(right))
        case ast.Call(function, axes=(), args=(ast.Argument(inner, None, None, None),)) if function in _FUNCTIONS:
            return float(_FUNCTIONS[function](value_of(inner)))
    raise _NotConstantError(expr)


def _binary(expr: ast.Expr, op: str, a: float | int, b: float | int) -> float | int:
    if op == "+":
        return a + b
    if op == "-":
        return a - b
    if op == "*":
        return a * b
    if op == "/":
        return a / b
    if op == "^":
        return float(math.pow(a, b))
    raise _NotConstantError(expr)
