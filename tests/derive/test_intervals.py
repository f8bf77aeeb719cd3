"""Enclosures hold what they must, and branch and bound tells true from false."""

from __future__ import annotations

from math import inf

import mpmath
import numpy as np
import pytest

from lossdsl.derive.claims import by_intervals
from lossdsl.derive.claims.boxes import Boxes
from lossdsl.derive.claims.by_intervals import never_negative
from lossdsl.derive.claims.enclose import enclose
from lossdsl.derive.claims.scalars import Scalars
from lossdsl.primitives.interval import UNIT, Interval
from tests.derive.test_scalars import number

ONE = ["exp", "expm1", "log", "log1p", "xlogx", "sqrt", "sigmoid", "softplus", "tanh", "atan", "phi", "relu", "abs"]
TWO = ["add", "sub", "mul", "div", "pow", "maximum", "minimum", "divergence", "lse", "logp", "expsub"]
POSITIVE = {"log", "log1p", "xlogx", "sqrt", "pow", "div"}
DIGITS = 60
STEP = mpmath.mpf("1e-25")  # of the difference quotient, whose error is far below the width of a slope's enclosure


@pytest.mark.parametrize("op", ONE + TWO)
def test_enclosures_hold_values_and_slopes(op: str) -> None:
    rng = np.random.default_rng(ONE.index(op) if op in ONE else TWO.index(op))
    s = Scalars()
    x, y = s.var("x"), s.var("y")
    n = s.node(op, [x] if op in ONE else [x, y])
    low = np.sort(rng.normal(0, 2, (2, 200)), axis=0)
    low = np.abs(low) + 0.01 if op in POSITIVE else low
    ends = {v: np.sort(low + (k * 0.3 if op in POSITIVE else 0), axis=0) for k, v in enumerate("xy")}
    if op in TWO:
        ends["y"] = np.sort(rng.uniform(0.1, 3, (2, 200)), axis=0) if op in POSITIVE else ends["y"] + 0.1
    found = enclose(s, n, {v: Boxes(e[0], e[1]) for v, e in ends.items()})
    with mpmath.workdps(DIGITS):
        for k in range(200):
            at = {v: mpmath.mpf(float(rng.uniform(e[0, k], e[1, k]))) for v, e in ends.items()}
            value = number(s, n, at)
            assert found.value.low[k] <= value <= found.value.high[k]
            for v, slope in found.slopes.items():
                moved = number(s, n, {**at, v: at[v] + STEP})
                rise = (moved - value) / STEP
                a, c = (np.broadcast_to(side, 200)[k] for side in (slope.low, slope.high))
                assert a - 1e-12 * (1 + abs(a)) <= rise <= c + 1e-12 * (1 + abs(c))


def claim(text: str) -> tuple[Scalars, int]:
    s = Scalars()
    p, q, one = s.var("p"), s.var("q"), s.const(1)
    log = s.node("log", [p])
    gce = s.node("neg", [s.node("div", [s.node("expm1", [s.node("mul", [q, log])]), q])])
    entropy = s.node("neg", [s.node("xlogx", [p])])
    forms = {
        "gce <= ce": s.node("sub", [s.node("neg", [log]), gce]),
        "1 - p <= ce": s.node("sub", [s.node("neg", [log]), s.node("sub", [one, p])]),
        "entropy <= 0.367880": s.node("sub", [s.const(0.36788), entropy]),
        "entropy <= 0.367879": s.node("sub", [s.const(0.367879), entropy]),
        "1 - p <= 0.999999 ce": s.node(
            "sub", [s.node("mul", [s.const(0.999999), s.node("neg", [log])]), s.node("sub", [one, p])]
        ),
        "(p - q)^2 >= 0": s.node("pow", [s.node("sub", [p, q]), s.const(2)]),
        "p^2 + q^2 >= 2 p q": s.node(
            "sub",
            [
                s.node("add", [s.node("pow", [p, s.const(2)]), s.node("pow", [q, s.const(2)])]),
                s.node("mul", [s.const(2), s.node("mul", [p, q])]),
            ],
        ),
    }
    return s, forms[text]


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("gce <= ce", "proved"),
        ("1 - p <= ce", "proved"),
        ("entropy <= 0.367880", "proved"),
        ("entropy <= 0.367879", "refuted"),
        ("1 - p <= 0.999999 ce", "refuted"),
        ("(p - q)^2 >= 0", "proved"),
        ("p^2 + q^2 >= 2 p q", "open"),  # attained along a line: nothing is said
    ],
)
def test_branch_and_bound(text: str, status: str) -> None:
    s, n = claim(text)
    outcome = never_negative(s, n, {"p": UNIT, "q": UNIT}, most=5000)
    assert outcome.status == status
    if status == "refuted":
        assert outcome.witness
        assert number(s, n, {v: mpmath.mpf(x) for v, x in outcome.witness.items()}) < 0


def test_an_unbounded_domain() -> None:
    s = Scalars()
    x = s.var("x")
    gap = s.node("sub", [s.node("softplus", [x]), s.node("div", [s.node("tanh", [x]), s.const(2)])])
    assert never_negative(s, gap, {"x": Interval(-inf, inf)}).status == "proved"
    less = s.node("sub", [gap, s.const(0.7)])
    assert never_negative(s, less, {"x": Interval(-inf, inf)}).status == "refuted"


def test_a_corner_is_not_taken_for_its_limit() -> None:
    """p·(1/p) is 1 for every p > 0: its face p = 0 must not be read as 0."""
    s = Scalars()
    p = s.var("p", Interval(0.0, 1.0, True, True))
    n = s.node("sub", [s.node("mul", [p, s._raw("div", (s.const(1), p))]), s.const(0.5)])
    s2 = Scalars()
    p2 = s2.var("p")
    product = s2._raw("mul", (p2, s2._raw("div", (s2.const(1), p2))))
    below = s2.node("sub", [s2.const(0.5), product])
    assert never_negative(s, n, {"p": UNIT}).status == "proved"
    assert never_negative(s2, below, {"p": UNIT}, most=3000).status != "proved"


def test_a_wrong_slope_would_prove_what_is_false(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault is seen by these tests: with slopes of the wrong sign the maximum of the entropy is passed over."""
    real = by_intervals.enclose

    def wrong(*args: object, **more: object) -> object:
        found = real(*args, **more)  # type: ignore[arg-type]
        return type(found)(found.value, {v: Boxes(np.abs(d.low), np.abs(d.low)) for v, d in found.slopes.items()})

    monkeypatch.setattr(by_intervals, "enclose", wrong)
    s, n = claim("entropy <= 0.367879")
    assert never_negative(s, n, {"p": UNIT, "q": UNIT}).status == "proved"
