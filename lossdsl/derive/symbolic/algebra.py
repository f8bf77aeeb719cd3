"""A case of a claim as sympy expressions, and whether such an expression is 0.

A row of probabilities is a group of positive symbols that sum to 1; an expression is brought to a quotient of
polynomials in them, their logarithms and their powers, which is 0 only if its numerator is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import sympy

from lossdsl.derive.claims.cases import Case
from lossdsl.derive.claims.enclose import needed, variables
from lossdsl.derive.claims.known import has_pole, known
from lossdsl.derive.claims.scalars import NotWrittenError, Scalars
from lossdsl.derive.symbolic.terms import Symbolic, lift
from lossdsl.primitives.interval import Interval
from lossdsl.registry import Registry


@dataclass(slots=True)
class Algebra:
    """A case's scalars as sympy expressions; `groups` are the symbols of each row of probabilities."""

    registry: Registry
    case: Case
    param: str = ""  # of a limit: not equal to any number
    sums: Collection[str] = ()  # the inputs that are distributions
    symbols: dict[str, Any] = field(default_factory=dict)
    memo: dict[int, Any] = field(default_factory=dict)

    def symbol(self, name: str) -> Any:
        if name not in self.symbols:
            within = self.case.domain.get(name, Interval())
            signs = {"positive": True} if within.low > 0 or (within.low_open and within.low == 0) else {"real": True}
            if name.startswith("p."):  # a distribution that is given may have zeros
                given = name[2:].partition("[")[0] in self.sums
                signs = {"nonnegative": True} if given else {"positive": True}
            elif within.low == 0:
                signs = {"nonnegative": True} if not within.low_open else {"positive": True}
            self.symbols[name] = sympy.Symbol(name, **signs)
        return self.symbols[name]

    def expression(self, n: int) -> Any:
        s = self.case.scalars
        for m in needed(s, n):
            if m not in self.memo:
                self.memo[m] = self.made(s, m)
        return self.memo[n]

    def made(self, s: Scalars, m: int) -> Any:
        op, args = s.nodes[m]
        if op == "const":
            return lift(args[0])
        if op == "var":
            return self.symbol(args[0])
        e = [self.memo[a] for a in args]
        if op in ("eq", "ne") and self.param and any(a.is_Symbol and a.name == self.param for a in e):
            return sympy.false if op == "eq" else sympy.true
        match op:
            case "lse":
                return sympy.log(sympy.Add(*map(sympy.exp, e)))
            case "logp":
                return e[0] - sympy.log(sympy.Add(*map(sympy.exp, e)))
            case "xlogx":
                return e[0] * sympy.log(e[0])
            case "phi":
                return (sympy.exp(e[0]) - 1) / e[0]
            case "mul" | "mulz":
                for x, y in (args, args[::-1]):  # 0·(1/0) is 0, which sympy takes for what x·(1/x) tends to
                    if has_pole(s, y) and 0.0 in known(s, x) and variables(s, x) & variables(s, y):
                        raise NotWrittenError("a product with a pole")
                return e[0] * e[1]
            case "expm1":
                return sympy.exp(e[0]) - 1
        return Symbolic(self.registry.primitives).call(op, *e)

    @property
    def groups(self) -> list[list[Any]]:
        s = self.case.scalars
        return [[self.symbol(str(s.nodes[p][1][0])) for p in sorted(group)] for group in s.simplices]


def vanishes(a: Algebra, e: Any) -> bool:
    """Whether sympy brings e to 0 by quick means."""
    e = sympy.sympify(e)
    if e == 0:
        return True
    if e.has(sympy.Piecewise):
        e = sympy.piecewise_fold(e)
        if isinstance(e, sympy.Piecewise):
            return all(vanishes(a, branch) for branch, _ in e.args)
    if e.has(sympy.Piecewise, sympy.nan, sympy.zoo):
        return False
    last = {g[-1]: 1 - sympy.Add(*g[:-1]) for g in a.groups}
    e = sympy.expand(e.rewrite(sympy.exp))
    atoms: dict[Any, Any] = {}
    numerator = sympy.fraction(sympy.cancel(sympy.together(_normal(e, last, atoms))))[0]
    for key, root in atoms.items():  # a root's power is what is under it
        if key[0] == "pow" and key[2].is_Rational and numerator.has(root):
            numerator = sympy.rem(numerator, root ** key[2].q - key[1], root)
    return bool(sympy.expand(numerator) == 0)


def _normal(e: Any, last: Mapping[Any, Any], atoms: dict[Any, Any]) -> Any:
    """Logarithms and powers of like arguments as one symbol each, and the last probability as what the others leave."""

    def inner(x: Any) -> Any:
        return x if x.is_Symbol else sympy.cancel(sympy.together(_normal(x, last, atoms)))

    def log(x: Any) -> Any:
        x = inner(x)
        if x.is_Mul or x.is_Pow:
            return sympy.expand_log(sympy.log(x), force=True).replace(
                lambda y: isinstance(y, sympy.log), lambda y: atoms.setdefault(("log", y.args[0]), sympy.Dummy())
            )
        top, bottom = sympy.fraction(x)
        if bottom != 1:
            return log(sympy.factor(top)) - log(sympy.factor(bottom))
        if x == 1:
            return sympy.Integer(0)
        return sympy.log(x) if x.is_number else atoms.setdefault(("log", x), sympy.Dummy())

    def power(base: Any, exponent: Any) -> Any:
        number, rest = sympy.expand(exponent).as_coeff_Add()
        base = inner(base)
        if not number.is_Rational:
            return atoms.setdefault(("pow", base, number + rest), sympy.Dummy())
        whole = sympy.floor(number)
        result = base**whole
        if number != whole:
            result *= (
                atoms.setdefault(("pow", base, sympy.Rational(1, (number - whole).q)), sympy.Dummy())
                ** (number - whole).p
            )
        times, rest = rest.as_coeff_Mul()
        if rest != 1 or times == 0:
            if times.is_Integer:
                return result * (1 if times == 0 else atoms.setdefault(("pow", base, rest), sympy.Dummy()) ** times)
            return result * atoms.setdefault(("pow", base, times * rest), sympy.Dummy())
        return result

    def walk(x: Any) -> Any:
        if isinstance(x, sympy.log):
            return log(x.args[0])
        if isinstance(x, sympy.exp):
            return exponential(sympy.expand(x.args[0]))
        if isinstance(x, sympy.Pow) and not x.exp.is_Integer:
            return power(x.base, x.exp)
        if x in last:
            return last[x]
        return x.func(*map(walk, x.args)) if x.args else x

    def exponential(x: Any) -> Any:
        result = sympy.Integer(1)
        for term in sympy.Add.make_args(x):
            logs = [f for f in sympy.Mul.make_args(term) if isinstance(f, sympy.log)]
            if len(logs) == 1:  # e^(c·log u) is u^c
                result *= power(logs[0].args[0], term / logs[0])
            else:
                number, rest = term.as_coeff_Mul()
                if number.is_Integer:
                    result *= atoms.setdefault(("exp", rest), sympy.Dummy()) ** number
                else:
                    result *= atoms.setdefault(("exp", term), sympy.Dummy())
        return result

    return walk(e)
