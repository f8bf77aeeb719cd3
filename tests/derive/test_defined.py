"""Where a comparison has two sides: a proof says of which inputs it is, and a side that is alone refutes it."""

from __future__ import annotations

import pytest

from lossdsl.derive.claims import comparisons
from lossdsl.derive.claims.verdict import Found
from tests.derive.test_claims import verdicts

X = "loss l\ninput x[N]\nreturn "
ALONE = [
    (X + "log(x^2)\n", "loss == 2 * log(x)", "x = [-1.0]"),
    (X + "x/x\n", "loss == 1", "x = [0.0]"),
    (X + "sqrt(x)^2\n", "loss == x", "x = [-1.0]"),
    (X + "(x^2 - 1) / (x - 1)\n", "loss == x + 1", "x = [1.0]"),
    (X + "x^2\n", "loss >= log(x)", "x = [-1.0]"),
    (X + "(x - 12345) / (x - 12345)\n", "loss == 1", "x = [12345.0]"),
]


@pytest.mark.parametrize(("text", "claim", "at"), ALONE)
def test_a_side_that_is_alone_refutes(text: str, claim: str, at: str) -> None:
    (verdict,) = verdicts(text, claim)
    assert verdict.status == "refuted"
    assert verdict.detail == f"{at}, where one side alone has a value"


@pytest.mark.parametrize(
    ("text", "claim", "at"),
    [
        (X + "2 * log(x)\n", "loss == log(x) + log(x)", "x = [-1.0]"),
        (X + "x/x\n", "loss == x/x", "x = [0.0]"),
        (X + "sqrt(x) * sqrt(x)\n", "loss == sqrt(x)^2", "x = [-1.0]"),
    ],
)
def test_a_proof_says_where(text: str, claim: str, at: str) -> None:
    (verdict,) = verdicts(text, claim)
    assert verdict.status == "proved"
    told = verdict.detail.removesuffix(", where no denominator is 0")
    assert told.endswith(f"where both sides have a value (not at {at})")


@pytest.mark.parametrize("claim", ["loss >= 0", "loss <= x - 1"])
def test_a_bound_is_told_where_the_loss_has_no_value(claim: str) -> None:
    (verdict,) = verdicts(X + ("sqrt(x)\n" if ">" in claim else "log(x)\n"), claim)
    assert verdict.status == ("proved" if ">" in claim else "held")
    assert "(not at x = [-1.0])" in str(verdict)


def test_nothing_is_said_of_a_domain_where_all_is_defined() -> None:
    (verdict,) = verdicts("loss l\ninput x[N] in (0, inf)\nreturn log(x^2)\n", "loss == 2 * log(x)")
    assert verdict.status == "proved"
    assert "value" not in verdict.detail


def test_without_it_such_claims_are_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault is seen by these tests."""

    def careless(about: object, b: object, loss: int, other: int, equal: bool, found: Found) -> Found:
        return found

    monkeypatch.setattr(comparisons, "compared_where_defined", careless)
    assert [verdicts(text, claim)[0].status for text, claim, _ in ALONE[:4]] == ["proved"] * 4
