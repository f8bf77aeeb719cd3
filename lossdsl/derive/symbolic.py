"""sympy's side of the primitives: their exact forms as expressions, and what sympy derives from them.

    python -m lossdsl.derive.symbolic --write      regenerates `lossdsl/primitives/table.py`

sympy rewrites what it builds, and its derivatives lose digits; so nothing here is ever evaluated in a kernel. It
derives the partial derivatives that a record leaves to it, and proves those that a record declares.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite, isnan
from pathlib import Path
from typing import Any

import sympy

from lossdsl.ir.arithmetic import Arithmetic, Formulas, Operand, scalar_array
from lossdsl.ir.digits import multiprecision
from lossdsl.primitives.record import Primitive
from lossdsl.registry import Registry


def lift(x: Any) -> Any:
    """A Python number as sympy's, exactly; expressions as they are."""
    if isinstance(x, bool):
        return sympy.true if x else sympy.false
    if isinstance(x, Fraction):
        return sympy.Rational(x.numerator, x.denominator)
    if isinstance(x, float):
        if isnan(x):
            return sympy.nan
        return sympy.Rational(Fraction(x).numerator, Fraction(x).denominator) if isfinite(x) else sympy.sympify(x)
    return sympy.sympify(x)


def number(x: Any) -> Any:
    """x as a number: a condition is 1 where it holds."""
    x = lift(x)
    if x in (sympy.true, sympy.false):
        return sympy.Integer(x == sympy.true)
    return sympy.Piecewise((1, x), (0, True)) if is_condition(x) else x


def is_condition(x: Any) -> bool:
    """Whether an expression is true or false; symbols, which sympy counts among its Booleans, are numbers here."""
    return isinstance(x, sympy.logic.boolalg.Boolean) and not isinstance(x, sympy.Symbol)


def truth(x: Any) -> Any:
    """x as a condition: a number holds where it isn't 0."""
    x = lift(x)
    return x if is_condition(x) else sympy.Ne(x, 0)


def _select(c: Any, a: Any, b: Any) -> Any:
    return sympy.Piecewise((number(a), truth(c)), (number(b), True))


class Floor(sympy.Function):  # type: ignore[misc]
    """The floor, with derivative 0 everywhere: sympy's own leaves the derivative unevaluated."""

    @classmethod
    def eval(cls, x: Any) -> Any:
        return sympy.floor(x) if x.is_number else None

    def fdiff(self, argindex: int = 1) -> Any:
        return sympy.Integer(0)


class Round(sympy.Function):  # type: ignore[misc]
    """The nearest whole number, halves to the even one; derivative 0 everywhere."""

    @classmethod
    def eval(cls, x: Any) -> Any:
        return sympy.Integer(round(Fraction(str(sympy.nsimplify(x, rational=True))))) if x.is_number else None

    def fdiff(self, argindex: int = 1) -> Any:
        return sympy.Integer(0)


