"""Where a scalar lies for all values of its variables, with ends that are reached and ends that are only approached.

x/0 is an infinity of the sign of x in the language, and 0·inf is 0: what cancels, and on which side a quotient lies,
depends on whether a denominator can be 0 itself, not on what it tends to at the faces of the domain.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import inf, nextafter, pi
from typing import TYPE_CHECKING

from lossdsl.primitives import interval
from lossdsl.primitives.interval import FINITE, REALS, Interval, intersection
from lossdsl.primitives.scan import declared_primitives

if TYPE_CHECKING:
    from lossdsl.derive.claims.scalars import Scalars

_LEAST = Interval(-0.3678794411714424)  # x·log x is at least -1/e
_PI = Interval(pi, nextafter(pi, inf))


def known(s: Scalars, n: int) -> Interval:
    """The interval of a scalar, by those of its arguments and what was noted of it; variables are finite."""
    pending, stack = set[int](), [n]
    while stack:
        m = stack.pop()
        if m not in s.known and m not in pending:
            pending.add(m)
            op, args = s.nodes[m]
            stack += args if op not in ("const", "var") else ()
    for m in sorted(pending):
        op, args = s.nodes[m]
        if op == "const":
            found = _PI if args[0] == Fraction(pi) else interval.point(args[0])
        else:
            found = FINITE if op == "var" else _made(op, [s.known[a] for a in args])
        s.known[m] = intersection(found, s.ranges[m]) if m in s.ranges else found
    return s.known[n]


def _made(op: str, of: Sequence[Interval]) -> Interval:
    primitives = declared_primitives()
    match op:
        case "pow" if of[0].low >= 0 and 0.0 not in of[0]:
            exponent = interval.mul(of[1], primitives["log"].enclosure(of[0]))
            return intersection(primitives["exp"].enclosure(exponent), primitives["pow"].enclosure(*of))
        case "xlogx":
            return intersection(interval.mul(of[0], primitives["log"].enclosure(of[0])), _LEAST)
        case "phi":
            return primitives["exp"].enclosure(of[0]).hull(interval.ONE)
        case "lse":
            return FINITE if all(x.finite for x in of) else REALS
        case "logp":  # the first less the sum of all
            finite = all(x.finite for x in of)
            return Interval(-inf, 0.0, finite, finite and len(of) > 1)
    return primitives[op].enclosure(*of) if op in primitives else REALS


def cancels(s: Scalars, n: int) -> bool:
    """Whether n/n is 1 and n·(1/n) is: it is neither 0 nor infinite anywhere."""
    within = known(s, n)
    return within.finite and 0.0 not in within


def has_pole(s: Scalars, n: int) -> bool:
    """Whether a quotient, a power or an exponential in it may be infinite: 0 times that is 0, whatever it tends to."""
    seen, stack = {n}, [n]
    while stack:
        op, args = s.nodes[stack.pop()]
        if op in ("const", "var"):
            continue
        if op == "div" and 0.0 in known(s, args[1]):
            return True
        if op == "pow" and not _whole(s.value(args[1])) and 0.0 in known(s, args[0]):
            return True
        if op == "exp" and not known(s, args[0]).finite:
            return True
        stack += [a for a in args if a not in seen]
        seen |= set(args)
    return False


def _whole(exponent: object) -> bool:
    return isinstance(exponent, Fraction) and exponent >= 0 and exponent.denominator == 1
