"""Primitives as sympy expressions: the namespace in which a record's formula is run for sympy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import isfinite, isnan, pi
from typing import Any

import sympy

from lossdsl.primitives.record import Primitive


def lift(x: Any) -> Any:
    """A Python number as sympy's, exactly; expressions as they are."""
    if isinstance(x, bool):
        return sympy.true if x else sympy.false
    if isinstance(x, Fraction | float) and x == pi:  # no other number of a file is this double
        return sympy.pi
    if isinstance(x, Fraction):
        return sympy.Rational(x.numerator, x.denominator)
    if isinstance(x, float):
        if isnan(x):
            return sympy.nan
        return sympy.Rational(Fraction(x).numerator, Fraction(x).denominator) if isfinite(x) else sympy.sympify(x)
    return sympy.sympify(x)


def number(x: Any) -> Any:
    """x as a number: a condition is 1 where it holds."""
    x = lift(x)
    if x in (sympy.true, sympy.false):
        return sympy.Integer(x == sympy.true)
    return sympy.Piecewise((1, x), (0, True)) if is_condition(x) else x


def is_condition(x: Any) -> bool:
    """Whether an expression is true or false; symbols, which sympy counts among its Booleans, are numbers here."""
    return isinstance(x, sympy.logic.boolalg.Boolean) and not isinstance(x, sympy.Symbol)


def truth(x: Any) -> Any:
    """x as a condition: a number holds where it isn't 0."""
    x = lift(x)
    return x if is_condition(x) else sympy.Ne(x, 0)


def _select(c: Any, a: Any, b: Any) -> Any:
    return sympy.Piecewise((number(a), truth(c)), (number(b), True))


class Floor(sympy.Function):  # type: ignore[misc]
    """The floor, with derivative 0 everywhere: sympy's own leaves the derivative unevaluated."""

    @classmethod
    def eval(cls, x: Any) -> Any:
        return sympy.floor(x) if x.is_number else None

    def fdiff(self, argindex: int = 1) -> Any:
        return sympy.Integer(0)


class Round(sympy.Function):  # type: ignore[misc]
    """The nearest whole number, halves to the even one; derivative 0 everywhere."""

    @classmethod
    def eval(cls, x: Any) -> Any:
        return sympy.Integer(round(Fraction(str(sympy.nsimplify(x, rational=True))))) if x.is_number else None

    def fdiff(self, argindex: int = 1) -> Any:
        return sympy.Integer(0)


def _of(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: function(*(number(x) for x in arguments))


def _conditions(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: function(*(truth(x) for x in arguments))


TABLE: Mapping[str, Callable[..., Any]] = {
    "add": _of(lambda x, y: x + y),
    "sub": _of(lambda x, y: x - y),
    "mul": _of(lambda x, y: x * y),
    "div": _of(lambda x, y: x / y),
    "neg": _of(lambda x: -x),
    "pow": _of(lambda x, y: x**y),
    "exp": _of(sympy.exp),
    "log": _of(sympy.log),
    "sqrt": _of(sympy.sqrt),
    "abs": _of(sympy.Abs),
    "sign": _of(sympy.sign),
    "sin": _of(sympy.sin),
    "cos": _of(sympy.cos),
    "tan": _of(sympy.tan),
    "acos": _of(sympy.acos),
    "asin": _of(sympy.asin),
    "atan": _of(sympy.atan),
    "erf": _of(sympy.erf),
    "lgamma": _of(sympy.loggamma),
    "digamma": _of(lambda x: sympy.polygamma(0, x)),
    "trigamma": _of(lambda x: sympy.polygamma(1, x)),
    "tetragamma": _of(lambda x: sympy.polygamma(2, x)),
    "floor": _of(Floor),
    "round": _of(Round),
    "minimum": lambda x, y: _select(sympy.Le(number(x), number(y)), x, y),
    "maximum": lambda x, y: _select(sympy.Ge(number(x), number(y)), x, y),
    "select": _select,
    "eq": _of(sympy.Eq),
    "ne": _of(sympy.Ne),
    "lt": _of(sympy.Lt),
    "le": _of(sympy.Le),
    "gt": _of(sympy.Gt),
    "ge": _of(sympy.Ge),
    "and": _conditions(sympy.And),
    "or": _conditions(sympy.Or),
    "not": _conditions(sympy.Not),
    "isfinite": lambda x: sympy.true,
}


class Symbolic:
    """The namespace in which a record's formula becomes a sympy expression."""

    __slots__ = ("_primitives",)

    def __init__(self, primitives: Mapping[str, Primitive]) -> None:
        self._primitives = primitives

    def call(self, name: str, *arguments: Any) -> Any:
        """The primitive as an expression: its exact form where the record gives one."""
        record = self._primitives.get(name)
        if record is not None and record.exact is not None:
            return lift(record.exact(self, *(number(x) for x in arguments)))
        if name in TABLE:
            return TABLE[name](*arguments)
        if record is None or record.expand is None:
            raise KeyError(f"{name} has no exact form")
        return lift(record.expand(self, *(number(x) for x in arguments)))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *arguments: self.call(name, *arguments)
