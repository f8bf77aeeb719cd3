"""Numbers are what their digits say, not the double that is next to them: nothing is proved or refuted by rounding."""

from __future__ import annotations

import pytest

from tests.derive.test_claims import verdicts

LINE = "loss l\ninput x[N]\nreturn "
FALSE = [
    (LINE + "erf(x)\n", "loss <= 0.9999999999999999999999999999"),  # 28 nines; the double is 1
    (LINE + "sigmoid(x)\n", "loss <= 0.9999999999999999999999999999"),
    (LINE + "softplus(x)\n", "loss <= relu(x) + 0.69314718055994530"),  # log 2 is 0.693147180559945309417…
    (LINE + "0 * x + pi\n", "loss <= 3.1415926535897932"),  # pi goes on with 38; the double of both is one
]
TRUE = [
    (LINE + "erf(x)\n", "loss <= 1"),
    (LINE + "softplus(x)\n", "loss <= relu(x) + 0.69314718055994531"),
    (LINE + "0 * x + pi\n", "loss >= 3.1415926535897932"),
    (LINE + "x^2 + 0.1 + 0.2\n", "loss == x^2 + 0.3"),
    ("loss l\ninput x[N] in [0, inf)\nparam q = 0.7 in (0, 1]\nreturn x^q\n", "loss == x^0.7 when q = 0.7"),
]


@pytest.mark.parametrize(("text", "claim"), FALSE)
def test_a_false_one(text: str, claim: str) -> None:
    (verdict,) = verdicts(text, claim)
    assert verdict.status == "refuted"


@pytest.mark.parametrize(("text", "claim"), TRUE)
def test_a_true_one(text: str, claim: str) -> None:
    (verdict,) = verdicts(text, claim)
    assert verdict.status in ("proved", "held"), verdict.detail
