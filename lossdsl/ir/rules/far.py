"""Logarithms of what is nearly 0 or nearly 1 itself: of a softplus far below 0, of 1 - (1 - p)^n for a p of e^-200.

The softplus of -200 is e^-200, which single precision has not, and its logarithm is -200. So below -17 these are
written from the exponent: log softplus(x) = x + log(log(1 + u) / u) with u = e^x, where the second part is nearly 0 and
its form keeps its digits. Both sides of the choice stay finite on the side that isn't chosen.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from lossdsl.ir.graph import Attr
from lossdsl.ir.rewrite import Rule
from lossdsl.ir.rules.match import inside, nonnegative
from lossdsl.ir.rules.parts import entry

if TYPE_CHECKING:
    from lossdsl.ir.builder import Builder

FAR = -17  # e^-17 is less than 2^-24
_NEAR = FAR - 1  # what isn't chosen ends here, so that at FAR itself no bound halves a derivative
_LEAST = Fraction(1, 10**30)  # divides what is far smaller in place of 0


def _log(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    """log softplus(x) below FAR, where softplus(x) is e^x but for a part of e^2x."""
    x = inside(b, args[0], "softplus")
    if x is None or b.type(x).interval.low >= _NEAR:
        return None
    u = b.node("exp", [b.node("minimum", [x, b.const(FAR)])])
    below = b.node("add", [x, _log1p_of_ratio(b, b.node("log1pmx", [u]), u)])
    above = b.node("log", [b.node("softplus", [b.node("maximum", [x, b.const(_NEAR)])])])
    return b.node("select", [b.node("lt", [x, b.const(FAR)]), below, above])


def _log1mexp(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    """log(1 - (1 - e^s)^n) below FAR, where it is s + log n but for a part of n·e^s."""
    node = b[args[0]]
    if node.op != "mul":
        return None
    for n, log in (node.args, node.args[::-1]):
        s = inside(b, log, "log1mexp")
        if s is None or not nonnegative(b, n):
            continue
        if b.type(s).interval.low >= _NEAR or b[s].op == "logp" or entry(b, s) is not None:
            return None  # a class of a softmax has better: `ir/beyond.py`
        low = b.node("minimum", [s, b.const(FAR)])
        u = b.node("exp", [low])
        less = b.node("neg", [b.node("log1pmx", [b.node("neg", [u])])])
        w = b.node("add", [b.node("log", [n]), b.node("add", [low, _log1p_of_ratio(b, less, u)])])
        t = b.node("exp", [w])
        rest = b.node("neg", [b.node("expm1mx", [b.node("neg", [t])])])
        below = b.node("add", [w, _log1p_of_ratio(b, rest, t)])
        near = b.node("log1mexp", [b.node("maximum", [s, b.const(_NEAR)])])
        above = b.node("log1mexp", [b.node("mul", [n, near])])
        return b.node("select", [b.node("lt", [s, b.const(FAR)]), below, above])
    return None


def _log1p_of_ratio(b: Builder, x: int, u: int) -> int:
    """log(1 + x/u) of an x that is about u²; 0 where u is 0."""
    return b.node("log1p", [b.node("div", [x, b.node("maximum", [u, b.const(_LEAST)])])])


def _plus_tanh(op: str) -> Rule:
    def apply(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
        for one, other in (args, args[::-1]) if op == "add" else (args,):
            x = inside(b, other, "tanh")
            if x is not None and b.value(one) == 1 and not isinstance(b.value(one), bool):
                twice = b.node("mul", [b.const(2 if op == "add" else -2), x])
                return b.node("mul", [b.const(2), b.node("sigmoid", [twice])])
        return None

    return Rule(f"1 and tanh ({op})", (op,), "1 + tanh(x) = 2 σ(2x), which is no 0 at -10", apply)


RULES = (
    Rule("log of softplus", ("log",), "log softplus(x) is x far below 0, where softplus(x) is 0", _log),
    Rule("log of any", ("log1mexp",), "log(1 - (1 - p)^n) is log p + log n where p is nothing beside 1", _log1mexp),
    _plus_tanh("add"),
    _plus_tanh("sub"),
)
