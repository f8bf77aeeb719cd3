"""The laws of every reduction: neutral element, merging, what comes out, and the gradient."""

from __future__ import annotations

import importlib
import math
import pkgutil
import random
from collections.abc import Sequence
from math import inf
from typing import Any

import mpmath
import numpy as np
import pytest

import lossdsl.reductions
from lossdsl.check.types import Type
from lossdsl.derive.derive import derive
from lossdsl.ir.builder import Builder
from lossdsl.ir.graph import Leaf
from lossdsl.ir.interpret import evaluate
from lossdsl.primitives.interval import Interval
from lossdsl.primitives.scan import load_primitives
from lossdsl.reductions.record import Reduction
from lossdsl.reductions.scan import load_reductions
from lossdsl.registry import Registry, base_registry
from tests.primitives.numbers import floor_namespace, mpmath_namespace

pytestmark = pytest.mark.filterwarnings("ignore:invalid value")  # inf - inf in a branch that is not taken
REDUCTIONS = load_reductions()
EXACT = mpmath_namespace(load_primitives())
FLOATS = floor_namespace(load_primitives(), np.float64)
SINGLE = floor_namespace(load_primitives(), np.float32)
ROWS: list[list[float]] = [
    [0.5, -1.25, 3.0, 2.0, 0.75, -4.0],
    [1.0, 3.0, 3.0, -2.0, 3.0],
    [-inf, 1.5, -inf, 0.25],
    [-inf, -inf],
    [inf, 2.0, 1.0],
    [0.0, 5.0, 0.0, -1.0],
    [0.0, 7.0],
    [2.5],
    [1000.0, 999.0, -1000.0],
]


def entries(name: str, row: Sequence[float], start: int = 0) -> list[Any]:
    """What `update` takes: values, of argmax with their indices."""
    return [(x, start + i) if name == "argmax" else x for i, x in enumerate(row)]


def state(f: Any, record: Reduction, row: Sequence[float], start: int = 0) -> tuple[Any, ...]:
    found: tuple[Any, ...] = record.init
    for x in entries(record.name, row, start):
        found = record.update(f, found, x)
    return found


def same(a: tuple[Any, ...], b: tuple[Any, ...], bound: float = 1e-100) -> bool:
    return len(a) == len(b) and all(
        (mpmath.isnan(x) and mpmath.isnan(y)) or x == y or abs(x - y) <= bound * max(abs(x), abs(y), 1)
        for x, y in zip(a, b, strict=True)
    )


def value(name: str, row: Sequence[float]) -> tuple[Any, ...]:
    """The results by their definition, at 110 digits."""
    real = [EXACT.call("real", x) for x in row]
    match name:
        case "sum":
            return (sum(real, EXACT.call("real", 0)),)
        case "prod":
            return (math.prod(real, start=EXACT.call("real", 1)),)
        case "max":
            return (max(real, default=-inf),)
        case "min":
            return (min(real, default=inf),)
        case "count":
            return (len(row),)
        case "argmax":
            return (row.index(max(row)),)
        case "ties":
            return max(real), row.count(max(row))
        case "logsumexp":
            m = max(real)
            others = list(real)
            others.remove(m)
            return m, sum(
                (EXACT.exp(x - m) if x != m else EXACT.call("real", 1) for x in others), EXACT.call("real", 0)
            )
    raise AssertionError(f"what is {name}?")


def test_a_file_holds_the_record_of_its_name() -> None:
    found = set()
    for module in pkgutil.iter_modules(lossdsl.reductions.__path__):
        record = getattr(importlib.import_module(f"lossdsl.reductions.{module.name}"), "RECORD", None)
        assert record is None or record.name == module.name
        found |= {record.name} if isinstance(record, Reduction) else set()
    assert found == set(REDUCTIONS)


@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_the_value(name: str, row: list[float]) -> None:
    record = REDUCTIONS[name]
    assert same(record.finish(EXACT, state(EXACT, record, row)), value(name, row))
    floats = record.finish(FLOATS, state(FLOATS, record, row))
    assert same(tuple(map(float, floats)), tuple(map(float, value(name, row))), 1e-14)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_nothing_is_neutral(name: str) -> None:
    record = REDUCTIONS[name]
    for row in ROWS:
        full = state(EXACT, record, row)
        assert same(record.merge(EXACT, record.init, full), full)
        assert same(record.merge(EXACT, full, record.init), full)
        one = state(FLOATS, record, row)
        for merged in (record.merge(FLOATS, record.init, one), record.merge(FLOATS, one, record.init)):
            assert [float(x) for x in merged] == [float(x) for x in one], "neutral to the last bit"


