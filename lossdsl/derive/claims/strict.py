"""Scalars that are never 0: of one strict sign at every point of the domain, though their limits at its faces may be 0.

x/0 is an infinity of the sign of x in the language, and 0·inf is 0: what cancels, and on which side a quotient lies,
depends on whether a denominator can be 0 itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import isinf
from typing import TYPE_CHECKING, Any, Literal

from lossdsl.primitives.interval import Interval

if TYPE_CHECKING:
    from lossdsl.derive.claims.scalars import Scalars

Sign = Literal["+", "-", ""]
_DEPTH = 40
_FINITE = frozenset(
    {"add", "sub", "neg", "mul", "mulz", "exp", "expm1", "sqrt", "abs", "relu", "sigmoid", "softplus", "tanh", "atan"}
    | {"phi", "maximum", "minimum", "clip", "select", "lse", "logp", "xlogx", "sign"}
    | {"lt", "le", "gt", "ge", "eq", "ne"}
)
_FLIP: dict[Sign, Sign] = {"+": "-", "-": "+", "": ""}


def strict_sign(s: Scalars, n: int, depth: int = _DEPTH) -> Sign:
    """+ or - where the scalar is above or below 0 for all values of its variables; "" where that isn't known."""
    found: Sign = _once(s, "sign", n, depth, _strict_sign)
    return found


def _once(s: Scalars, what: str, n: int, depth: int, find: Callable[[Scalars, int, int], Any]) -> Any:
    """What is found of a scalar, remembered: an expression may use another many times."""
    if (what, n) not in s.found:
        s.found[what, n] = find(s, n, depth)
    return s.found[what, n]


def _strict_sign(s: Scalars, n: int, depth: int) -> Sign:
    op, args = s.nodes[n]
    if op == "const":
        return "" if isinstance(args[0], bool) or args[0] == 0 else "+" if args[0] > 0 else "-"
    known = _of(s.ranges[n]) if n in s.ranges else ""
    if known or op == "var" or depth == 0:
        return known
    signs = [strict_sign(s, a, depth - 1) for a in args]
    return _of_operation(s, op, args, signs, depth)


def below_one(s: Scalars, n: int, depth: int = _DEPTH) -> bool:
    """Whether it is always less than 1."""
    return bool(_once(s, "below", n, depth, _below_one))


def _below_one(s: Scalars, n: int, depth: int) -> bool:
    op, args = s.nodes[n]
    if n in s.ranges and (s.ranges[n].high < 1 or (s.ranges[n].high == 1 and s.ranges[n].high_open)):
        return True
    if op == "const":
        return not isinstance(args[0], bool) and bool(args[0] < 1)
    if depth == 0:
        return False
    if op == "sub" and s.value(args[0]) == 1:
        return strict_sign(s, args[1], depth - 1) == "+"
    positive = op in ("mul", "mulz") and all(strict_sign(s, a, depth - 1) == "+" for a in args)
    return positive and all(below_one(s, a, depth - 1) for a in args)


def finite(s: Scalars, n: int, depth: int = _DEPTH) -> bool:
    """Whether it is never infinite: no quotient by what may be 0, no logarithm of it."""
    return bool(_once(s, "finite", n, depth, _finite))


def _finite(s: Scalars, n: int, depth: int) -> bool:
    op, args = s.nodes[n]
    if op == "const":
        return not (isinstance(args[0], float) and isinf(args[0]))
    if op == "var":
        return True
    if depth == 0 or op not in _FINITE | {"div", "log", "log1p", "pow"}:
        return False
    if op == "div" and not strict_sign(s, args[1], depth - 1):
        return False
    if op in ("log", "xlogx") and strict_sign(s, args[0], depth - 1) != "+":
        return False
    if op == "log1p" and strict_sign(s, args[0], depth - 1) != "+":
        return False
    if op == "pow" and not _whole(s.value(args[1])) and strict_sign(s, args[0], depth - 1) != "+":
        return False
    return all(finite(s, a, depth - 1) for a in args)


def cancels(s: Scalars, n: int) -> bool:
    """Whether n/n is 1 and n·(1/n) is: it is neither 0 nor infinite anywhere."""
    return bool(strict_sign(s, n)) and finite(s, n)


def has_pole(s: Scalars, n: int) -> bool:
    """Whether a quotient, a power or an exponential in it may be infinite: 0 times that is 0, whatever it tends to."""
    seen, stack = {n}, [n]
    while stack:
        op, args = s.nodes[stack.pop()]
        if op in ("const", "var"):
            continue
        if op == "div" and not strict_sign(s, args[1]):
            return True
        if op == "pow" and not _whole(s.value(args[1])) and not strict_sign(s, args[0]):
            return True
        if op == "exp" and not finite(s, args[0]):
            return True
        stack += [a for a in args if a not in seen]
        seen |= set(args)
    return False


def _whole(exponent: object) -> bool:
    return isinstance(exponent, Fraction) and exponent >= 0 and exponent.denominator == 1


def _of(within: Interval) -> Sign:
    if within.low > 0 or (within.low == 0 and within.low_open):
        return "+"
    return "-" if within.high < 0 or (within.high == 0 and within.high_open) else ""


def _of_operation(s: Scalars, op: str, args: Sequence[int], signs: Sequence[Sign], depth: int) -> Sign:
    x = signs[0] if signs else ""
    match op:
        case "neg":
            return _FLIP[x]
        case "add":
            return x if x == signs[1] else ""
        case "sub":
            if s.value(args[0]) == 1 and below_one(s, args[1], depth - 1):
                return "+"
            return x if x and signs[1] == _FLIP[x] else ""
        case "mul" | "mulz" | "div":
            return "" if "" in signs else "+" if x == signs[1] else "-"
        case "exp" | "sigmoid" | "softplus" | "phi":  # at -inf they are 0
            return "+" if finite(s, args[0], depth - 1) else ""
        case "pow" | "sqrt":
            return "+" if x == "+" else ""
        case "abs":
            return "+" if x else ""
        case "expm1" | "log1p" | "tanh" | "atan" | "relu":
            return x if op != "relu" or x == "+" else ""
        case "log":  # of 0 it is -inf
            return "-" if below_one(s, args[0], depth - 1) else ""
        case "xlogx":
            return "-" if x == "+" and below_one(s, args[0], depth - 1) else ""
        case "clip":
            low, high = x == "-" and signs[1] == "-", x == "+" and signs[2] == "+"
            return "-" if low else "+" if high else ""
        case "logp":
            return "-" if len(args) > 1 else ""
        case "maximum":
            return "+" if "+" in signs else "-" if set(signs) == {"-"} else ""
        case "minimum":
            return "-" if "-" in signs else "+" if set(signs) == {"+"} else ""
        case "select":
            return signs[1] if signs[1] == signs[2] else ""
    return ""
