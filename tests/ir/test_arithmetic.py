"""The two arithmetics of the interpreters: float64 against 110 digits at every record's samples, and at the edges."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from lossdsl.ir.arithmetic import call, scalar_array
from lossdsl.ir.digits import multiprecision
from lossdsl.ir.floats import float64
from lossdsl.primitives.scan import load_primitives
from lossdsl.reductions.scan import load_reductions
from lossdsl.registry import Registry

REGISTRY = Registry(load_primitives(), load_reductions())
INF, NAN = math.inf, math.nan


@pytest.mark.parametrize("name", sorted(REGISTRY.primitives))
def test_float64_is_within_a_few_ulp_of_the_digits(name: str) -> None:
    record = REGISTRY.primitives[name]
    assert record.samples
    for sample in record.samples:
        args = [np.asarray(x) for x in sample]
        with np.errstate(all="ignore"):
            rounded = float(call(float64(), REGISTRY, name, args))
            exact = float(call(multiprecision(), REGISTRY, name, args))
        assert rounded == pytest.approx(exact, rel=16 * record.ulp * 2.0**-52, abs=0, nan_ok=True), sample


@pytest.mark.parametrize(
    ("name", "args", "want"),
    [
        ("mulz", (0.0, INF), 0),
        ("mulz", (-INF, 0.0), 0),
        ("mulz", (0.0, NAN), 0),
        ("mul", (0.0, INF), NAN),
        ("div", (1.0, 0.0), INF),
        ("div", (-1.0, 0.0), -INF),
        ("div", (0.0, 0.0), NAN),
        ("exp", (-INF,), 0),
        ("exp", (INF,), INF),
        ("log", (0.0,), -INF),
        ("log", (-1.0,), NAN),
        ("sqrt", (-1.0,), NAN),
        ("log1p", (-1.0,), -INF),
        ("expm1", (-INF,), -1),
        ("pow", (0.0, 0.0), 1),
        ("pow", (0.0, 2.5), 0),
        ("pow", (0.0, -1.0), INF),
        ("pow", (-2.0, 3.0), -8),
        ("pow", (-8.0, 1 / 3), NAN),
        ("pow", (0.5, INF), 0),
        ("pow", (INF, -2.0), 0),
        ("acos", (2.0,), NAN),
        ("sin", (INF,), NAN),
        ("maximum", (INF, 1.0), INF),
        ("round", (2.5,), 2),
        ("floor", (-0.5,), -1),
        ("softplus", (-INF,), 0),
        ("sigmoid", (INF,), 1),
        ("eq", (NAN, NAN), 0),
        ("ne", (NAN, NAN), 1),
        ("lt", (-INF, INF), 1),
    ],
)
@pytest.mark.parametrize("arithmetic", [float64(), multiprecision()], ids=lambda a: a.name)
def test_edges(arithmetic: object, name: str, args: tuple[float, ...], want: float) -> None:
    a = float64() if arithmetic is float64() else multiprecision()
    with np.errstate(all="ignore"):
        assert float(call(a, REGISTRY, name, [np.asarray(x) for x in args])) == pytest.approx(want, nan_ok=True)


def test_whole_numbers_and_bools_stay_what_they_are() -> None:
    for a in (float64(), multiprecision()):
        two, yes = scalar_array(a, 2), scalar_array(a, True)
        assert call(a, REGISTRY, "add", [two, yes]).dtype == np.int64
        assert call(a, REGISTRY, "mul", [yes, yes]).dtype == np.int64
        assert call(a, REGISTRY, "and", [yes, yes]).dtype == bool
        assert call(a, REGISTRY, "select", [yes, two, scalar_array(a, Fraction(1, 2))]).dtype.kind in "fO"


def test_pi_is_pi_and_decimals_are_exact() -> None:
    a = multiprecision()
    assert str(scalar_array(a, math.pi)[()]).startswith("3.14159265358979323846264338327950288419716939937510")
    assert str(scalar_array(a, Fraction(math.pi))[()]).startswith("3.1415926535897932384626433832795028841971693993")
    assert scalar_array(a, Fraction(1, 10))[()] * 10 == 1
