"""Whether two expressions are one rational function of what they are made of: exact, by multiplying out."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from lossdsl.ir.builder import Builder

Polynomial = Mapping[tuple[tuple[int, int], ...], Fraction]  # (node, power), … in order: coefficient
Quotient = tuple[Polynomial, Polynomial]
MOST = 200  # terms
ONE: Polynomial = {(): Fraction(1)}


class _TooLongError(Exception):
    pass


def same(b: Builder, x: int, y: int) -> bool:
    """Whether x = y, as polynomials' quotients in nodes that are no arithmetic: finite, and no denominator is 0."""
    try:
        (p, q), (r, s) = _quotient(b, x, {}), _quotient(b, y, {})
        if not all(_denominators(b, n) for n in (x, y)):
            return False
        return not _sum(_product(p, s), _product(r, q), -1)
    except _TooLongError:
        return False


def _denominators(b: Builder, n: int) -> bool:
    """Whether no denominator of n may be 0: x·(1/x) is 0 there."""
    node = b[n]
    if node.op == "div" and 0.0 in b.type(node.args[1]).interval:
        return False
    return node.op not in ("add", "sub", "neg", "mul", "div", "pow") or all(_denominators(b, a) for a in node.args)


def _quotient(b: Builder, n: int, memo: dict[int, Quotient]) -> Quotient:
    if n not in memo:
        memo[n] = _made(b, n, memo)
    return memo[n]


def _made(b: Builder, n: int, memo: dict[int, Quotient]) -> Quotient:
    node, value = b[n], b.value(n)
    if isinstance(value, Fraction):
        return ({(): value} if value else {}), ONE
    if node.op in ("add", "sub"):
        (p, q), (r, s) = (_quotient(b, a, memo) for a in node.args)
        return _sum(_product(p, s), _product(r, q), 1 if node.op == "add" else -1), _product(q, s)
    if node.op == "neg":
        p, q = _quotient(b, node.args[0], memo)
        return _sum({}, p, -1), q
    if node.op in ("mul", "div"):
        (p, q), (r, s) = (_quotient(b, a, memo) for a in node.args)
        return (_product(p, r), _product(q, s)) if node.op == "mul" else (_product(p, s), _product(q, r))
    exponent = b.value(node.args[1]) if node.op == "pow" else None
    if isinstance(exponent, Fraction) and exponent in (2, 3, 4):
        result = base = _quotient(b, node.args[0], memo)
        for _ in range(int(exponent) - 1):
            result = _product(result[0], base[0]), _product(result[1], base[1])
        return result
    return {((n, 1),): Fraction(1)}, ONE


def _sum(p: Polynomial, q: Polynomial, sign: int) -> Polynomial:
    found = dict(p)
    for term, c in q.items():
        found[term] = found.get(term, Fraction(0)) + sign * c
    return {term: c for term, c in found.items() if c}


def _product(p: Polynomial, q: Polynomial) -> Polynomial:
    if len(p) * len(q) > MOST:
        raise _TooLongError
    found: dict[tuple[tuple[int, int], ...], Fraction] = {}
    for x, c in p.items():
        for y, d in q.items():
            powers = dict(x)
            for n, k in y:
                powers[n] = powers.get(n, 0) + k
            term = tuple(sorted(powers.items()))
            found[term] = found.get(term, Fraction(0)) + c * d
    return {term: c for term, c in found.items() if c}
