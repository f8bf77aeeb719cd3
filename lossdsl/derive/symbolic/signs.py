"""Expressions of probabilities that are never negative, and the proper scores that follow from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sympy

from lossdsl.derive.symbolic.algebra import Algebra, vanishes


def never_negative(a: Algebra, e: Any) -> bool:
    """A quotient of polynomials in positive numbers, all of whose coefficients have one sign."""
    groups = a.groups
    if len(groups) != 1 or e.has(sympy.Piecewise):
        return False
    (group,) = groups
    return _positive(e, group[:-1], {group[-1]: 1 - sympy.Add(*group[:-1])}) or vanishes(a, e)


def proper(a: Algebra, losses: Sequence[Any]) -> bool:
    """Whether Σ q_y·l_y(p) is least at p = q, for all q: l_y(p) is H(p) + H'(p)·(e_y - p) for a concave H.

    (Savage, Elicitation of Personal Probabilities, 1971.) H is Σ p_y·l_y(p); that Σ p_y·l_y'(p) is 0 along the simplex
    makes the losses its tangents. Concavity: the leading minors of -H'' are never negative, by intervals.
    """
    (group,) = a.groups
    free, rest = group[:-1], 1 - sympy.Add(*group[:-1])
    told = [sympy.sympify(e).subs(group[-1], rest) for e in losses]
    weights = [*free, rest]
    for x in free:
        if not vanishes(a, sympy.Add(*(w * sympy.diff(e, x) for w, e in zip(weights, told, strict=True)))):
            return False
    entropy = sympy.Add(*(w * e for w, e in zip(weights, told, strict=True)))
    second = -sympy.hessian(entropy, free)
    return all(_positive(second[:k, :k].det(), free) for k in range(1, len(free) + 1))


def _positive(e: Any, free: Sequence[Any], last: Mapping[Any, Any] | None = None) -> bool:
    """Whether e > 0 wherever the symbols, and what they leave of 1, are positive.

    They are x/(x + … + r) for positive numbers x, r, in which e has a sign that sympy sees, or none of whose terms is
    negative.
    """
    e = sympy.cancel(sympy.together(sympy.powsimp(e.subs(last or {}))))
    numbers = {x: sympy.Dummy(f"{x.name}+", positive=True) for x in free}
    r = sympy.Dummy("r", positive=True)
    total = sympy.Add(*numbers.values(), r)
    scaled = e.subs({x: y / total for x, y in numbers.items()}, simultaneous=True)
    scaled = sympy.factor(sympy.cancel(sympy.together(scaled)))
    top, bottom = sympy.fraction(scaled)
    return bool(scaled.is_positive or (sympy.expand(top).is_positive and sympy.expand(bottom).is_positive))
