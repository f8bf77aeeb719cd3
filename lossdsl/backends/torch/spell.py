"""How each primitive is written in torch.

A spelling takes the operands' `Text`s (aligned, and cast where the operation needs it) and gives the text of the
result. A primitive that is not here is printed from its record's `expand`, as a helper function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import inf, isinf, isnan

from lossdsl.ir.graph import Scalar, is_whole

ATOM, UNARY, TIMES, PLUS, AND, OR, COMPARE, LOOSEST = 100, 90, 80, 70, 60, 50, 40, 0


@dataclass(frozen=True, slots=True)
class Text:
    """An expression: its text, how tightly it binds, its dimensions' axes, what torch stores, whether it is a
    tensor at all.
    """

    text: str
    binds: int = ATOM
    axes: tuple[str, ...] = ()
    dtype: str = "real"
    tensor: bool = True

    def at(self, level: int) -> str:
        """The text, in parentheses where it binds less tightly than `level`."""
        return self.text if self.binds >= level else f"({self.text})"


def number(x: Scalar) -> Text:
    """A constant as Python writes it."""
    if isinstance(x, bool):
        return Text(str(x), dtype="bool", tensor=False)
    if is_whole(x):
        return _signed(str(int(x)), "int")
    if isinstance(x, Fraction):
        exact = repr(float(x))
        text = exact if Fraction(exact) == x else f"{x.numerator} / {x.denominator}"
        if "/" in text and len(text) < 12 and x > 0:
            return Text(text, TIMES, tensor=False)
        return _signed(exact, "real")
    if isinf(x) or isnan(x):
        return _signed(f'float("{x}")', "real") if x != -inf else Text('-float("inf")', UNARY, tensor=False)
    return _signed(repr(float(x)), "real")


def _signed(text: str, dtype: str) -> Text:
    return Text(text, UNARY if text.startswith("-") else ATOM, dtype=dtype, tensor=False)


Spelling = Callable[..., tuple[str, int]]


def infix(symbol: str, level: int, associative: bool = False) -> Spelling:
    def spell(a: Text, b: Text) -> tuple[str, int]:
        return f"{a.at(level)} {symbol} {b.at(level if associative else level + 1)}", level

    return spell


def compare(symbol: str) -> Spelling:
    """A comparison, with a number on the right."""

    def spell(a: Text, b: Text) -> tuple[str, int]:
        if a.tensor:
            return f"{a.at(COMPARE + 1)} {symbol} {b.at(COMPARE + 1)}", COMPARE
        return f"{b.at(COMPARE + 1)} {_TURNED.get(symbol, symbol)} {a.at(COMPARE + 1)}", COMPARE

    return spell


_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def call(function: str, *more: str) -> Spelling:
    def spell(*args: Text) -> tuple[str, int]:
        return f"{function}({', '.join([*(a.text for a in args), *more])})", ATOM

    return spell


def prefix(symbol: str) -> Spelling:
    def spell(a: Text) -> tuple[str, int]:
        return f"{symbol}{a.at(UNARY)}", UNARY

    return spell


def bound(side: str, function: str) -> Spelling:
    """minimum and maximum: `clamp` against a number."""

    def spell(a: Text, b: Text) -> tuple[str, int]:
        if not b.tensor:
            return f"{a.at(ATOM)}.clamp({side}={b.text})", ATOM
        if not a.tensor:
            return f"{b.at(ATOM)}.clamp({side}={a.text})", ATOM
        return f"{function}({a.text}, {b.text})", ATOM

    return spell


def clip(x: Text, low: Text, high: Text) -> tuple[str, int]:
    """min(max(x, low), high): one clamp between numbers."""
    if x.tensor and not low.tensor and not high.tensor:
        return f"{x.at(ATOM)}.clamp({low.text}, {high.text})", ATOM
    text, binds = bound("min", "torch.maximum")(x, low)
    return bound("max", "torch.minimum")(Text(text, binds), high)


def power(a: Text, b: Text) -> tuple[str, int]:
    if b.text == "2" and not b.tensor:
        return f"torch.square({a.text})", ATOM
    return f"torch.pow({a.text}, {b.text})", ATOM


def polygamma(order: int) -> Spelling:
    def spell(a: Text) -> tuple[str, int]:
        function = "torch.special.zeta(2.0, " if order == 1 else f"torch.polygamma({order}, "
        return f"{function}{a.text})", ATOM

    return spell


SPELLINGS: dict[str, Spelling] = {
    "add": infix("+", PLUS),
    "sub": infix("-", PLUS),
    "mul": infix("*", TIMES),
    "div": infix("/", TIMES),
    "neg": prefix("-"),
    "pow": power,
    "mod": call("torch.remainder"),
    "minimum": bound("max", "torch.minimum"),
    "maximum": bound("min", "torch.maximum"),
    "clip": clip,
    "relu": call("torch.relu"),
    "eq": compare("=="),
    "ne": compare("!="),
    "lt": compare("<"),
    "le": compare("<="),
    "gt": compare(">"),
    "ge": compare(">="),
    "and": infix("&", AND, associative=True),
    "or": infix("|", OR, associative=True),
    "not": prefix("~"),
    "select": call("torch.where"),
    "mulz": call("_times"),
    "softplus": call("torch.nn.functional.softplus", "threshold=40.0"),
    "trigamma": polygamma(1),  # torch.polygamma(1, ·) has nine digits
    "tetragamma": polygamma(2),
    **{
        name: call(f"torch.{name}")
        for name in (
            *("exp", "expm1", "log", "log1p", "sqrt", "abs", "sign", "sin", "cos", "tan", "acos", "asin", "atan"),
            *("tanh", "sigmoid", "erf", "lgamma", "digamma", "floor", "round", "isfinite", "logaddexp"),
        )
    },
}

# What must be tensors: torch's function takes no Python number there.
TENSORS = frozenset({"logaddexp", "mulz", "mod"})
# Whose values are real in torch, though whole.
REAL_IN_TORCH = frozenset({"floor", "round"})
ARITHMETIC = frozenset({"add", "sub", "mul", "mulz", "neg", "abs", "mod", "div", "pow", "sign", "relu"})
