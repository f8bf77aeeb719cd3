"""Differences of exponentials, and of softplus and its argument, in the forms that keep their digits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossdsl.ir.graph import Attr
from lossdsl.ir.rewrite import Rule
from lossdsl.ir.rules.complements import corrected, less_at_one_place, less_choice, one_less, shared_one_less
from lossdsl.ir.rules.match import factors, inside, is_const, with_rest

if TYPE_CHECKING:
    from lossdsl.ir.builder import Builder


def _minus(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    x, y = args
    if is_const(b, x, 1):
        return one_less(b, y, negative=True)
    if is_const(b, y, 1):
        return one_less(b, x, negative=False)
    if inside(b, x, "softplus") == y:
        return b.node("softplus", [b.node("neg", [y])])
    for found in (_softplus_of_choice(b, x, y), _minus_choice(b, x, y)):
        if found is not None:
            return found
    for rule in (_difference_of_exp, _crossed, shared_one_less, less_choice):
        result = rule(b, x, y)
        if result is not None:
            return result
    return corrected(b, y, x)


def _minus_choice(b: Builder, x: int, y: int) -> int | None:
    """x - (v or k + x) as (x - v or -k)."""
    if b[y].op != "select":
        return None
    condition, *branches = b[y].args
    if not any(b[n].op == "add" and x in b[n].args for n in branches):
        return None
    return b.node("select", [condition, *(_less(b, x, n) for n in branches)])


def _less(b: Builder, x: int, y: int) -> int:
    """x - y; of k + x it is -k, where x is finite, and the rest was NaN."""
    if b[y].op == "add" and x in b[y].args:
        k, z = b[y].args if b[y].args[1] == x else b[y].args[::-1]
        return b.node("neg", [k]) if z == x else b.node("sub", [x, y])
    return b.node("sub", [x, y])


def _softplus_of_choice(b: Builder, x: int, y: int) -> int | None:
    """softplus(u) - (u or 0) as softplus(±u): the loss of a bit, and in its gradient σ(u) - 1 as -σ(-u)."""
    u, choice = inside(b, x, "softplus"), b[y]
    if u is None or choice.op != "select":
        return None
    condition, yes, no = choice.args
    turned = b.node("softplus", [b.node("neg", [u])])
    if yes == u and is_const(b, no, 0):
        return b.node("select", [condition, turned, x])
    if no == u and is_const(b, yes, 0):
        return b.node("select", [condition, x, turned])
    return None


def _difference_of_exp(b: Builder, x: int, y: int) -> int | None:
    """c·e^p - c·e^q as c·expsub(p, q), which is exact where p is near q: the gradient of a divergence near its zero."""
    over, under = factors(b, x), factors(b, y)
    p, q = (next((f for f in found if b[f].op == "exp"), None) for found in (over, under))
    if p is None or q is None:
        return None
    return with_rest(b, b.node("expsub", [b[p].args[0], b[q].args[0]]), (over, [p]), (under, [q]))


def _crossed(b: Builder, x: int, y: int) -> int | None:
    """c·e^q·(e^p - 1) - c·e^p·(e^q - 1) as c·(e^p - e^q): of a softmax's adjoint where the cotangent is a softmax too.

    c·(e^p - 1) - c·e^p is -c; where e^q - 1 is so only under a condition (something is there), the two choices.
    """
    over, under = factors(b, x), factors(b, y)
    p = next((f for f in over if b[f].op == "expm1"), None)
    q = next((f for f in under if b[f].op == "expm1"), None)
    if p is None or p == q:
        return None
    u = b[p].args[0]
    if q is not None:
        v = b[q].args[0]
        powers = b.node("exp", [v]), b.node("exp", [u])
        return with_rest(b, b.node("expsub", [u, v]), (over, [p, powers[0]]), (under, [q, powers[1]]))
    whole = with_rest(b, b.const(-1), (over, [p]), (under, [b.node("exp", [u])]))
    if whole is not None:
        return whole
    choice = next((f for f in under if b[f].op == "select" and b[b[f].args[1]].op == "expm1"), None)
    if choice is None:
        return None
    condition, yes, no = b[choice].args
    under.remove(choice)
    met = _crossed(b, x, multiplied(b, [yes, *under]))
    if met is None:
        return None
    return b.node("select", [condition, met, b.node("sub", [x, multiplied(b, [no, *under])])])


def multiplied(b: Builder, found: list[int]) -> int:
    result = found[0]
    for factor in found[1:]:
        result = b.node("mul", [factor, result])
    return result


def _plus(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    for x, y in (args, args[::-1]):
        u = inside(b, y, "expm1")
        if is_const(b, x, 1) and u is not None:
            return b.node("exp", [u])
        found = less_at_one_place(b, x, y)
        if found is not None:
            return found
    return None


def _balance(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    """t·(m - p) + (1 - t)·(m - q) is 0 for the mixture m = t·p + (1 - t)·q: what a mixture's own cotangent comes to."""
    products = [factors(b, a) for a in args]
    parts = [next((f for f in found if b[f].op == "expsub"), None) for found in products]
    p, q = parts
    if p is None or q is None or p == q or b[p].args[0] != b[q].args[0]:
        return None
    mixture = b[b[p].args[0]]
    if mixture.op != "logaddexp" or any(b[a].op != "add" for a in mixture.args):
        return None
    weights = {b[a].args[1]: b.node("exp", [b[a].args[0]]) for a in mixture.args}
    for found, part in zip(products, (p, q), strict=True):
        weight = weights.get(b[part].args[1])
        if weight is None or weight not in found:
            return None
        found.remove(part)
        found.remove(weight)
    return b.const(0) if sorted(products[0]) == sorted(products[1]) else None


RULES = (
    Rule(
        "difference",
        ("sub",),
        "1 - e^u = -expm1(u); softplus(x) - x = softplus(-x); e^a - e^b; c·e^u - c; 1 - Σ p",
        _minus,
    ),
    Rule("sum", ("add",), "1 + expm1(u) = e^u; e^u less 1 at one place is expm1(u) there", _plus),
    Rule("balance", ("add",), "a mixture's parts balance about it", _balance),
)
