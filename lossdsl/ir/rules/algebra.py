"""Constants folded exactly, neutral elements dropped, signs pulled outwards so that equal things look equal."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

from lossdsl.ir.graph import Attr
from lossdsl.ir.rewrite import Rule
from lossdsl.ir.rules.match import factors, inside, is_const, rational
from lossdsl.ir.typing import PI

if TYPE_CHECKING:
    from lossdsl.ir.builder import Builder

_BITS = 2048  # of a folded constant: beyond, the operation is left to run time
_LARGEST = 2**1000  # so is what a float doesn't hold, nor a product with a small factor
_FOLD: dict[str, Callable[..., Fraction | bool]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "neg": lambda x: -x,
    "abs": abs,
    "minimum": min,
    "maximum": max,
    "eq": lambda x, y: x == y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
}


def _fold(op: str) -> Rule:
    def apply(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
        values = [rational(b, a) for a in args]
        known = [v for v in values if v is not None]
        if len(known) < len(values):
            return None
        result = _FOLD[op](*known)
        return b.const(result) if isinstance(result, bool) or small(result) else None

    return Rule(f"fold {op}", (op,), "literals are rationals: folding them rounds nothing", apply)


def small(x: Fraction) -> bool:
    """Whether a folded constant is worth keeping: what a float holds, of not too many digits, and not taken for pi."""
    return x != PI and abs(x) <= _LARGEST and max(x.numerator.bit_length(), x.denominator.bit_length()) <= _BITS


def _divide(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    x, y = args
    p, q = rational(b, x), rational(b, y)
    if q == 1:
        return x
    if p is not None and q:
        return b.const(p / q) if small(p / q) else None
    if p == 0 and 0.0 not in b.type(y).interval:
        return x
    if q and b[x].op == "mul" and rational(b, b[x].args[0]) == q:
        return b[x].args[1]
    return _sign_out(b, "div", x, y)


def _power(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    x, a = args
    base, exponent = rational(b, x), rational(b, a)
    if exponent == 1:
        return x
    if exponent == 0 or base == 1:
        return b.const(1)
    if (
        base is None
        or exponent is None
        or exponent.denominator != 1
        or abs(exponent) > 64
        or (base == 0 and exponent < 0)
    ):
        return None
    result = Fraction(base**exponent.numerator)
    return b.const(result) if small(result) else None


def _sign_out(b: Builder, op: str, x: int, y: int) -> int | None:
    """(-x) op y and x op (-y) as -(x op y), for mul and div: exact, and signs meet where they can cancel."""
    for one, other, flipped in ((x, y, False), (y, x, True)):
        inner = inside(b, one, "neg")
        if inner is not None:
            return b.node("neg", [b.node(op, [other, inner] if flipped else [inner, other])])
    return None


def _times(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    for x, y in (args, args[::-1]):
        if is_const(b, x, 1):
            return y
        if is_const(b, x, 0):
            return b.const(0)
        if is_const(b, x, -1):
            return b.node("neg", [y])
        c = rational(b, x)
        if c is not None and b[y].op == "mul":
            inner = rational(b, b[y].args[0])
            if inner is not None and small(c * inner):
                return b.node("mul", [b.const(c * inner), b[y].args[1]])
    if rational(b, args[1]) is not None and rational(b, args[0]) is None:
        return b.node("mul", args[::-1])
    for x, y in (args, args[::-1]):
        rest = _without(b, x, y)
        if rest is not None:
            return rest
    return _sign_out(b, "mul", *args)


def _without(b: Builder, product: int, inverse: int) -> int | None:
    """What is left of a product with y that is multiplied by 1 / y, for a finite y that is never 0."""
    node = b[inverse]
    if node.op != "div" or not is_const(b, node.args[0], 1):
        return None
    y = node.args[1]
    interval = b.type(y).interval
    if 0.0 in interval or not interval.finite:
        return None
    rest = factors(b, product)
    if y not in rest:
        return None
    rest.remove(y)
    result = rest[0] if rest else b.const(1)
    for factor in rest[1:]:
        result = b.node("mul", [factor, result])
    return result


def _plus(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    for x, y in (args, args[::-1]):
        if is_const(b, x, 0):
            return y
        negated = inside(b, x, "neg")
        if negated is not None:
            return b.node("sub", [y, negated])
        c = rational(b, x)
        if c is not None and c < 0:
            return b.node("sub", [y, b.const(-c)])
    return None


def _minus(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    x, y = args
    if is_const(b, y, 0):
        return x
    if is_const(b, x, 0):
        return b.node("neg", [y])
    if x == y and b.type(x).interval.finite:
        return b.const(0)
    negated = inside(b, y, "neg")
    if negated is not None:
        return b.node("add", [x, negated])
    c = rational(b, y)
    if c is not None and c < 0:
        return b.node("add", [x, b.const(-c)])
    negated = inside(b, x, "neg")
    if negated is not None:
        return b.node("neg", [b.node("add", [negated, y])])
    return None


def _negate(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    node = b[args[0]]
    if node.op == "neg":
        return node.args[0]
    if node.op == "sub":
        return b.node("sub", node.args[::-1])
    if node.op == "mul":
        c = rational(b, node.args[0])
        if c is not None:
            return b.node("mul", [b.const(-c), node.args[1]])
    value = b.value(args[0])
    if isinstance(value, float):
        return b.const(-value)
    return None


def _absolute(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    interval = b.type(args[0]).interval
    if interval.low >= 0:
        return args[0]
    if interval.high <= 0:
        return b.node("neg", args)
    return None


def _rectify(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    return args[0] if b.type(args[0]).interval.low > 0 else None


def _detach(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    node = b[args[0]]
    return args[0] if node.op in ("const", "index", "size", "detach") or not node.type.differentiable else None


RULES = (
    *(_fold(op) for op in _FOLD),
    Rule("divide", ("div",), "a quotient of literals is a literal; signs go outwards", _divide),
    Rule("power", ("pow",), "x^1 = x, x^0 = 1 (also at 0), small integer powers of literals", _power),
    Rule(
        "times",
        ("mul",),
        "1 and 0 are neutral and absorbing (0 · ±inf = 0 in the language); literals lead; y · 1/y = 1",
        _times,
    ),
    Rule("plus", ("add",), "0 is neutral; x + (-y) = x - y", _plus),
    Rule("minus", ("sub",), "0 is neutral; x - (-y) = x + y; finite x - x = 0", _minus),
    Rule("negate", ("neg",), "-(x - y) = y - x and -(-x) = x are exact", _negate),
    Rule("absolute", ("abs",), "a value of known sign needs no abs", _absolute),
    Rule("rectify", ("relu",), "a positive value needs no relu", _rectify),
    Rule("detach", ("detach",), "what has no gradient needs no detach", _detach),
)
