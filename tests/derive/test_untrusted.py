"""Claims of a file that nobody has read: bounded time and memory, and no verdict on what has no value."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from lossdsl.check.check import check
from lossdsl.ir.digits import FAR, multiprecision
from lossdsl.source.diagnostic import DiagnosticError
from lossdsl.source.text import Source
from lossdsl.syntax.parse import parse
from tests.derive.test_claims import CE, REGISTRY, verdicts

POSITIVE = "loss l\ninput x[N] in (0, inf)\nreturn x^2\n"

UNDEFINED = [
    ("1/0", "has no value"),
    ("0^(-1)", "has no value"),
    ("log(0)", "has no value"),
    ("log(-1)", "has no value"),
    ("sqrt(-1)", "has no value"),
    ("0/0", "has no value"),
    ("inf - inf", "has no value"),
    ("min(3, 1/0)", "has no value"),
    ("2 * sqrt(1 - 3)", "has no value"),
    ("acos(2) + logits[target]", "has no value"),
    ("inf", "infinite"),
    ("-inf", "infinite"),
    ("exp(710)", "largest float64"),
    ("9^9^9^9", "largest float64"),
]


def said(text: str, claim: str) -> list[str]:
    source = Source("l.loss", text + f"claim {claim}\n")
    with pytest.raises(DiagnosticError) as error:
        check(parse(source), source, REGISTRY)
    assert all(d.code == "E0414" and d.fix for d in error.value.diagnostics)
    return [d.message for d in error.value.diagnostics]


@pytest.mark.parametrize(("side", "why"), UNDEFINED)
@pytest.mark.parametrize("claim", ["loss >= {}", "lipschitz(logits) <= {}"])
def test_a_side_without_a_value_is_an_error(side: str, why: str, claim: str) -> None:
    (message,) = said(CE, claim.format(side))
    assert why in message


def test_conditions_and_values_of_the_file_count() -> None:
    text = "loss l\ninput x[N]\nparam q = 1 in [0, inf)\nzero = 2 - 2\nreturn x^2 + 0 * zero\n"
    assert said(text, "loss >= 1 / q when q = 0") == ["`1 / q` has no value"]
    assert said(text, "loss >= 3 / zero") == ["`3 / zero` has no value"]
    for claim in ("loss >= 1 / q when q = 2", "loss >= exp(-inf) - q"):
        source = Source("l.loss", text + f"claim {claim}\n")
        assert check(parse(source), source, REGISTRY).claims


TOWERS = ["x^x^x^x^x", "exp(exp(exp(exp(x))))", "lgamma(x^x^x^x^x)", "sin(x^x^x^x)", "x^1e300", "((x^64)^64)^64"]


@pytest.mark.parametrize("tower", TOWERS)
def test_a_tower_ends(tower: str) -> None:
    """Its value has more digits than any memory; what is too far says nothing."""
    (verdict,) = verdicts(POSITIVE, f"loss <= {tower} + 1e9")
    assert verdict.status in ("held", "refuted", "undecided")


def test_the_exponent_of_a_number_is_bounded() -> None:
    """Up to FAR binary digits before the point values are right; beyond, NaN, never a wrong number."""
    own = multiprecision().own
    real = multiprecision().real
    for x, y in ((3.0, 1000.0), (2.0, 2.0**40), (-3.0, 1e15 + 1), (1.5, -1e300)):
        found = own["pow"](real(np.asarray(x)), real(np.asarray(y)))[()]
        with mpmath.workdps(500):  # 300 of them before the point of y·log x
            exact = mpmath.exp(mpmath.mpf(y) * mpmath.log(abs(x))) * (-1 if x < 0 and int(y) % 2 else 1)
            assert abs(mpmath.mpf(found) / exact - 1) < 1e-100
    large = real(np.asarray(2.0**1000))
    far = own["mul"](large, large)
    assert mpmath.log(far[()], 2) > FAR
    for name in ("exp", "sin", "lgamma", "tanh"):
        assert mpmath.isnan(own[name](far)[()])
    assert own["floor"](far)[()] == far[()]
    assert mpmath.isnan(own["trigamma"](real(np.asarray(-1e9 - 0.5)))[()])
