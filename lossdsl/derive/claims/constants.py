"""Operations on numbers that are known, in rational arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import inf
from typing import Any

from lossdsl.ir.rules.algebra import small
from lossdsl.ir.typing import PI


def number(op: str, v: Sequence[Any]) -> Any:
    """The exact value of an operation on numbers; None where it has none, or one of too many digits."""
    if PI in v and op not in ("neg", "select"):  # a double stands for it, which is no exact number
        return None
    found = _number(op, v)
    return None if isinstance(found, Fraction) and not small(found) else found


def _number(op: str, v: Sequence[Any]) -> Any:
    if any(isinstance(x, float) for x in v) and op not in (
        "lt",
        "le",
        "gt",
        "ge",
        "eq",
        "ne",
        "maximum",
        "minimum",
        "exp",
        "neg",
        "select",
    ):
        return None
    match op:
        case "add":
            return v[0] + v[1]
        case "sub":
            return v[0] - v[1]
        case "mul" | "mulz":
            return v[0] * v[1]
        case "div":
            return Fraction(v[0]) / v[1] if v[1] else None
        case "neg":
            return -v[0]
        case "pow":
            whole = Fraction(v[1]).denominator == 1 and abs(v[1]) <= 64 and (v[0] or v[1] >= 0)
            return Fraction(v[0]) ** int(v[1]) if whole else None
        case "exp":
            return 1 if v[0] == 0 else 0 if v[0] == -inf else inf if v[0] == inf else None
        case "log":
            return 0 if v[0] == 1 else -inf if v[0] == 0 else None
        case "expm1" | "log1p":
            return 0 if v[0] == 0 else None
        case "sqrt" | "xlogx":
            return v[0] if v[0] == 0 or (op == "sqrt" and v[0] == 1) else 0 if v[0] == 1 else None
        case "abs":
            return abs(v[0])
        case "sign":
            return (v[0] > 0) - (v[0] < 0)
        case "relu":
            return max(v[0], 0)
        case "floor":
            return v[0].__floor__()
        case "mod":
            return v[0] % v[1] if v[1] else None
        case "maximum":
            return max(v)
        case "minimum":
            return min(v)
        case "select":
            return v[1] if v[0] else v[2]
        case "and" | "or":
            return bool(v[0] and v[1]) if op == "and" else bool(v[0] or v[1])
        case "not":
            return not v[0]
    compare: Mapping[str, Callable[[Any, Any], bool]] = {
        "lt": lambda x, y: x < y, "le": lambda x, y: x <= y, "gt": lambda x, y: x > y,
        "ge": lambda x, y: x >= y, "eq": lambda x, y: x == y, "ne": lambda x, y: x != y,
    }  # fmt: skip
    return bool(compare[op](*v)) if op in compare else None
