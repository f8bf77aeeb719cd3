"""What the constant parts of a claim are worth: a side without a finite value can't be compared with."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from lossdsl.check.context import Scope
from lossdsl.check.typed import Term
from lossdsl.source.text import Span
from lossdsl.syntax import ast

_NAMES = {"pi": math.pi, "inf": math.inf}
_BINARY: Mapping[str, Callable[[float, float], float]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: 0.0 if x == 0 or y == 0 else x * y,  # 0·inf is 0 in the language
    "/": lambda x, y: x / y,
    "^": math.pow,
}
_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "pow": "^"}
_UNARY: Mapping[str, Callable[[float], float]] = {
    **{name: getattr(math, name) for name in ("exp", "log", "sqrt", "sin", "cos", "tan", "acos", "asin", "atan")},
    **{name: getattr(math, name) for name in ("tanh", "erf", "lgamma", "floor", "log1p", "expm1")},
    "abs": abs,
    "relu": lambda x: max(x, 0.0),
    "sign": lambda x: (x > 0) - (x < 0),
}
_SEVERAL: Mapping[str, Callable[..., float]] = {"min": min, "max": max}


class NoValueError(Exception):
    """A constant expression that has no value, or one that no float holds; `huge` tells which."""

    def __init__(self, expr: Any, huge: bool) -> None:
        super().__init__()
        self.expr = expr
        self.huge = huge


def worth(scope: Scope, expr: Any, given: Mapping[str, float]) -> float | None:
    """The value of an expression, `given` the names that a claim sets; None where it depends on others.

    NoValueError where a constant part of it, however deep, has none.
    """
    match expr:
        case ast.Number(text):
            return float(text)
        case ast.Name(name) if name in given:
            return given[name]
        case ast.Name(name) if name in scope.values:
            return _known(scope.values[name], expr, {})
        case ast.Name(name):
            return _NAMES.get(name)
        case ast.Unary("-", value=inner):
            value = worth(scope, inner, given)
            return None if value is None else -value
        case ast.Binary(op, left, right):
            sides = [worth(scope, left, given), worth(scope, right, given)]
            return _applied(expr, _BINARY.get(op), sides)
        case ast.Call(function, axes=(), args=args):
            values = [worth(scope, a.value, given) for a in args]
            if function in scope.functions or any(a.where is not None for a in args):
                return None
            if len(values) == 1:
                return _applied(expr, _UNARY.get(function), values)
            return _applied(expr, _SEVERAL.get(function), values)
    for part in _parts(expr):
        worth(scope, part, given)
    return None


def _parts(node: Any) -> Iterator[Any]:
    """The syntax below a node, one level down."""
    for name in node.__dataclass_fields__:
        value = getattr(node, name)
        for part in value if isinstance(value, tuple) else (value,):
            if hasattr(part, "__dataclass_fields__") and not isinstance(part, Span):
                yield part


def _known(term: Term, expr: Any, memo: dict[int, float | None]) -> float | None:
    """The value of a name that the file assigns."""
    if id(term) not in memo:
        values = [_known(a, expr, memo) for a in term.args]
        if term.op == "const":
            value = term.attrs[0]
            memo[id(term)] = float(value) if isinstance(value, int | float | Fraction) else None
        elif term.op == "neg":
            memo[id(term)] = None if values[0] is None else -values[0]
        else:
            function = _BINARY.get(_OPERATORS.get(term.op, "")) or (_UNARY.get(term.op) if len(values) == 1 else None)
            memo[id(term)] = _applied(expr, function, values) if values else None
    return memo[id(term)]


def _applied(expr: Any, function: Callable[..., float] | None, values: list[float | None]) -> float | None:
    if function is None or None in values:
        return None
    try:
        result = float(function(*values))
    except (ZeroDivisionError, ValueError):
        raise NoValueError(expr, False) from None
    except OverflowError:
        raise NoValueError(expr, True) from None
    if math.isnan(result):
        raise NoValueError(expr, False)
    if math.isinf(result) and all(v is not None and math.isfinite(v) for v in values):
        raise NoValueError(expr, True)
    return result
