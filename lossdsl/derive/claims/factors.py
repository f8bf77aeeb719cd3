"""Products, quotients and sums of scalars by their factors: what cancels, and what all terms share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lossdsl.derive.claims.known import cancels

if TYPE_CHECKING:
    from lossdsl.derive.claims.scalars import Scalars


def factors_of(s: Scalars, n: int) -> list[tuple[str, int]]:
    """The factors of a product, each with the operation that brings it in; a sign is the factor -1."""
    op, args = s.nodes[n]
    match op:
        case "neg":
            return [("mul", s.const(-1)), *factors_of(s, args[0])]
        case "mul":
            return [f for a in args for f in _apart(s, a)]
        case "div":
            return [*factors_of(s, args[0]), ("div", args[1])]
    return [("mul", n)]


def _apart(s: Scalars, n: int) -> list[tuple[str, int]]:
    """The factors of a factor; it is one itself if its divisor may be 0: x·(a/x) is 0 there, and x·a/x is nothing."""
    found = factors_of(s, n)
    return [("mul", n)] if any(op == "div" and not cancels(s, f) for op, f in found) else found


def terms_of(s: Scalars, n: int) -> list[int]:
    op, args = s.nodes[n]
    return [*terms_of(s, args[0]), *terms_of(s, args[1])] if op == "add" else [n]


def factored(s: Scalars, op: str, args: tuple[int, ...]) -> int | None:
    """x·a ± x·b as x·(a ± b), which is what an enclosure of it needs."""
    left, right = (factors_of(s, a) for a in args)
    common = []
    for f in list(left):
        if f in right and (f[0] == "div" or s.value(f[1]) is None):
            left.remove(f)
            right.remove(f)
            common.append(f)
    if not common:
        return None
    rest = s.node(op, [made_of(s, left), made_of(s, right)])
    return made_of(s, [("mul", rest), *common])


def made_of(s: Scalars, factors: Sequence[tuple[str, int]]) -> int:
    result = s.const(1)
    for op, f in factors:
        result = s.node(op, [result, f])
    return result


def product(s: Scalars, args: tuple[int, ...], values: Sequence[Any]) -> int | None:
    for i in (0, 1):
        x, y = args[i], args[1 - i]
        op, inner = s.nodes[y]
        if values[i] == 0:
            return s.const(0)
        if values[i] == 1:
            return y
        if values[i] == -1:
            return s.node("neg", [y])
        if op == "neg":  # signs stand outside
            return s.node("neg", [s.node("mul", [x, inner[0]])])
        if op == "log" and inner[0] == x:
            return s.node("xlogx", [x])
        if op == "div" and inner[1] == x and cancels(s, x):
            return int(inner[0])
    left, right = factors_of(s, args[0]), factors_of(s, args[1])
    for f, g in ((f, g) for f in left for g in right):
        if f[1] == g[1] and f[0] != g[0] and cancels(s, f[1]):  # x·a · b/x, which is 0 at x = 0
            left.remove(f)
            right.remove(g)
            return made_of(s, [*left, *right])
    every = [*left, *right]
    for f in every:
        op, inner = s.nodes[f[1]]
        if op == "log" and f[0] == "mul" and ("mul", inner[0]) in every:  # x·a · log x
            every.remove(f)
            every.remove(("mul", inner[0]))
            return made_of(s, [*every, ("mul", s.node("xlogx", inner))])
    return None if args[0] <= args[1] else s.node("mul", args[::-1])


def quotient(s: Scalars, args: tuple[int, ...], values: Sequence[Any]) -> int | None:
    x, y = args
    if values[1] == 1:
        return x
    if values[0] == 0:
        return s.const(0)
    if x == y:
        return s.const(1)
    op, inner = s.nodes[x]
    if op == "neg":
        return s.node("neg", [s.node("div", [inner[0], y])])
    factors = factors_of(s, x)
    if len(factors) > 1 and ("mul", y) in factors:
        factors.remove(("mul", y))
        return made_of(s, factors)
    if op == "expm1":  # (e^(q·L) - 1)/q is L·phi(q·L), also at q = 0
        exponent, factors = s.nodes[inner[0]]
        if inner[0] == y:
            return s.node("phi", [y])
        if exponent == "mul" and y in factors:
            rest = factors[0] if factors[1] == y else factors[1]
            return s.node("mul", [rest, s.node("phi", [inner[0]])])
        turned = s.node("neg", [y])  # 1 - q below q - 1
        if exponent == "mul" and turned in factors:
            rest = factors[0] if factors[1] == turned else factors[1]
            return s.node("neg", [s.node("mul", [rest, s.node("phi", [inner[0]])])])
    return None
