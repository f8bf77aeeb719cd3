"""Partial derivatives: each proved against sympy's, the conventions at kinks, and no lost digits in float32."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import mpmath
import numpy as np
import pytest

from lossdsl.derive.symbolic.partials import prove_partials
from lossdsl.derive.symbolic.table import table_text
from lossdsl.primitives import table
from lossdsl.primitives.scan import declared_primitives, load_primitives
from tests.primitives.numbers import floor_namespace, mpmath_namespace

PRIMITIVES = load_primitives()
DIFFERENTIABLE = [name for name, record in PRIMITIVES.items() if record.partials is not None]
REFERENCE = mpmath_namespace(PRIMITIVES)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_proved(name: str) -> None:
    record = PRIMITIVES[name]
    proofs = prove_partials(record, PRIMITIVES)
    assert len(proofs) == record.arity
    assert not [proof.detail for proof in proofs if proof.status not in ("proved", "held")]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_a_wrong_one_is_refuted(name: str) -> None:
    """Each partial derivative but a little too large, in turn: the proof must see every one."""
    record = PRIMITIVES[name]
    assert record.partials is not None
    for i in range(name == "select", record.arity):

        def wrong(f: Any, *xs: Any, i: int = i) -> tuple[Any, ...]:
            right = record.partials(f, *xs)  # type: ignore[misc]
            return tuple(p + f.div(1, 1000000) if k == i else p for k, p in enumerate(right))

        proofs = prove_partials(replace(record, partials=wrong), PRIMITIVES)
        assert [k for k, proof in enumerate(proofs) if proof.status == "refuted"] == [i]


def test_a_sign_error_is_refuted() -> None:
    planted = replace(PRIMITIVES["tanh"], partials=lambda f, x: (-4 * f.sigmoid(2 * x) * f.sigmoid(-2 * x),))
    (proof,) = prove_partials(planted, PRIMITIVES)
    assert proof.status == "refuted"
    assert "is right" in proof.detail


def test_the_table_is_what_sympy_says() -> None:
    with open(table.__file__, encoding="utf-8") as file:
        assert file.read() == table_text(declared_primitives()), "python -m lossdsl.derive.symbolic --write"


def partials(name: str, *point: float) -> list[float]:
    formulas = PRIMITIVES[name].partials
    assert formulas is not None
    return [float(p) for p in formulas(REFERENCE, *(REFERENCE.call("real", x) for x in point))]


@pytest.mark.parametrize(
    ("name", "point", "expected"),
    [
        ("relu", (0,), [0]),
        ("abs", (0,), [0]),
        ("sign", (0,), [0]),
        ("maximum", (1, 1), [0.5, 0.5]),
        ("minimum", (1, 1), [0.5, 0.5]),
        ("maximum", (-inf, -inf), [0.5, 0.5]),
        ("clip", (0, 0, 1), [1, 0, 0]),
        ("clip", (1, 0, 1), [1, 0, 0]),
        ("clip", (-1, 0, 1), [0, 1, 0]),
        ("clip", (2, 0, 1), [0, 0, 1]),
        ("clip", (0.5, 2, 1), [0, 0, 1]),
        ("pow", (0, 0), [0, -inf]),
        ("pow", (0, 2), [0, 0]),
        ("pow", (0, 1), [1, 0]),
        ("logaddexp", (-inf, -inf), [0.5, 0.5]),
        ("logaddexp", (-inf, 1), [0, 1]),
        ("log1mexp", (-inf,), [0]),
        ("softplus", (inf,), [1]),
        ("mod", (5.5, 2), [1, -2]),
    ],
)
def test_conventions(name: str, point: tuple[float, ...], expected: list[float]) -> None:
    assert partials(name, *point) == expected


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_no_digits_are_lost_in_float32(name: str) -> None:
    """The formulas over the floor in float32, against 110 digits at the same float32 arguments."""
    record = PRIMITIVES[name]
    assert record.partials is not None
    single = floor_namespace(PRIMITIVES, np.float32)
    for point in record.samples:
        xs = [np.float32(x) for x in point]
        with np.errstate(all="ignore"):
            given = record.partials(single, *xs)
        exact = record.partials(REFERENCE, *(REFERENCE.call("real", float(x)) for x in xs))
        for g, e in zip(given, exact, strict=True):
            if not mpmath.isfinite(e) or abs(e) < 1e-37 or abs(e) > 3e38:
                continue
            ulps = abs(mpmath.mpf(float(g)) - e) / (abs(e) * 2.0**-24)
            assert ulps < 12, (name, point, float(g), float(e))