def _of(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: function(*(number(x) for x in arguments))


def _conditions(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: function(*(truth(x) for x in arguments))


TABLE: Mapping[str, Callable[..., Any]] = {
    "add": _of(lambda x, y: x + y),
    "sub": _of(lambda x, y: x - y),
    "mul": _of(lambda x, y: x * y),
    "div": _of(lambda x, y: x / y),
    "neg": _of(lambda x: -x),
    "pow": _of(lambda x, y: x**y),
    "exp": _of(sympy.exp),
    "log": _of(sympy.log),
    "sqrt": _of(sympy.sqrt),
    "abs": _of(sympy.Abs),
    "sign": _of(sympy.sign),
    "sin": _of(sympy.sin),
    "cos": _of(sympy.cos),
    "tan": _of(sympy.tan),
    "acos": _of(sympy.acos),
    "asin": _of(sympy.asin),
    "atan": _of(sympy.atan),
    "erf": _of(sympy.erf),
    "lgamma": _of(sympy.loggamma),
    "digamma": _of(lambda x: sympy.polygamma(0, x)),
    "trigamma": _of(lambda x: sympy.polygamma(1, x)),
    "tetragamma": _of(lambda x: sympy.polygamma(2, x)),
    "floor": _of(Floor),
    "round": _of(Round),
    "minimum": lambda x, y: _select(sympy.Le(number(x), number(y)), x, y),
    "maximum": lambda x, y: _select(sympy.Ge(number(x), number(y)), x, y),
    "select": _select,
    "eq": _of(sympy.Eq),
    "ne": _of(sympy.Ne),
    "lt": _of(sympy.Lt),
    "le": _of(sympy.Le),
    "gt": _of(sympy.Gt),
    "ge": _of(sympy.Ge),
    "and": _conditions(sympy.And),
    "or": _conditions(sympy.Or),
    "not": _conditions(sympy.Not),
    "isfinite": lambda x: sympy.true,
}


class Symbolic:
    """The namespace in which a record's formula becomes a sympy expression."""

    __slots__ = ("_primitives",)

    def __init__(self, primitives: Mapping[str, Primitive]) -> None:
        self._primitives = primitives

    def call(self, name: str, *arguments: Any) -> Any:
        """The primitive as an expression: its exact form where the record gives one."""
        record = self._primitives.get(name)
        if record is not None and record.exact is not None:
            return lift(record.exact(self, *(number(x) for x in arguments)))
        if name in TABLE:
            return TABLE[name](*arguments)
        if record is None or record.expand is None:
            raise KeyError(f"{name} has no exact form")
        return lift(record.expand(self, *(number(x) for x in arguments)))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *arguments: self.call(name, *arguments)


# --- derivatives -----------------------------------------------------------------------------------------------------


def derived(record: Primitive, primitives: Mapping[str, Primitive]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The arguments as symbols, and sympy's derivative of the exact form in each."""
    symbols = sympy.symbols(f"x:{record.arity}", real=True)
    exact = number(Symbolic(primitives).call(record.name, *symbols))
    return symbols, tuple(sympy.diff(exact, x) for x in symbols)


@dataclass(frozen=True, slots=True)
class PartialProof:
    """What became of one partial derivative of a record.

    status   "proved" (sympy reduces the difference to 0), "held" (equal at `points` points to 50 digits, or to float64
             where the formula has a rounded constant), "refuted" (`detail` is the point and both values)
    """

    status: str
    points: int = 0
    detail: str = ""


DIGITS = 50
AGREE = 10.0**-40  # relative, of 50 digits
AGREE_ROUNDED = 4 * 2.0**-53  # where a constant such as 2/sqrt(pi) is a float


def prove_partials(record: Primitive, primitives: Mapping[str, Primitive]) -> tuple[PartialProof, ...]:
    """Compares a record's partial derivatives (declared, or from the table) with sympy's of its exact form.

    At the record's samples they are compared as numbers: sympy's derivative at 50 digits against the formula run over
    mpmath. Where they agree, sympy is asked once whether the difference is 0.
    """
    if record.partials is None:
        return ()
    symbols, expected = derived(record, primitives)
    numbers = multiprecision()
    proofs = []
    for i, derivative in enumerate(expected):
        if record.name == "select" and i == 0:  # the condition is no real argument
            proofs.append(PartialProof("proved"))
            continue
        proofs.append(_prove_partial(record, i, symbols, derivative, numbers, primitives))
    return tuple(proofs)


def _prove_partial(
    record: Primitive,
    i: int,
    symbols: tuple[Any, ...],
    derivative: Any,
    numbers: Arithmetic,
    primitives: Mapping[str, Primitive],
) -> PartialProof:
    assert record.partials is not None
    said = number(record.partials(Symbolic(primitives), *symbols)[i])
    rounded = _has_rounded_constant(said)
    for point in record.samples:
        # Many digits: sympy's own form may cancel (tanh' as 1 - tanh²).
        at = {s: sympy.Float(x, 4 * DIGITS) for s, x in zip(symbols, point, strict=True)}
        right = derivative.subs(at, simultaneous=True).evalf(4 * DIGITS)
        given = sympy.sympify(_said(record, i, point, numbers, primitives))
        if not _agree(given, right, AGREE_ROUNDED if rounded else AGREE):
            return PartialProof("refuted", 0, f"{point}: {given} is said, {right} is right")
    if closes(said - derivative):
        return PartialProof("proved", len(record.samples))
    return PartialProof("held", len(record.samples))


def _said(
    record: Primitive, i: int, point: tuple[float, ...], numbers: Arithmetic, primitives: Mapping[str, Primitive]
) -> Any:
    """The partial derivative as the record's formula gives it, in high precision."""
    assert record.partials is not None
    f = Formulas(numbers, Registry(primitives, {}))
    arguments = (Operand(f, numbers.real(scalar_array(numbers, Fraction(x) if isfinite(x) else x))) for x in point)
    return numbers.real(f.array(record.partials(f, *arguments)[i])).item()


def _agree(a: Any, b: Any, bound: float) -> bool:
    if not (a.is_finite and b.is_finite):
        return bool(a == b)
    return bool(abs(a - b) <= bound * max(abs(a), abs(b)))


def _has_rounded_constant(e: Any) -> bool:
    """Whether it holds a number with so many digits that it can only be the rounding of another."""
    return bool(e.atoms(sympy.Float)) or any(x.q > 2**20 for x in e.atoms(sympy.Rational))


def closes(difference: Any) -> bool:
    """Whether sympy reduces it to 0 by quick means: no `simplify`, which may take minutes."""
    if difference == 0:
        return True
    plain = sympy.piecewise_fold(difference) if difference.has(sympy.Piecewise) else difference
    if plain == 0:
        return True
    if plain.has(sympy.Piecewise):
        return False
    return bool(sympy.cancel(sympy.together(sympy.expand(plain.rewrite(sympy.exp)))) == 0)


class UnprintableError(Exception):
    """An expression that no formula over primitives says."""


_FUNCTIONS = {
    sympy.exp: "exp",
    sympy.log: "log",
    sympy.sin: "sin",
    sympy.cos: "cos",
    sympy.tan: "tan",
    sympy.atan: "atan",
    sympy.erf: "erf",
    sympy.Abs: "abs",
    sympy.sign: "sign",
}
_POLYGAMMA = {0: "digamma", 1: "trigamma", 2: "tetragamma"}
_SUM, _PRODUCT, _ATOM = range(3)  # how tightly a piece of text binds


def formula(e: Any) -> str:
    """The expression as Python text over a namespace `f` and its symbols' names; UnprintableError if there is none."""
    return _text(sympy.sympify(e))[0]


def _text(e: Any) -> tuple[str, int]:
    if e.is_Symbol:
        return str(e), _ATOM
    if e.is_Integer:
        return str(e), _ATOM if e >= 0 else _SUM
    if e.is_number:
        return repr(float(e)), _ATOM if e >= 0 else _SUM
    if e.is_Add:
        first, *rest = e.as_ordered_terms()
        text = _text(first)[0]
        for term in rest:
            minus = term.could_extract_minus_sign()
            text += f" {'-' if minus else '+'} {_at_least(-term if minus else term, _PRODUCT)}"
        return text, _SUM
    if e.is_Mul or (e.is_Pow and e.exp.is_negative):
        return _product(e)
    if e.is_Pow:
        if e.exp == sympy.Rational(1, 2):
            return f"f.sqrt({_text(e.base)[0]})", _ATOM
        if e.exp == 2:
            return f"{_at_least(e.base, _ATOM)} * {_at_least(e.base, _ATOM)}", _PRODUCT
        return f"f.pow({_text(e.base)[0]}, {_text(e.exp)[0]})", _ATOM
    if isinstance(e, sympy.polygamma) and e.args[0].is_Integer and int(e.args[0]) in _POLYGAMMA:
        return f"f.{_POLYGAMMA[int(e.args[0])]}({_text(e.args[1])[0]})", _ATOM
    name = _FUNCTIONS.get(e.func)
    if name is None:
        raise UnprintableError(str(e))
    return f"f.{name}({_text(e.args[0])[0]})", _ATOM


def _product(e: Any) -> tuple[str, int]:
    if e.could_extract_minus_sign():
        return f"-{_at_least(-e, _PRODUCT)}", _SUM
    above, below = sympy.fraction(e, exact=True)
    constant, factors = above.as_coeff_mul()
    scale = constant * sympy.Mul(*(x for x in factors if x.is_number))
    under, below = below.as_independent(*below.free_symbols, as_Add=False)
    if not under.is_Integer:  # 2/sqrt(pi) is one number
        scale, under = scale / under, sympy.Integer(1)
    parts = [_at_least(x, _PRODUCT) for x in factors if not x.is_number]
    if scale != 1 or not parts:
        parts.insert(0, _text(scale)[0])
    text = " * ".join(parts)
    if under != 1:
        bottom = f"({_text(under * below)[0]})" if below != 1 else _text(under)[0]
        return f"{text} / {bottom}", _PRODUCT
    return (f"{text} / {_at_least(below, _ATOM)}" if below != 1 else text), _PRODUCT


def _at_least(e: Any, level: int) -> str:
    text, binds = _text(e)
    return text if binds >= level else f"({text})"


def table_text(primitives: Mapping[str, Primitive]) -> str:
    """The text of `primitives/table.py`: sympy's derivatives for the records that declare none.

    A primitive whose derivative is no primitive (that of tetragamma) is left out: asking for it is an error.
    """
    lines = []
    for name, record in primitives.items():
        if record.partials is not None or record.kind in ("bool", "int"):
            continue
        symbols, partials = derived(record, primitives)
        try:
            body = ", ".join(formula(p) for p in partials)
        except UnprintableError:
            continue
        comma = "," if record.arity == 1 else ""
        lines.append(f'    "{name}": lambda f, {", ".join(map(str, symbols))}: ({body}{comma}),\n')
    return _HEADER + "".join(lines) + "}\n"


_HEADER = '''"""Partial derivatives that sympy derived from the exact forms of records that declare none.

Generated by `python -m lossdsl.derive.symbolic --write`; a test compares.
"""

from __future__ import annotations

from lossdsl.primitives.record import Formulas

TABLE: dict[str, Formulas] = {
'''


def main(arguments: list[str]) -> int:
    """Prints the table, or writes it with --write."""
    import lossdsl.primitives
    from lossdsl.primitives.scan import declared_primitives

    text = table_text(declared_primitives())
    if "--write" in arguments:
        Path(lossdsl.primitives.__path__[0], "table.py").write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
