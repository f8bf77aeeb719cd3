"""Claims settled by sympy: written out for 2 and 3 classes, with every real a symbol, in a child process.

A row of probabilities is a group of positive symbols that sum to 1; what is claimed is brought to a quotient of
polynomials in them, their logarithms and their powers, which is 0 only if its numerator is.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import sympy

from lossdsl.derive.claims.cases import Case, cases
from lossdsl.derive.claims.enclose import needed
from lossdsl.derive.claims.scalars import NotWrittenError, Scalars
from lossdsl.derive.symbolic.terms import Symbolic, lift
from lossdsl.derive.transport import from_json
from lossdsl.primitives.interval import Interval
from lossdsl.registry import Registry

NODE = "aux.node"


@dataclass(slots=True)
class Algebra:
    """A case's scalars as sympy expressions; `groups` are the symbols of each row of probabilities."""

    registry: Registry
    case: Case
    param: str = ""  # of a limit: not equal to any number
    symbols: dict[str, Any] = field(default_factory=dict)
    memo: dict[int, Any] = field(default_factory=dict)

    def symbol(self, name: str) -> Any:
        if name not in self.symbols:
            within = self.case.domain.get(name, Interval())
            signs = {"positive": True} if within.low > 0 or (within.low_open and within.low == 0) else {"real": True}
            if name.startswith("p."):
                signs = {"positive": True}
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


def settle(request: Mapping[str, Any], registry: Registry) -> bool:
    """Whether the request's claim is shown. Kinds: zero, constant, limit, proper."""
    kind = request["kind"]
    graph = from_json(request["graph"])
    for classes in request["classes"]:
        for case in cases(graph, [NODE], classes, request["shifts"], request["sums"], stick=False):
            a = Algebra(registry, case, request.get("param", ""))
            entries = [a.expression(n) for n in case.outputs[NODE].values()]
            if kind == "proper":
                if not proper(a, entries):
                    return False
                continue
            for e in entries:
                if not _SHOWN[kind](a, e, request):
                    return False
    return True


def _zero(a: Algebra, e: Any, request: Mapping[str, Any]) -> bool:
    return vanishes(a, e)


def _constant(a: Algebra, e: Any, request: Mapping[str, Any]) -> bool:
    """Its derivative in every symbol of an input is 0; params may stay."""
    groups = a.groups
    e = e.subs({g[-1]: 1 - sympy.Add(*g[:-1]) for g in groups}, simultaneous=True)
    inputs = [x for name, x in a.symbols.items() if name.startswith("p.") or "[" in name]
    return all(vanishes(a, sympy.diff(e, x)) for x in inputs if e.has(x))


def _limit(a: Algebra, e: Any, request: Mapping[str, Any]) -> bool:
    x = a.symbol(request["param"])
    to = sympy.oo if request["to"] == "inf" else lift(Fraction(request["to"]))
    return all(vanishes(a, limit(a, e, x, to, side)) for side in request["sides"])


class NoLimitError(Exception):
    """The limit was not found."""


def limit(a: Algebra, e: Any, x: Any, to: Any, side: str) -> Any:
    """The limit of a composition: of its arguments, of numerator and denominator, by de l'Hospital's rule at 0/0."""
    if to == sympy.oo:
        u = sympy.Symbol("u", positive=True)
        return limit(a, e.subs(x, 1 / u), u, sympy.Integer(0), "+")
    try:
        return _limit_of(a, e, x, to, ORDERS)
    except NoLimitError:
        return sympy.limit(e, x, to, side)


ORDERS = 4  # how often numerator and denominator are differentiated


def _limit_of(a: Algebra, e: Any, x: Any, to: Any, orders: int) -> Any:
    if not e.has(x):
        return e
    if e.has(sympy.Piecewise):
        raise NoLimitError
    value = e.subs(x, to)
    if not value.has(sympy.nan, sympy.zoo, sympy.oo, -sympy.oo):
        return value
    if isinstance(e, sympy.Mul | sympy.Pow):
        top, bottom = sympy.fraction(e)
        if bottom.has(x):
            return _quotient(a, top, bottom, x, to, orders)
    if isinstance(e, sympy.Add):
        try:
            return sympy.Add(*(_limit_of(a, term, x, to, orders) for term in e.args))
        except NoLimitError:
            top, bottom = sympy.fraction(sympy.together(e))
            if bottom.has(x):
                return _quotient(a, top, bottom, x, to, orders)
            raise
    if isinstance(e, sympy.Pow | sympy.Mul | sympy.Function | sympy.exp | sympy.log):
        found = e.func(*(_limit_of(a, part, x, to, orders) for part in e.args))
        if not found.has(sympy.nan, sympy.zoo, sympy.oo, -sympy.oo):
            return found
    raise NoLimitError


