"""The partial derivatives of records: sympy's own, and the proof of those that a record declares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from typing import Any

import sympy

from lossdsl.derive.symbolic.terms import Symbolic, number
from lossdsl.ir.arithmetic import Arithmetic, Formulas, Operand, scalar_array
from lossdsl.ir.digits import multiprecision
from lossdsl.primitives.record import Primitive
from lossdsl.registry import Registry


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
    plain = sympy.expand(plain.rewrite(sympy.exp))
    # Bases of powers and arguments of logs in one form, so that (1 - p)^g and ((e2 + e3)/s)^g become one thing.
    plain = plain.replace(_is_power, lambda e: sympy.Pow(_quotient(e.base), e.exp)).replace(
        lambda e: isinstance(e, sympy.log), lambda e: sympy.log(_quotient(e.args[0]))
    )
    return bool(sympy.cancel(sympy.together(sympy.expand_power_exp(plain))) == 0)


def _is_power(e: Any) -> bool:
    return isinstance(e, sympy.Pow) and not e.exp.is_Integer and not e.base.is_Symbol


def _quotient(e: Any) -> Any:
    return sympy.cancel(sympy.together(e))