@pytest.mark.parametrize("name", REDUCTIONS)
def test_merging_splits(name: str) -> None:
    """Any split, and any order of merging, gives the state of the whole; one more entry is a merge with one."""
    record = REDUCTIONS[name]
    draw = random.Random(name)
    for row in ROWS * 4:
        cuts = sorted(draw.choices(range(len(row) + 1), k=3))
        bounds = list(zip([0, *cuts], [*cuts, len(row)], strict=True))
        parts = [state(EXACT, record, row[a:b], a) for a, b in bounds]
        draw.shuffle(parts)
        while len(parts) > 1:
            i = draw.randrange(len(parts) - 1)
            parts[i : i + 2] = [record.merge(EXACT, parts[i], parts[i + 1])]
        assert same(record.finish(EXACT, parts[0]), record.finish(EXACT, state(EXACT, record, row))), row
        head, last = state(EXACT, record, row[:-1]), state(EXACT, record, row[-1:], len(row) - 1)
        assert same(record.merge(EXACT, head, last), state(EXACT, record, row))


@pytest.mark.parametrize(
    ("name", "expected"), [("sum", 0), ("prod", 1), ("max", -inf), ("min", inf), ("count", 0), ("logsumexp", -inf)]
)
def test_over_nothing(name: str, expected: float) -> None:
    record = REDUCTIONS[name]
    assert record.empty == expected
    found = record.finish(EXACT, record.init)
    assert (found[0] + EXACT.log1p(found[1]) if name == "logsumexp" else found[0]) == expected


def test_rest_keeps_its_digits_in_float32() -> None:
    """The rest of [17, 0] is e^-17 in both orders, which 1 + e^-17 has lost."""
    for row in ([17.0, 0.0], [0.0, 17.0], [0.0, 17.0, -5.0]):
        m, rest = state(SINGLE, REDUCTIONS["logsumexp"], [np.float32(x) for x in row])
        expected = sum(math.exp(x - 17) for x in row if x != 17)
        assert float(m) == 17
        assert float(rest) == pytest.approx(expected, rel=2e-7)


SMOOTH = [[0.5, -1.25, 3.0, 2.0], [2.5], [0.0, 5.0, -1.0], [0.0, 5.0, 0.0], [1.0, -2.0]]


def adjoint(name: str, row: Sequence[float], cotangent: float) -> list[Any]:
    """The record's adjoint of each entry, with `reduce` by the record's own laws."""
    record = REDUCTIONS[name]
    assert record.adjoint is not None
    result = reduced(name, row)

    def with_body(i: int) -> Any:
        # The body of a nested reduction is a formula of x: run it at every entry.
        def reduce(inner: str, _: Any) -> Any:
            seen: list[Any] = []

            def spy(name: str, e: Any) -> Any:
                seen.append((name, e))
                return EXACT.call("real", 1)

            values = []
            for x in row:
                seen.clear()
                record.adjoint(EXACT, EXACT.call("real", x), result, 1, spy)  # type: ignore[misc]
                values.append(next(e for n, e in seen if n == inner))
            return reduced(inner, values)

        return record.adjoint(EXACT, EXACT.call("real", row[i]), result, cotangent, reduce)  # type: ignore[misc]

    return [with_body(i) for i in range(len(row))]


def reduced(name: str, row: Sequence[Any]) -> Any:
    found = REDUCTIONS[name].finish(EXACT, state(EXACT, REDUCTIONS[name], row))
    return found[0] + EXACT.log1p(found[1]) if name == "logsumexp" else found[0]


@pytest.mark.parametrize("row", SMOOTH, ids=str)
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "logsumexp"])
def test_adjoint(name: str, row: list[float]) -> None:
    step = mpmath.mpf(10) ** -30
    with mpmath.workdps(110):
        for i, given in enumerate(adjoint(name, row, 3.0)):
            up, down = ([x + s if k == i else EXACT.call("real", x) for k, x in enumerate(row)] for s in (step, -step))
            right = 3 * (reduced(name, up) - reduced(name, down)) / (2 * step)
            assert abs(given - right) <= 1e-25 * max(1, abs(right)), (i, given, right)


