"""Limits of a loss in one of its params, by those of its parts."""

from __future__ import annotations

from typing import Any

import sympy

from lossdsl.derive.symbolic.algebra import Algebra, vanishes


class NoLimitError(Exception):
    """The limit was not found."""


def limit(a: Algebra, e: Any, x: Any, to: Any, side: str) -> Any:
    """The limit of a composition: of its arguments, of numerator and denominator, by de l'Hospital's rule at 0/0."""
    if to == sympy.oo:
        u = sympy.Symbol("u", positive=True)
        return limit(a, e.subs(x, 1 / u), u, sympy.Integer(0), "+")
    try:
        return _limit_of(a, e, x, to, ORDERS)
    except NoLimitError:
        return sympy.limit(e, x, to, side)


ORDERS = 4  # how often numerator and denominator are differentiated


def _limit_of(a: Algebra, e: Any, x: Any, to: Any, orders: int) -> Any:
    if not e.has(x):
        return e
    if e.has(sympy.Piecewise, sympy.sign, sympy.floor, sympy.ceiling):  # which may jump
        raise NoLimitError
    value = e.subs(x, to)
    if not value.has(sympy.nan, sympy.zoo, sympy.oo, -sympy.oo):
        return value
    if isinstance(e, sympy.Mul | sympy.Pow):
        top, bottom = sympy.fraction(e)
        if bottom.has(x):
            return _quotient(a, top, bottom, x, to, orders)
    if isinstance(e, sympy.Add):
        try:
            return sympy.Add(*(_limit_of(a, term, x, to, orders) for term in e.args))
        except NoLimitError:
            top, bottom = sympy.fraction(sympy.together(e))
            if bottom.has(x):
                return _quotient(a, top, bottom, x, to, orders)
            raise
    if isinstance(e, sympy.Pow | sympy.Mul | sympy.Function | sympy.exp | sympy.log):
        found = e.func(*(_limit_of(a, part, x, to, orders) for part in e.args))
        if not found.has(sympy.nan, sympy.zoo, sympy.oo, -sympy.oo):
            return found
    raise NoLimitError


def _quotient(a: Algebra, top: Any, bottom: Any, x: Any, to: Any, orders: int) -> Any:
    above, below = (_limit_of(a, part, x, to, orders) for part in (top, bottom))
    if not vanishes(a, below):
        return above / below
    if orders == 0 or not vanishes(a, above):
        raise NoLimitError
    top, bottom = sympy.diff(top, x), sympy.diff(bottom, x)
    return _limit_of(a, sympy.Mul(top, 1 / bottom, evaluate=False) if bottom != 1 else top, x, to, orders - 1)
