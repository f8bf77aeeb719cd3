"""sympy's side of the primitives: their exact forms as expressions, and what sympy derives from them.

    python -m lossdsl.derive.symbolic --write      regenerates `lossdsl/primitives/table.py`

sympy rewrites what it builds, and its derivatives lose digits; so nothing here is ever evaluated in a kernel. It
derives the partial derivatives that a record leaves to it, and proves those that a record declares.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from math import isfinite, isnan
from pathlib import Path
from typing import Any

import sympy

from lossdsl.primitives.record import Primitive


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


def _round(x: Any) -> Any:
    x = number(x)
    if x.is_number:
        return sympy.Integer(round(Fraction(str(sympy.Rational(x)))))
    return sympy.Function("round")(x)


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
    "floor": _of(sympy.floor),
    "round": _round,
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
        symbols, partials = derived(replace(record), primitives)
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