@pytest.mark.parametrize(
    ("name", "row", "expected"),
    [
        ("max", [1.0, 3.0, 3.0, 3.0], [0, 1 / 3, 1 / 3, 1 / 3]),
        ("min", [1.0, 3.0, 1.0], [0.5, 0, 0.5]),
        ("max", [-inf, -inf], [0.5, 0.5]),
        ("logsumexp", [-inf, 0.0], [0, 1]),
        ("logsumexp", [inf, 0.0], [1, 0]),
        ("prod", [0.0, 0.0, 3.0], [0, 0, 0]),
    ],
)
def test_adjoint_at_ties_and_ends(name: str, row: list[float], expected: list[float]) -> None:
    assert [float(x) for x in adjoint(name, row, 1.0)] == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("row", [*SMOOTH, [1.0, 3.0, 3.0]], ids=str)
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "logsumexp"])
def test_the_reverse_pass_agrees(name: str, row: list[float]) -> None:
    """The JointGraph of a bare reduction has the gradient that the record says."""
    b = Builder(base_registry(), name, ("N", "C"), ("N",))
    x = b.leaf(Leaf("x", ("N", "C"), Type(frozenset("NC")), "input", True))
    joint = derive(b.graph({"rows": b.reduce(name, ("C",), x)}), base_registry())
    leaves = {"x": np.array([row]), "@rows": np.array([3.0])}
    found = evaluate(joint, base_registry(), leaves, ["grad.x"], sizes={"N": 1, "C": len(row)})
    assert found["grad.x"][0] == pytest.approx([float(g) for g in adjoint(name, row, 3.0)], rel=1e-14, abs=1e-15)


def test_the_reverse_pass_takes_a_new_reduction_from_its_record() -> None:
    """A root of a sum of squares that no other module knows: its file alone makes it differentiable, masks included."""
    record = Reduction(
        name="length",
        doc="the root of the sum of squares",
        init=(0,),
        update=lambda f, s, x: (s[0] + x * x,),
        merge=lambda f, a, b: (a[0] + b[0],),
        finish=lambda f, s: (f.sqrt(s[0]),),
        empty=0.0,
        adjoint=lambda f, x, result, cotangent, reduce: cotangent * x / f.sqrt(reduce("sum", x * x)),
    )
    registry = Registry(load_primitives(), {**REDUCTIONS, "length": record})
    b = Builder(registry, "length", ("N", "C"), ("N",))
    x = b.leaf(Leaf("x", ("N", "C"), Type(frozenset("NC")), "input", True))
    first = b.node("lt", [b.index("C"), b.const(2)])
    joint = derive(b.graph({"rows": b.reduce("length", ("C",), x, first)}), registry)
    leaves = {"x": np.array([[3.0, -4.0, 7.0]]), "@rows": np.array([2.0])}
    found = evaluate(joint, registry, leaves, ["rows", "grad.x"])
    assert found["rows"] == pytest.approx([5.0])
    assert found["grad.x"][0] == pytest.approx([1.2, -1.6, 0.0])
    assert not joint.second_missing


@pytest.mark.parametrize("name", [name for name, record in REDUCTIONS.items() if record.range is not None])
def test_range(name: str) -> None:
    record = REDUCTIONS[name]
    assert record.range is not None
    draw = random.Random(name)
    ends = (-inf, -3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, inf)
    for _ in range(300):
        low, high = sorted(draw.sample(ends, 2))
        body = Interval(low, high)
        found = record.range(body)
        inside = [x for x in ends if x in body] + [draw.uniform(max(low, -9), min(high, 9)) for _ in range(3)]
        row = [draw.choice(inside) for _ in range(draw.randrange(5))]
        if not row and name == "argmax":
            continue
        result = reduced(name, row)
        if not mpmath.isnan(result):
            assert result in found, f"{name} of {row} is {result}, not in {found}"


def test_a_wrong_merge_is_noticed() -> None:
    """The law above can fail: a merge that forgets to rescale the smaller side's rest."""
    right = REDUCTIONS["logsumexp"]

    def merge(f: Any, a: Any, b: Any) -> tuple[Any, Any]:
        return f.maximum(a[0], b[0]), a[1] + b[1] + 1

    row = ROWS[0]
    whole = state(EXACT, right, row)
    assert not same(merge(EXACT, state(EXACT, right, row[:3]), state(EXACT, right, row[3:])), whole)
