"""Proofs for all inputs: by rewriting, by intervals, by the curvature of what a loss is composed of.

The rewrite rules are equalities of real mathematics, each tested at 50 digits: expressions that become one node are
equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from lossdsl.ir.builder import Builder

Curvature = Literal["constant", "affine", "convex", "concave", ""]
_DEPTH = 12


def equal(b: Builder, x: int, y: int) -> bool:
    x, y = _settled(b, x), _settled(b, y)
    return x == y or b.value(b.node("sub", [x, y])) == 0


def _settled(b: Builder, n: int) -> int:
    """Where a choice is made by A == y, the branch taken there is the one at y."""
    node = b[n]
    if node.op == "neg":
        return b.node("neg", [_settled(b, node.args[0])])
    if node.op != "select" or b[node.args[0]].op != "eq":
        return n
    condition, yes, no = node.args
    index, y = b[condition].args
    if b[index].op != "index":
        return n
    return b.node("select", [condition, b.pick(yes, {str(b[index].attrs[0]): y}), no])


def cancels(b: Builder, n: int) -> bool:
    """x/x, wherever that is defined."""
    node = b[n]
    return node.op == "div" and node.args[0] == node.args[1]


def settles(b: Builder, n: int, axis: str, leaves: Sequence[int]) -> bool:
    """Whether the sum of n over the axis reads none of the leaves: as a whole, or each of its terms."""
    total = b.reduce("sum", (axis,), n)
    if not depends(b, total, leaves) or cancels(b, total):
        return True
    node = b[n]

    def free(m: int) -> bool:
        return axis not in b.type(m).axes and not depends(b, m, leaves)

    match node.op:
        case "add" | "sub" | "neg":
            return all(settles(b, a, axis, leaves) for a in node.args)
        case "mul":
            return any(free(x) and settles(b, y, axis, leaves) for x, y in (node.args, node.args[::-1]))
        case "div":
            x, y = node.args
            if free(y):
                return settles(b, x, axis, leaves)
            while b[x].op == "mul" and any(map(free, b[x].args)):  # c·x/(the sum of x) is c
                x = next(a for a in b[x].args if not free(a)) if not all(map(free, b[x].args)) else b[x].args[0]
            return b.reduce("sum", (axis,), x) == y
    return False


Facts = tuple[tuple[int, int], ...]  # pairs of which the first is never the smaller


def nonnegative(b: Builder, n: int, depth: int = _DEPTH, facts: Facts = ()) -> bool:
    """Whether n >= 0 for all inputs where the facts hold: by its interval, by its parts, by common denominators."""
    if b.type(n).interval.low >= 0:
        return True
    if depth == 0:
        return False
    node = b[n]
    match node.op:
        case "add":
            return all(nonnegative(b, a, depth - 1, facts) for a in node.args) or _over_one(b, n, depth)
        case "sub":
            x, y = node.args
            if (b[y].op == "minimum" and x in b[y].args) or (b[x].op == "maximum" and y in b[x].args):
                return True  # x - min(…, x)
            if b[y].op == "div" and b[y].args[0] == x and b.type(b[y].args[1]).interval.low >= 1:
                return nonnegative(b, x, depth - 1)  # x - x/2
            for large, small in facts:  # x - y >= small - y where x >= small
                if x == large and (y == small or nonnegative(b, b.node("sub", [small, y]), depth - 1)):
                    return True
            return _over_one(b, n, depth)
        case "neg":
            return nonpositive(b, node.args[0], depth - 1, facts)
        case "div" if b.type(node.args[1]).interval.high <= 0 and 0.0 in b.type(node.args[1]).interval:
            return False  # x/0 has the sign of x, whatever side 0 is on
        case "mul" | "div":
            x, y = node.args
            same = nonnegative(b, x, depth - 1, facts) and nonnegative(b, y, depth - 1, facts)
            if node.op == "div" and 0.0 in b.type(y).interval:
                return same
            return same or (nonpositive(b, x, depth - 1, facts) and nonpositive(b, y, depth - 1, facts))
        case "select":
            condition, yes, no = node.args
            sides = (yes, _told(b, condition, True)), (no, _told(b, condition, False))
            return all(nonnegative(b, a, depth - 1, facts + more) for a, more in sides)
        case "reduce" if node.attrs[0] in ("sum", "max", "min", "prod"):
            return node.attrs[0] != "max" and nonnegative(b, node.args[0], depth - 1)
        case "pick" | "detach":
            return nonnegative(b, node.args[0], depth - 1)
    return False


def _told(b: Builder, condition: int, holds: bool) -> Facts:
    """What a comparison says where it holds, or doesn't (that it doesn't of numbers alone)."""
    node = b[condition]
    if node.op == "not":
        return _told(b, node.args[0], not holds)
    if node.op not in ("lt", "le", "gt", "ge"):
        return ()
    x, y = node.args
    if not holds and (b.type(x).interval.nan or b.type(y).interval.nan):
        return ()
    return ((x, y),) if (node.op in ("gt", "ge")) == holds else ((y, x),)


def nonpositive(b: Builder, n: int, depth: int = _DEPTH, facts: Facts = ()) -> bool:
    return b.type(n).interval.high <= 0 or (depth > 0 and nonnegative(b, b.node("neg", [n]), depth - 1, facts))


def _over_one(b: Builder, n: int, depth: int) -> bool:
    """a/q ± c/q >= 0 where (a ± c)/q is."""
    node = b[n]
    x, y = (b[a] for a in node.args)
    sign = node.op
    if y.op == "neg":
        y, sign = b[y.args[0]], "sub" if node.op == "add" else "add"
    if x.op == y.op == "div" and x.args[1] == y.args[1]:
        together = b.node("div", [b.node(sign, [x.args[0], y.args[0]]), x.args[1]])
        return nonnegative(b, together, depth - 1)
    return False


def depends(b: Builder, n: int, leaves: Sequence[int]) -> bool:
    stack, seen = [n], set()
    while stack:
        m = stack.pop()
        if m in leaves:
            return True
        if m not in seen:
            seen.add(m)
            stack.extend(b[m].args)
    return False


def curvature(b: Builder, n: int, x: int) -> Curvature:
    """How n curves in the leaf x, by the rules of disciplined convex programming (Grant, Boyd, Ye, 2006)."""
    if not depends(b, n, [x]):
        return "constant"
    if n == x:
        return "affine"
    node = b[n]
    of = [curvature(b, a, x) for a in node.args]
    match node.op:
        case "add":
            return _sum(of)
        case "sub":
            return _sum([of[0], _flip(of[1])])
        case "neg":
            return _flip(of[0])
        case "mul":
            for i in (0, 1):
                if of[i] == "constant":
                    return _scaled(b, node.args[i], of[1 - i])
        case "div":
            if of[1] == "constant":
                return _scaled(b, node.args[1], of[0])
        case "pick" | "reduce" if node.op == "pick" or node.attrs[0] == "sum":
            return of[0] if all(c == "constant" for c in of[1:]) else ""
        case "reduce" if node.attrs[0] in ("max", "logsumexp") and of[1:] in ([], ["constant"]):
            return "convex" if of[0] in ("affine", "convex") else ""
        case "reduce" if node.attrs[0] == "min" and of[1:] in ([], ["constant"]):
            return "concave" if of[0] in ("affine", "concave") else ""
        case "logp":  # z - lse(z)
            return "concave" if of[0] == "affine" and of[1:] in ([], ["constant"]) else ""
        case "select":
            if of[0] == "constant":
                return _either(of[1], of[2])
        case "exp" | "softplus" | "relu":
            return "convex" if of[0] in ("affine", "convex") else ""
        case "maximum" | "logaddexp":
            return "convex" if all(c in ("constant", "affine", "convex") for c in of) else ""
        case "minimum":
            return "concave" if all(c in ("constant", "affine", "concave") for c in of) else ""
        case "abs":
            return "convex" if of[0] == "affine" else ""
        case "log" | "sqrt":
            return "concave" if of[0] in ("affine", "concave") else ""
        case "pow":
            return _power(b, node.args, of)
    return ""


def _power(b: Builder, args: Sequence[int], of: Sequence[Curvature]) -> Curvature:
    exponent = b.type(args[1]).interval
    if of[1] != "constant":
        return ""
    even = b.value(args[1]) in (2, 4, 6)
    if even and (of[0] == "affine" or (of[0] == "convex" and nonnegative(b, args[0]))):
        return "convex"
    grows = exponent.low >= 1 and nonnegative(b, args[0])
    return "convex" if grows and of[0] in ("affine", "convex") else ""


def _flip(c: Curvature) -> Curvature:
    return {"convex": "concave", "concave": "convex"}.get(c, c)  # type: ignore[return-value]


def _sum(parts: Sequence[Curvature]) -> Curvature:
    found: Curvature = "constant"
    for c in parts:
        found = _either(found, c)
    return found


def _either(a: Curvature, c: Curvature) -> Curvature:
    order: list[Curvature] = ["constant", "affine"]
    if a == c or (a in order and (c not in order or order.index(c) >= order.index(a))):
        return c
    return a if c in order else ""


def _scaled(b: Builder, by: int, c: Curvature) -> Curvature:
    if c == "affine":
        return c
    if nonnegative(b, by):
        return c
    return _flip(c) if nonpositive(b, by) else ""
