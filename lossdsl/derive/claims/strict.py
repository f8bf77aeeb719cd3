"""Scalars that are never 0: of one strict sign at every point of the domain, though their limits at its faces may be 0.

x/0 is an infinity of the sign of x in the language, and 0·inf is 0: what cancels, and on which side a quotient lies,
depends on whether a denominator can be 0 itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from lossdsl.primitives.interval import Interval

if TYPE_CHECKING:
    from lossdsl.derive.claims.scalars import Scalars

Sign = Literal["+", "-", ""]
_DEPTH = 40
_FLIP: dict[Sign, Sign] = {"+": "-", "-": "+", "": ""}


def strict_sign(s: Scalars, n: int, depth: int = _DEPTH) -> Sign:
    """+ or - where the scalar is above or below 0 for all values of its variables; "" where that isn't known."""
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
        case "exp" | "sigmoid" | "softplus" | "phi":
            return "+"
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
