"""Sigmoids and tanhs written by exponentials: as typed they overflow at 89 in float32, or lose what is near 0.

e^a / (e^a + e^b) is σ(a - b), which no exponential of a large number is formed for; (e^a - e^b) / (e^a + e^b) and
2 σ(x) - 1 are tanhs, which keep their digits where they are small.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from lossdsl.ir.graph import Attr
from lossdsl.ir.rewrite import Rule
from lossdsl.ir.rules.match import as_log, factors, inside, is_const, rational

if TYPE_CHECKING:
    from lossdsl.ir.builder import Builder


def _exponent(b: Builder, n: int) -> int | None:
    """u, if n is e^u: 1 is e^0."""
    return b.const(0) if is_const(b, n, 1) else inside(b, n, "exp")


def _exponents(b: Builder, n: int) -> tuple[int, int] | None:
    """(a, c), if n is e^a + e^c; they vary."""
    node = b[n]
    if node.op != "add":
        return None
    a, c = (_exponent(b, x) for x in node.args)
    return None if a is None or c is None else (a, c)


def _ratio(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    over, under = args
    found = _exponents(b, under)
    if found is None:
        return None
    a, c = found
    own = _exponent(b, over)
    if own in found:
        return b.node("sigmoid", [b.node("sub", [own, c if own == a else a])])
    return _opposed(b, over, a, c)


def _opposed(b: Builder, over: int, a: int, c: int) -> int | None:
    """tanh((a - c)/2), or its opposite, if over is e^a - e^c or e^c - e^a."""
    node, sign = b[over], 1
    if node.op == "neg":
        node, sign = b[node.args[0]], -1
    if node.op == "expsub":
        parts = node.args
    elif node.op == "expm1":
        parts = (node.args[0], b.const(0))
    else:
        return None
    if sorted(parts) != sorted((a, c)):
        return None
    half = b.node("div", [b.node("sub", list(parts)), b.const(2)])
    tanh = b.node("tanh", [half])
    return tanh if sign > 0 else b.node("neg", [tanh])


def _centred(op: str) -> Rule:
    def apply(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
        for place, other in ((0, args[1]), (1, args[0])):
            k, rest = _product(b, args[place])
            c, found = _product(b, other)
            if op == "sub":  # the second one counts negative
                k, c = (k, -c) if place == 0 else (-k, c)
            for sigmoid in found if c == -2 * k else ():
                x = inside(b, sigmoid, "sigmoid")
                if x is not None and sorted(n for n in found if n != sigmoid) == sorted(rest):
                    return _times(b, -k, [*rest, b.node("tanh", [b.node("div", [x, b.const(2)])])])
        return None

    return Rule(f"centred sigmoid ({op})", (op,), "g - 2 g σ(x) = -g tanh(x/2), exact where it is small", apply)


def _product(b: Builder, n: int) -> tuple[Fraction, list[int]]:
    """The literal factor of a product, and the others."""
    negated = inside(b, n, "neg")
    if negated is not None:
        k, rest = _product(b, negated)
        return -k, rest
    literal, rest = Fraction(1), []
    for f in factors(b, n):
        value = rational(b, f)
        if value is None:
            rest.append(f)
        else:
            literal *= value
    return literal, rest


def _times(b: Builder, k: Fraction, rest: list[int]) -> int:
    *others, result = rest
    for f in others:
        result = b.node("mul", [f, result])
    if k == -1:
        return b.node("neg", [result])
    return result if k == 1 else b.node("mul", [b.const(k), result])


def _two_sigmoids(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    """σ(x) - σ(-x) as a tanh; σ(x) - σ(y) as a difference of exponentials, of whose logarithms none is lost near 1."""
    x, y = (inside(b, n, "sigmoid") for n in args)
    if x is None or y is None or x == y:
        return None
    if inside(b, x, "neg") == y or inside(b, y, "neg") == x:
        return b.node("tanh", [b.node("div", [x, b.const(2)])])
    logs = [b.node("neg", [b.node("softplus", [b.node("neg", [n])])]) for n in (x, y)]
    return b.node("expsub", logs)


def _log1p(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    """log(1 + c e^u) as softplus(u + log c) for a literal c > 0."""
    node = b[args[0]]
    if node.op == "mul":
        for k, e in (node.args, node.args[::-1]):
            c, u = rational(b, k), inside(b, e, "exp")
            if u is not None and c is not None and c > 0:
                return b.node("softplus", [b.node("add", [u, b.node("log", [k])])])
    if node.op == "div":
        c, u = rational(b, node.args[1]), inside(b, node.args[0], "exp")
        if u is not None and c is not None and c > 0:
            return b.node("softplus", [b.node("sub", [u, b.node("log", [node.args[1]])])])
    return None


def _log(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    """log(c·s) = log c + log s for a literal c > 0 and a sum s of exponentials; log(e^u - 1) = u + log(1 - e^-u)."""
    (x,) = args
    node = b[x]
    u = inside(b, x, "expm1")
    if u is not None:
        return b.node("add", [u, b.node("log1mexp", [b.node("neg", [u])])])
    if node.op == "div":
        c = rational(b, node.args[1])
        if c is not None and c > 0 and _summed(b, node.args[0]):
            return b.node("sub", [b.node("log", [node.args[0]]), b.node("log", [node.args[1]])])
    if node.op == "mul":
        for k, s in (node.args, node.args[::-1]):
            c = rational(b, k)
            if c is not None and c > 0 and _summed(b, s):
                return b.node("add", [b.node("log", [s]), b.node("log", [k])])
        if all(b[a].op == "sigmoid" for a in node.args):
            return b.node("add", [b.node("log", [a]) for a in node.args])
    if node.op == "add":
        return _log_of_sum(b, node.args)
    return None


def _summed(b: Builder, n: int) -> bool:
    """Whether n is a sum of exponentials, 1 among them, or 1 over one."""
    node = b[n]
    if node.op == "sigmoid":
        return True
    return node.op == "add" and all(_exponent(b, a) is not None or as_log(b, a) is not None for a in node.args)


def _log_of_sum(b: Builder, parts: tuple[int, ...]) -> int | None:
    """log(s + e^u) of a sum s of exponentials."""
    for s, other in (parts, parts[::-1]):
        u = _exponent(b, other)
        if u is not None and _summed(b, s):
            return b.node("logaddexp", [b.node("log", [s]), u])
    return None


RULES = (
    Rule("ratio of exponentials", ("div",), "e^a / (e^a + e^b) = σ(a - b), and e^a - e^b over it a tanh", _ratio),
    _centred("add"),
    _centred("sub"),
    Rule(
        "two sigmoids",
        ("sub",),
        "σ(x) - σ(-x) = tanh(x/2), exact where it is small; σ(x) - σ(y) = e^(log σ(x)) - e^(log σ(y)), also near 1",
        _two_sigmoids,
    ),
    Rule("log1p of scaled exp", ("log1p",), "log(1 + c e^u) = softplus(u + log c): no overflow", _log1p),
    Rule("log of scaled sums", ("log",), "literals before a sum of exponentials; log(e^u - 1); longer sums", _log),
)
