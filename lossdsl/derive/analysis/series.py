"""Power series of scalars: the Taylor coefficients of a written-out loss in one variable, at 60 digits.

A series is x^order·(c_0 + c_1·x + …) + logs·log x, with a real order, so that (1 - p)^gamma has one; its first
coefficient isn't 0. The logarithm is for a logit at p = 1, of which a loss takes the exponential; what still has one at
the end is no series.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from lossdsl.derive.claims.enclose import needed
from lossdsl.derive.claims.scalars import NotWrittenError, Scalars
from lossdsl.ir.digits import multiprecision

DIGITS = 60
ZERO = "1e-45"  # a coefficient below this, relative to the largest, is a rounding


class KinkError(NotWrittenError):
    """The expression is no power series here: two branches meet."""


@dataclass(frozen=True, slots=True)
class Series:
    """x^order times the polynomial of `terms`; no terms: 0. And `logs` times log x."""

    order: Any
    terms: tuple[Any, ...]
    logs: Any = 0


def series(
    s: Scalars,
    n: int,
    variable: str,
    at: Any,
    values: Mapping[str, Any],
    count: int,
    sign: int = 1,
    sided: bool = False,
    digits: int = DIGITS,
) -> Series:
    """n at variable = at + sign·x as a series in x; NotWrittenError where it has none (a logarithm of x).

    `sided`: for small x > 0 alone, so that a kink at 0 is none; else it is a KinkError.
    """
    import mpmath

    with mpmath.workdps(digits):
        a = _Arithmetic(mpmath, count, sided)
        found: dict[int, Series] = {}
        for m in needed(s, n):
            op, args = s.nodes[m]
            if op == "const":
                found[m] = a.constant(multiprecision().constant(args[0]))
            elif op == "var":
                found[m] = a.made([at, sign]) if args[0] == variable else a.constant(values[args[0]])
            else:
                found[m] = a.call(op, [found[x] for x in args])
        if found[n].logs:
            raise NotWrittenError("a logarithm of 0")
        return found[n]


_OF_LOGS = frozenset(
    [
        "add",
        "sub",
        "neg",
        "mul",
        "mulz",
        "exp",
        "expm1",
        "lse",
        "logp",
        "sigmoid",
        "softplus",
        "maximum",
        "minimum",
        "relu",
        "abs",
        "clip",
        "select",
        "lt",
        "gt",
        "le",
        "ge",
    ]
)


class _Arithmetic:
    def __init__(self, mp: Any, count: int, sided: bool) -> None:
        self.mp = mp
        self.count = count
        self.sided = sided

    def made(self, terms: Any, order: Any = 0, logs: Any = 0) -> Series:
        """The series of these terms, its leading zeros taken into the order."""
        mp = self.mp
        numbers = [mp.mpf(t) for t in terms][: self.count]
        largest = max((abs(t) for t in numbers), default=0)
        lead = 0
        while lead < len(numbers) and abs(numbers[lead]) <= mp.mpf(ZERO) * largest:
            lead += 1
        if lead == len(numbers):
            return Series(0, (), logs)
        kept = numbers[lead:] + [mp.mpf(0)] * (self.count - (len(numbers) - lead))
        return Series(order + lead, tuple(kept[: self.count]), logs)

    def constant(self, value: Any) -> Series:
        return self.made([value])

    def plain(self, x: Series) -> list[Any]:
        """The coefficients of x^0, x^1, …; NotWrittenError for another kind of order."""
        if not x.terms:
            return [self.mp.mpf(0)] * self.count
        if x.order != int(x.order) or x.order < 0:
            raise NotWrittenError("a singularity")
        return ([self.mp.mpf(0)] * int(x.order) + list(x.terms))[: self.count]

    def add(self, x: Series, y: Series) -> Series:
        logs = x.logs + y.logs
        if not x.terms or not y.terms:
            return replace(x if x.terms else y, logs=logs)
        low, high = (x, y) if x.order <= y.order else (y, x)
        gap = high.order - low.order
        if abs(gap - round(float(gap))) > 1e-12:
            raise NotWrittenError("powers that differ by no whole number")
        moved = [self.mp.mpf(0)] * round(float(gap)) + list(high.terms)
        return self.made([a + b for a, b in zip(low.terms, moved, strict=False)], low.order, logs)

    def mul(self, x: Series, y: Series) -> Series:
        if x.logs or y.logs:
            x, y = (x, y) if x.logs else (y, x)
            factor = self.plain(y)
            if y.logs or any(factor[1:]):
                raise NotWrittenError("a logarithm of 0")
            return replace(self.mul(replace(x, logs=0), y), logs=x.logs * factor[0])
        if not x.terms or not y.terms:
            return Series(0, ())
        terms = [self.mp.fsum(x.terms[i] * y.terms[k - i] for i in range(k + 1)) for k in range(self.count)]
        return self.made(terms, x.order + y.order)

    def neg(self, x: Series) -> Series:
        return Series(x.order, tuple(-t for t in x.terms), -x.logs)

    def exp(self, x: Series) -> Series:
        c = self.plain(x)
        found = [self.mp.exp(c[0])]
        for k in range(1, self.count):  # f' = c'·f
            found.append(self.mp.fsum(i * c[i] * found[k - i] for i in range(1, k + 1)) / k)
        return self.made(found, x.logs)

    def log(self, x: Series) -> Series:
        if not x.terms or x.terms[0] <= 0 or (x.order != 0 and not self.sided):
            raise NotWrittenError("a logarithm of 0")
        c = x.terms
        found = [self.mp.log(c[0])]
        for k in range(1, self.count):  # c·f' = c'
            rest = self.mp.fsum(i * found[i] * c[k - i] for i in range(1, k))
            found.append((c[k] - rest / k) / c[0])
        return self.made(found, 0, x.order)

    def power(self, x: Series, y: Any) -> Series:
        """x^y for a number y."""
        if y == 0:
            return self.constant(1)
        if not x.terms:
            if y > 0:
                return x
            raise NotWrittenError("1/0")
        c = x.terms
        if c[0] < 0 and y != int(y):
            raise NotWrittenError("a power of a negative number")
        found = [c[0] ** int(y) if y == int(y) else self.mp.power(c[0], y)]
        for k in range(1, self.count):  # Miller's recurrence
            found.append(self.mp.fsum((y * i - (k - i)) * c[i] * found[k - i] for i in range(1, k + 1)) / (k * c[0]))
        return self.made(found, x.order * y)

    def above(self, x: Series, y: Series) -> bool | None:
        """Whether x > y for small arguments; None where they are the same. KinkError where that turns at 0."""
        gap = self.add(x, self.neg(y))
        if gap.logs and (not gap.terms or gap.order >= 0):
            return bool(gap.logs < 0)
        if not gap.terms:
            return None
        if gap.order > 0 and not self.sided:
            raise KinkError("a kink")
        return bool(gap.terms[0] > 0)

    def larger(self, x: Series, y: Series) -> Series:
        return y if self.above(x, y) is False else x

    def truth(self, op: str, x: Series, y: Series) -> Series:
        above = self.above(x, y)
        true = {"lt": above is False, "gt": above is True, "le": above is not True, "ge": above is not False}
        true |= {"eq": above is None, "ne": above is not None}
        return self.constant(int(true[op]))

    def call(self, op: str, xs: list[Series]) -> Series:
        mp = self.mp
        x = xs[0]
        if op not in _OF_LOGS and any(e.logs for e in xs):
            raise NotWrittenError("a logarithm of 0")
        match op:
            case "add":
                return self.add(*xs)
            case "sub":
                return self.add(x, self.neg(xs[1]))
            case "neg":
                return self.neg(x)
            case "mul" | "mulz":
                return self.mul(*xs)
            case "div":
                return self.mul(x, self.power(xs[1], mp.mpf(-1)))
            case "exp":
                return self.exp(x)
            case "expm1":
                return self.add(self.exp(x), self.constant(-1))
            case "log":
                return self.log(x)
            case "log1p":
                return self.log(self.add(x, self.constant(1)))
            case "xlogx":
                return x if not x.terms else self.mul(x, self.log(x))
            case "sqrt":
                return self.power(x, mp.mpf(1) / 2)
            case "lse" | "logp":
                total = self.constant(0)
                for e in xs:
                    total = self.add(total, self.exp(e))
                whole = self.log(total)
                return whole if op == "lse" else self.add(x, self.neg(whole))
            case "sigmoid":
                return self.power(self.add(self.exp(self.neg(x)), self.constant(1)), mp.mpf(-1))
            case "softplus":
                return self.log(self.add(self.exp(x), self.constant(1)))
            case "tanh":
                twice = self.exp(self.add(x, x))
                below = self.power(self.add(twice, self.constant(1)), mp.mpf(-1))
                return self.mul(self.add(twice, self.constant(-1)), below)
            case "phi":
                if not x.terms:
                    return self.constant(1)
                return self.mul(self.add(self.exp(x), self.constant(-1)), self.power(x, mp.mpf(-1)))
            case "pow":
                c = self.plain(xs[1])
                if any(c[1:]):
                    return self.exp(self.mul(xs[1], self.log(x)))
                return self.power(x, c[0])
            case "maximum":
                return self.larger(*xs)
            case "minimum":
                return self.neg(self.larger(*map(self.neg, xs)))
            case "relu":
                return self.larger(x, Series(0, ()))
            case "abs":
                return self.larger(x, self.neg(x))
            case "clip":
                low = self.larger(x, xs[1])
                return self.neg(self.larger(self.neg(low), self.neg(xs[2])))
            case "sign":
                above = self.above(x, Series(0, ()))
                return self.constant(0 if above is None else 1 if above else -1)
            case "lt" | "gt" | "le" | "ge" | "eq" | "ne":
                return self.truth(op, *xs)
            case "and":
                return self.mul(*xs)
            case "or":
                return xs[1] if not x.terms else x
            case "not":
                return self.constant(int(not x.terms))
            case "select":
                return xs[1] if x.terms else xs[2]
            case "divergence":
                p, q = self.exp(x), self.exp(xs[1])
                gap = self.add(x, self.neg(xs[1]))
                return self.add(self.add(self.mul(p, gap), self.neg(p)), q)
            case "expsub":
                return self.add(self.exp(x), self.neg(self.exp(xs[1])))
            case "log1mexp":
                return self.log(self.add(self.constant(1), self.neg(self.exp(x))))
        raise NotWrittenError(op)
