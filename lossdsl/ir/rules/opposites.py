"""Terms that meet their opposites: x + c - c = x, and g·(a - b) - g·a = -g·b, also where other terms stand between.

What cancels exactly must not be formed: the gradient of a Dirichlet's divergence adds its digammas up to nothing, and
what is left may be a millionth of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossdsl.ir.graph import Attr
from lossdsl.ir.rewrite import Rule

if TYPE_CHECKING:
    from lossdsl.ir.builder import Builder

_TERMS = 8  # of a sum that is searched
_GAMMAS = frozenset({"lgamma", "digamma", "trigamma", "tetragamma"})
Product = tuple[int, ...]  # its factors, sorted


def _terms(b: Builder, n: int, sign: int) -> list[tuple[int, int]]:
    """The summands with their signs; of a long sum the first are told apart."""
    found, i = [(n, sign)], 0
    while i < len(found):
        n, sign = found[i]
        node = b[n]
        if node.op in ("add", "sub", "neg") and len(found) < _TERMS:
            last = -sign if node.op in ("sub", "neg") else sign
            found[i : i + 1] = [*((a, sign) for a in node.args[:-1]), (node.args[-1], last)]
        else:
            i += 1
    return found


def _products(b: Builder, n: int, sign: int) -> list[tuple[Product, int]]:
    """A summand multiplied out, if that gives two terms; else as one."""
    node = b[n]
    if node.op == "mul":
        for x, y in (node.args, node.args[::-1]):
            if b[y].op in ("add", "sub"):
                return [(tuple(sorted((x, t))), s) for t, s in _terms(b, y, sign)[:3]]
        return [(tuple(sorted(node.args)), sign)]
    return [((n,), sign)]


def _finite(b: Builder, n: int) -> bool:
    """Whether it is finite wherever what it is made of is."""
    node = b[n]
    return node.type.interval.finite or (node.op in _GAMMAS and b.type(node.args[0]).interval.low > 0)


def _without(b: Builder, summands: list[tuple[int, int]]) -> int | None:
    """Their sum without the first two terms that cancel; None if none do."""
    parts = [_products(b, n, s) for n, s in summands]
    for i, mine in enumerate(parts):
        for k, others in enumerate(parts[:i]):
            for product, sign in mine:
                if (product, -sign) in others and len(mine) <= 2 >= len(others) and any(_finite(b, f) for f in product):
                    others.remove((product, -sign))
                    mine.remove((product, sign))
                    rest = [term for j, term in enumerate(summands) if j not in (i, k)]
                    return _added(b, [*rest, *((_multiplied(b, t), s) for t, s in (*others, *mine))])
    return None


def _multiplied(b: Builder, factors: Product) -> int:
    return factors[0] if len(factors) == 1 else b.node("mul", factors)


def _added(b: Builder, terms: list[tuple[int, int]]) -> int:
    terms = sorted(terms, key=lambda t: -t[1])  # those that are added lead
    if not terms:
        return b.const(0)
    total = terms[0][0] if terms[0][1] > 0 else b.node("neg", [terms[0][0]])
    for n, sign in terms[1:]:
        total = b.node("add" if sign > 0 else "sub", [total, n])
    return total


def _rule(op: str) -> Rule:
    def apply(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
        summands = [*_terms(b, args[0], 1), *_terms(b, args[1], 1 if op == "add" else -1)]
        many = len(summands) > 2 or any(b[n].op == "mul" for n, _ in summands)
        return _without(b, summands) if many else None

    reason = "x + c - c = x, g·(a - b) - g·a = -g·b: what cancels exactly costs no digits if it is not formed"
    return Rule(f"opposites ({op})", (op,), reason, apply)


RULES = (_rule("add"), _rule("sub"))