def _quotient(a: Algebra, top: Any, bottom: Any, x: Any, to: Any, orders: int) -> Any:
    above, below = (_limit_of(a, part, x, to, orders) for part in (top, bottom))
    if not vanishes(a, below):
        return above / below
    if orders == 0 or not vanishes(a, above):
        raise NoLimitError
    top, bottom = sympy.diff(top, x), sympy.diff(bottom, x)
    return _limit_of(a, sympy.Mul(top, 1 / bottom, evaluate=False) if bottom != 1 else top, x, to, orders - 1)


def _never_negative(a: Algebra, e: Any, request: Mapping[str, Any]) -> bool:
    """A quotient of polynomials in positive numbers, all of whose coefficients have one sign."""
    groups = a.groups
    if len(groups) != 1 or e.has(sympy.Piecewise):
        return False
    (group,) = groups
    return _positive(e, group[:-1], {group[-1]: 1 - sympy.Add(*group[:-1])}) or vanishes(a, e)


_SHOWN = {"zero": _zero, "constant": _constant, "limit": _limit, "sign": _never_negative}


def proper(a: Algebra, losses: Sequence[Any]) -> bool:
    """Whether Σ q_y·l_y(p) is least at p = q, for all q: l_y(p) is H(p) + H'(p)·(e_y - p) for a concave H.

    (Savage, Elicitation of Personal Probabilities, 1971.) H is Σ p_y·l_y(p); that Σ p_y·l_y'(p) is 0 along the simplex
    makes the losses its tangents. Concavity: the leading minors of -H'' are never negative, by intervals.
    """
    (group,) = a.groups
    free, rest = group[:-1], 1 - sympy.Add(*group[:-1])
    told = [sympy.sympify(e).subs(group[-1], rest) for e in losses]
    weights = [*free, rest]
    for x in free:
        if not vanishes(a, sympy.Add(*(w * sympy.diff(e, x) for w, e in zip(weights, told, strict=True)))):
            return False
    entropy = sympy.Add(*(w * e for w, e in zip(weights, told, strict=True)))
    second = -sympy.hessian(entropy, free)
    return all(_positive(second[:k, :k].det(), free) for k in range(1, len(free) + 1))


def _positive(e: Any, free: Sequence[Any], last: Mapping[Any, Any] | None = None) -> bool:
    """Whether e > 0 wherever the symbols, and what they leave of 1, are positive.

    They are x/(x + … + r) for positive numbers x, r, in which e has a sign that sympy sees, or none of whose terms is
    negative.
    """
    e = sympy.cancel(sympy.together(sympy.powsimp(e.subs(last or {}))))
    numbers = {x: sympy.Symbol(f"{x.name}+", positive=True) for x in free}
    r = sympy.Symbol("r", positive=True)
    total = sympy.Add(*numbers.values(), r)
    scaled = e.subs({x: y / total for x, y in numbers.items()}, simultaneous=True)
    scaled = sympy.factor(sympy.cancel(sympy.together(scaled)))
    top, bottom = sympy.fraction(scaled)
    return bool(scaled.is_positive or (sympy.expand(top).is_positive and sympy.expand(bottom).is_positive))


def answers(requests: Sequence[Mapping[str, Any]], registry: Registry, timeout: float) -> Iterator[bool]:
    """Each request settled or not, in `timeout` seconds of computing; whatever sympy can't do is no proof."""
    for request in requests:
        try:
            with _clock(timeout):
                shown = settle(request, registry)
        except (_OutOfTimeError, NotWrittenError, NotImplementedError, ValueError, TypeError, KeyError):
            shown = False
        except (sympy.PolynomialError, RecursionError, ZeroDivisionError):
            shown = False
        yield shown


class _OutOfTimeError(Exception):
    """The clock has run out."""


@contextmanager
def _clock(seconds: float) -> Iterator[None]:
    """Raises _OutOfTimeError when this process has computed that long (without such a clock, the parent's runs)."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def ring(*_: object) -> None:
        raise _OutOfTimeError

    signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
