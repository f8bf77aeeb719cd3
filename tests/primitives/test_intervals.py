"""The range of every record holds every value that it takes on intervals drawn at random."""

from __future__ import annotations

import random
from math import inf, nan

import mpmath
import pytest

from lossdsl.primitives.interval import FINITE, REALS, UNIT, Interval, add, mul, power, reciprocal
from lossdsl.primitives.scan import load_primitives
from tests.primitives.numbers import mpmath_namespace

PRIMITIVES = load_primitives()
REFERENCE = mpmath_namespace(PRIMITIVES)
BOUNDED = (  # at large arguments these are slow, or rounded away, at 110 digits
    *("mod", "lgamma", "digamma", "trigamma", "tetragamma", "exp", "expm1", "expm1mx", "expsub", "log1mexp", "pow"),
    *("sin", "cos", "tan", "divergence"),
)
ENDS = (-inf, -1e30, -40.0, -3.0, -1.0, -0.3, -1e-30, 0.0, 1e-20, 0.1, 0.5, 1.0, 2.0, 7.5, 800.0, 1e30, inf)


def interval(draw: random.Random, within: Interval) -> Interval:
    """A random interval inside `within`, with more than one value unless closed."""
    ends = [x for x in ENDS if x in within]
    low, high = sorted((draw.choice(ends), draw.choice(ends)))
    if low == high:
        return Interval(low, high)
    return Interval(low, high, draw.random() < 0.4, draw.random() < 0.4)


def member(draw: random.Random, a: Interval) -> float:
    candidates = [x for x in (a.low, a.high, *ENDS) if x in a]
    low, high = max(a.low, -50.0), min(a.high, 50.0)
    between = draw.uniform(low, high) if low < high else nan
    return draw.choice(candidates) if candidates and (draw.random() < 0.6 or between not in a) else between


@pytest.mark.parametrize("name", [name for name, record in PRIMITIVES.items() if not record.rounding])
def test_range(name: str) -> None:
    record = PRIMITIVES[name]
    draw = random.Random(name)
    whole = Interval(0.0, 1.0)
    for _ in range(600):
        conditions = [record.argument_kind == "bool" or (name == "select" and i == 0) for i in range(record.arity)]
        domains = record.domain or (REALS,) * record.arity
        within = [whole if c else d for c, d in zip(conditions, domains, strict=True)]
        boxes = [
            draw.choice([whole, Interval(0, 0), Interval(1, 1)]) if c else interval(draw, d)
            for c, d in zip(conditions, within, strict=True)
        ]
        found = record.range(*boxes)
        for _ in range(4):
            point = [
                draw.choice([x for x in (0.0, 1.0) if x in b]) if c else member(draw, b)
                for c, b in zip(conditions, boxes, strict=True)
            ]
            if any(x != x or (abs(x) > 1000 and name in BOUNDED) for x in point):
                continue
            value = REFERENCE.call(name, *point)
            if isinstance(value, bool) or not mpmath.isnan(value):
                # An open end that isn't 0 or infinite may be met by rounding to 110 digits: tanh(800).
                rounded = value not in (0, inf, -inf)
                above = value > found.low or (value == found.low and (rounded or not found.low_open))
                below = value < found.high or (value == found.high and (rounded or not found.high_open))
                assert above, f"{name}{point} = {value}, not in {found} of {[str(b) for b in boxes]}"
                assert below, f"{name}{point} = {value}, not in {found} of {[str(b) for b in boxes]}"


def test_sharpness() -> None:
    """What proofs and guarded products rely on, and no wider."""
    one_less = PRIMITIVES["sub"].range(Interval(1.0, 1.0), UNIT)
    assert one_less == UNIT
    assert mul(UNIT, UNIT) == UNIT
    assert mul(UNIT, FINITE) == FINITE
    assert str(add(UNIT, FINITE)) == "(-inf, inf)"
    assert str(PRIMITIVES["exp"].range(Interval(-inf, 0.0))) == "[0, 1]"
    assert str(PRIMITIVES["exp"].range(FINITE)) == "(0, inf)"
    assert str(PRIMITIVES["log"].range(UNIT)) == "[-inf, 0]"
    assert str(PRIMITIVES["sqrt"].range(UNIT)) == "[0, 1]"
    assert str(PRIMITIVES["softplus"].range(FINITE)) == "(0, inf)"
    assert str(reciprocal(Interval(1.0, inf))) == "[0, 1]"
    assert str(reciprocal(Interval(0.0, inf, low_open=True))) == "[0, inf)"
    assert str(power(UNIT, Interval(2.0, 2.0))) == "[0, 1]"
    assert str(power(UNIT, Interval(0.0, inf, True))) == "[0, 1]"
    assert str(power(Interval(-3.0, 2.0), Interval(2.0, 2.0)))[0:3] == "[0,"
    assert PRIMITIVES["lt"].range(Interval(0.0, 1.0), Interval(2.0, 3.0)) == Interval(1.0, 1.0)
    assert not mul(FINITE, FINITE).high > inf
    assert mul(FINITE, FINITE).finite
