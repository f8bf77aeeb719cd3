"""Limits of a loss in one of its params, by those of its parts: at every point, not at almost every one."""

from __future__ import annotations

from fractions import Fraction
from math import inf
from typing import Any

import sympy

from lossdsl.derive.symbolic.algebra import Algebra, vanishes
from lossdsl.primitives import interval
from lossdsl.primitives.interval import FINITE, REALS, Interval
from lossdsl.primitives.scan import declared_primitives


class NoLimitError(NotImplementedError):
    """The limit was not found."""


def limit(a: Algebra, e: Any, x: Any, to: Any, side: str) -> Any:
    """The limit of a composition: of its arguments, of numerator and denominator, by de l'Hospital's rule at 0/0."""
    if to == sympy.oo:
        u = sympy.Dummy("u", positive=True)  # no param of that name
        return limit(a, e.subs(x, 1 / u), u, sympy.Integer(0), "+")
    return _limit_of(a, _settled(e, x, to), x, to, ORDERS)


def _settled(e: Any, x: Any, to: Any) -> Any:
    """With the signs and tests of x that `to` isn't the edge of as they are near it."""
    found = {}
    for part in e.atoms(sympy.sign, sympy.core.relational.Relational):
        gap = part.args[0] if isinstance(part, sympy.sign) else part.lhs - part.rhs
        near = gap.subs(x, to)
        jumps = gap.has(*JUMPS)
        if gap.free_symbols == {x} and not jumps and near.is_finite and near.is_zero is False:
            found[part] = part.subs(x, to)
    return e.xreplace(found)


JUMPS = sympy.Piecewise, sympy.sign, sympy.floor, sympy.ceiling
CONTINUOUS = sympy.exp, sympy.log, sympy.Abs, sympy.erf, sympy.atan, sympy.tanh, sympy.sin, sympy.cos  # or with poles
ORDERS = 4  # how often numerator and denominator are differentiated


def _limit_of(a: Algebra, e: Any, x: Any, to: Any, orders: int) -> Any:
    if not e.has(x):
        return e
    if e.has(*JUMPS) or not all(isinstance(f, CONTINUOUS) for f in e.atoms(sympy.Function) if f.has(x)):
        raise NoLimitError
    if isinstance(e, sympy.exp) and to == 0 and x.is_positive:  # e^(-c/x)
        c = sympy.cancel(-x * e.args[0])
        if c.is_positive and not c.has(x):
            return sympy.Integer(0)
    value = e.subs(x, to)
    if not value.has(sympy.nan, sympy.zoo, sympy.oo, -sympy.oo):
        if _continuous(a, e, x, to):
            return value
        raise NoLimitError
    if isinstance(e, sympy.Mul | sympy.Pow):
        top, bottom = sympy.fraction(e)
        if bottom.has(x) and not any(part.has(1 / x) for part in bottom.atoms(sympy.exp)):
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
        parts = [_limit_of(a, part, x, to, orders) for part in e.args]
        if isinstance(e, sympy.Pow) and not parts[1].is_positive and not _never_zero(a, parts[0]):
            raise NoLimitError  # 0^0
        found = e.func(*parts)
        if not found.has(sympy.nan, sympy.zoo, sympy.oo, -sympy.oo):
            return found
    raise NoLimitError


def _quotient(a: Algebra, top: Any, bottom: Any, x: Any, to: Any, orders: int) -> Any:
    above, below = (_limit_of(a, part, x, to, orders) for part in (top, bottom))
    if _never_zero(a, below):
        return above / below
    if orders == 0 or not vanishes(a, below) or not vanishes(a, above):
        raise NoLimitError
    top, bottom = sympy.diff(top, x), sympy.diff(bottom, x)
    return _limit_of(a, sympy.Mul(top, 1 / bottom, evaluate=False) if bottom != 1 else top, x, to, orders - 1)


def _continuous(a: Algebra, e: Any, x: Any, to: Any) -> bool:
    """Whether e is continuous in x at `to`, whatever the other symbols are: a pole or 0^0 need not be."""
    moving = [part for part in e.atoms(sympy.Pow, sympy.log) if part.has(x)]
    moving += [part for term in e.atoms(sympy.Mul) if term.has(x) for part in term.atoms(sympy.Pow, sympy.log)]
    for part in dict.fromkeys(moving):  # with what they are factors of: 0·inf is 0, too
        base, exponent = (part.args[0], sympy.S.NegativeOne) if isinstance(part, sympy.log) else part.as_base_exp()
        if not exponent.subs(x, to).is_positive and not _never_zero(a, base.subs(x, to)):
            return False
    return True


def _never_zero(a: Algebra, e: Any) -> bool:
    """Whether e is 0 for no values of its symbols, each probability being less than 1."""
    e = sympy.factor(e)
    return any(0.0 not in _lies(a, form) for form in (e, *(e.subs(1 - g[0], sympy.Add(*g[1:])) for g in a.groups)))


def _lies(a: Algebra, e: Any) -> Interval:
    primitives = declared_primitives()
    if e.is_Rational:
        return interval.point(Fraction(int(e.p), int(e.q)))
    if e.is_Symbol:
        if any(e in g for g in a.groups):
            return Interval(0.0, 1.0, e.is_positive is True, True)
        within = a.case.domain.get(e.name)
        known = interval.intersection(within, FINITE) if within is not None else FINITE
        return Interval(0.0, inf, True, True) if within is None and e.is_positive else known
    of = [_lies(a, part) for part in e.args]
    if e.is_Add or e.is_Mul:
        found = of[0]
        for part in of[1:]:
            found = interval.add(found, part) if e.is_Add else interval.mul(found, part)
        return found
    if isinstance(e, sympy.Pow):
        return interval.power(*of)
    name = {"exp": "exp", "log": "log", "Abs": "abs"}.get(type(e).__name__)
    return primitives[name].enclosure(*of) if name else REALS
