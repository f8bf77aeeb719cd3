"""What a scalar operation is known to be of its arguments, where that is exact: a number, an argument or simpler."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import inf
from typing import TYPE_CHECKING, Any

from lossdsl.derive.claims.constants import number
from lossdsl.derive.claims.factors import factored, product, quotient, terms_of

if TYPE_CHECKING:
    from lossdsl.derive.claims.scalars import Scalars


COMPARES = ("lt", "le", "gt", "ge")


def fold(s: Scalars, op: str, args: tuple[int, ...]) -> int | None:
    """The scalar that op(args) is known to be, or None."""
    values = [s.value(a) for a in args]
    if all(v is not None for v in values):
        known = number(op, values)
        if known is not None:
            return s.const(known)
    if op in COMPARES:
        decided = _between_numbers(s, op, args)
        if decided is not None:
            return s.const(decided)
    ops = [s.nodes[a][0] for a in args]
    chosen = _by_choice(s, op, args, ops, values)
    if chosen is not None:
        return chosen
    match op:
        case "add":
            if 0 in values and not all(isinstance(v, bool) for v in values if v == 0):
                return args[1 - values.index(0)]
            if ops[1] == "neg":
                return s.node("sub", [args[0], s.nodes[args[1]][1][0]])
            if ops[0] == "neg":
                return s.node("sub", [args[1], s.nodes[args[0]][1][0]])
            return factored(s, "add", args)
        case "sub":
            if values[1] == 0:
                return args[0]
            if args[0] == args[1]:
                return s.const(0)
            if values[0] == 0:
                return s.node("neg", [args[1]])
            if ops[1] == "neg":
                return s.node("add", [args[0], s.nodes[args[1]][1][0]])
            if ops[1] == "lse" and args[0] in s.nodes[args[1]][1]:
                return _share(s, args[0], s.nodes[args[1]][1])
            if ops[0] == "lse" and args[1] in s.nodes[args[0]][1]:
                return s.node("neg", [_share(s, args[1], s.nodes[args[0]][1])])
            if ops[1] == "sub" and s.nodes[args[1]][1][0] == args[0]:  # 1 - (1 - p)
                return int(s.nodes[args[1]][1][1])
            if values[0] == 1 and ops[1] == "div":  # 1 - x/(x + y) is y/(x + y)
                x, total = s.nodes[args[1]][1]
                terms = terms_of(s, total)
                if len(terms) > 1 and x in terms:
                    terms.remove(x)
                    return s.node("div", [s.total(terms), total])
            return factored(s, "sub", args)
        case "neg":
            if ops[0] == "neg":
                return int(s.nodes[args[0]][1][0])
            if ops[0] == "sub":
                x, y = s.nodes[args[0]][1]
                return s.node("sub", [y, x])
        case "mul" | "mulz":
            return product(s, args, values)
        case "div":
            return quotient(s, args, values)
        case "pow":
            if values[1] == 0:
                return s.const(1)
            if values[1] == 1:
                return args[0]
            inner = s.nodes[args[0]][1]
            whole = isinstance(values[1], int | Fraction) and values[1].denominator == 1
            if whole and values[1] >= 0 and ops[0] in ("mul", "div"):  # 1/(x·y) is not 1/x · 1/y at x = 0
                return s.node(ops[0], [s.node("pow", [a, args[1]]) for a in inner])
            if values[1] == 2 and ops[0] == "neg":
                return s.node("pow", [inner[0], args[1]])
            if values[1] == 2 and ops[0] == "sqrt" and (s.value(inner[0]) or 0) > 0:
                return int(inner[0])
        case "select":
            if values[0] is not None:
                return args[1] if values[0] else args[2]
            if args[1] == args[2]:
                return args[1]
        case "exp" | "expm1" | "log" | "lse":
            return _logarithm(s, op, args, values)
        case "clip":
            within = s.range(args[0])
            if None not in values[1:] and values[1] <= within.low and within.high <= values[2]:
                return args[0]
        case "maximum" | "minimum":
            if args[0] == args[1]:
                return args[0]
            worst = -inf if op == "maximum" else inf
            if worst in values:
                return args[1 - values.index(worst)]
        case "logaddexp":
            return s.lse(args)
        case "detach":
            return args[0]
        case "and" | "or":
            if op == "and" and False in values:
                return s.const(False)
            if op == "or" and True in values:
                return s.const(True)
            for i in (0, 1):
                if values[i] is not None:
                    return args[1 - i]
    return None


def _by_choice(s: Scalars, op: str, args: tuple[int, ...], ops: Sequence[str], values: Sequence[Any]) -> int | None:
    """Sums and products of choices by one test (and of numbers) as one choice: each side is taken with its own."""
    if op not in ("add", "sub", "mul", "mulz") or "select" not in ops:
        return None
    tests = {s.nodes[a][1][0] for a, o in zip(args, ops, strict=True) if o == "select"}
    number = any(v is not None and v != 0 for v in values)
    if len(tests) != 1 or not (number or ops[0] == ops[1]):
        return None
    sides = [[s.nodes[a][1][k] if o == "select" else a for a, o in zip(args, ops, strict=True)] for k in (1, 2)]
    return s.node("select", [tests.pop(), *(s.node(op, side) for side in sides)])


def _between_numbers(s: Scalars, op: str, args: tuple[int, ...]) -> bool | None:
    """A test between two numbers, such as sqrt(2) < 3/2, from what encloses them; None where that is too coarse."""
    from lossdsl.derive.claims.enclose import enclose, variables
    from lossdsl.derive.claims.scalars import NotWrittenError

    if any(variables(s, a) for a in args):
        return None
    try:
        x, y = (enclose(s, a, {}, slopes=False).value for a in args)
    except NotWrittenError:
        return None
    if op in ("gt", "ge"):
        x, y = y, x
    return True if x.high < y.low else False if y.high < x.low else None


def _share(s: Scalars, x: int, terms: Sequence[int]) -> int:
    """x - log Σ e^t, where x is one of the terms: the logarithm of its share."""
    others = list(terms)
    others.remove(x)
    return s.node("logp", [x, *others])


def _logarithm(s: Scalars, op: str, args: tuple[int, ...], values: Sequence[Any]) -> int | None:
    first, inner = s.nodes[args[0]]
    if op == "exp":
        return (
            int(inner[0])
            if first == "log"
            else s.total([s.node("exp", [a]) for a in inner])
            if first == "lse"
            else None
        )
    if op == "expm1":
        return s.node("sub", [inner[0], s.const(1)]) if first == "log" else None
    if op == "log":
        return int(inner[0]) if first == "exp" else None
    kept = [a for a, v in zip(args, values, strict=True) if v != -inf]
    if len(kept) < len(args):
        return s.lse(kept)
    if len(args) == 1:
        return args[0]
    if all(s.nodes[a][0] == "log" for a in args):  # of probabilities
        return s.node("log", [s.total([s.nodes[a][1][0] for a in args])])
    return None
