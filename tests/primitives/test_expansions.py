"""Expansions over the floor alone, in float64 and float32, against 110 digits."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from lossdsl.primitives.record import Primitive
from lossdsl.primitives.scan import load_primitives
from tests.primitives.numbers import floor_namespace, mpmath_namespace

PRIMITIVES = load_primitives()
EXPANDED = [name for name, record in PRIMITIVES.items() if record.expand is not None]
REFERENCE = mpmath_namespace(PRIMITIVES)
UNIT = {np.float32: 2.0**-24, np.float64: 2.0**-53}
CANCELS = ("logaddexp", "mod")  # zeros away from 0, where a rounding of the arguments is as large as the value
SMALLEST = {np.float32: 1.2e-38, np.float64: 2.3e-308}


def arguments(record: Primitive, dtype: type) -> list[tuple[float, ...]]:
    """The record's samples and random points of its domain, as numbers of the dtype."""
    draw = random.Random(record.name)
    points = list(record.samples)
    for _ in range(200):
        point = []
        for i in range(record.arity):
            x = draw.choice([draw.uniform(-1, 1), draw.gauss(0, 20), draw.choice([-1, 1]) * 10 ** draw.uniform(-9, 2)])
            if record.domain and x not in record.domain[i]:
                x = -x if -x in record.domain[i] else draw.uniform(-1, 1)
            point.append(x)
        points.append(tuple(point))
    return [tuple(float(dtype(x)) for x in point) for point in points]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", [name for name in EXPANDED if not PRIMITIVES[name].rounding])
def test_against_110_digits(name: str, dtype: type) -> None:
    record = PRIMITIVES[name]
    assert record.expand is not None
    numbers = floor_namespace(PRIMITIVES, dtype)
    worst = 0.0
    for point in arguments(record, dtype):
        exact = REFERENCE.call(name, *point)
        if isinstance(exact, bool):
            assert bool(numbers.call(name, *(dtype(x) for x in point))) == exact, point
            continue
        with np.errstate(all="ignore"):
            given = mpmath.mpf(float(numbers.call(name, *(dtype(x) for x in point))))
        if mpmath.isnan(exact) or mpmath.isinf(exact):
            assert math.isnan(given) if mpmath.isnan(exact) else given == exact, point
            continue
        if abs(exact) > np.finfo(dtype).max:
            continue
        size = max(abs(exact), SMALLEST[dtype])
        if name in CANCELS:
            size += sum(abs(x * p) for x, p in zip(point, record.partials(REFERENCE, *point), strict=True))  # type: ignore[misc]
        ulps = float(abs(given - exact) / (size * UNIT[dtype]))
        worst = max(worst, ulps)
        assert ulps <= 2 * record.ulp, (point, float(given), float(exact), ulps)
    print(f"{name}: {worst / 2:.2f} ulp")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_rounding_drops_of_a_difference(dtype: type) -> None:
    record = PRIMITIVES["sub_error"]
    numbers = floor_namespace(PRIMITIVES, dtype)
    lost = 0
    for x, y in arguments(record, dtype):
        error = float(numbers.call("sub_error", dtype(x), dtype(y)))
        rounded = float(dtype(x) - dtype(y))
        assert Fraction(rounded) + Fraction(error) == Fraction(x) - Fraction(y)
        lost += error != 0
    assert lost > 50


@pytest.mark.parametrize(
    ("name", "point", "expected"),
    [
        ("sigmoid", (-math.inf,), 0),
        ("sigmoid", (math.inf,), 1),
        ("softplus", (-math.inf,), 0),
        ("softplus", (math.inf,), math.inf),
        ("tanh", (-math.inf,), -1),
        ("log1p", (-1,), -math.inf),
        ("log1p", (math.inf,), math.inf),
        ("expm1", (-math.inf,), -1),
        ("expm1", (math.inf,), math.inf),
        ("log1mexp", (0,), -math.inf),
        ("log1mexp", (-math.inf,), 0),
        ("logaddexp", (-math.inf, -math.inf), -math.inf),
        ("logaddexp", (math.inf, 1), math.inf),
        ("logaddexp", (-math.inf, 1), 1),
        ("mulz", (0, math.inf), 0),
        ("mulz", (-math.inf, 0), 0),
        ("acos", (1,), 0),
        ("acos", (-1,), math.pi),
        ("asin", (1,), math.pi / 2),
        ("isfinite", (math.inf,), False),
        ("isfinite", (math.nan,), False),
    ],
)
def test_ends(name: str, point: tuple[float, ...], expected: float) -> None:
    with np.errstate(all="ignore"):
        given = floor_namespace(PRIMITIVES, np.float64).call(name, *(np.float64(x) for x in point))
    assert float(given) == expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_cosine_that_rounding_carries_beyond_one(dtype: type) -> None:
    numbers = floor_namespace(PRIMITIVES, dtype)
    above = np.nextafter(dtype(1), dtype(2))
    for x, expected in ((above, 1), (-above, -1), (dtype(0.25), 0.25), (dtype(-1), -1)):
        assert float(numbers.call("within_unit", x)) == expected
