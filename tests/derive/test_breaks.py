"""A loss that jumps: derivatives, which are 0 on both sides of a step, prove nothing of it."""

from __future__ import annotations

import pytest

from tests.derive.test_claims import HEAD, verdicts

X = "loss l\ninput x[N] in [0, 1]\nparam a = 0.5 in [0, 1]\nreturn "
LINE = "loss l\ninput x[N]\nreturn "
PT = HEAD + "pt = softmax(logits)[target]\nreturn "

FALSE = [
    (X + "x + (if x > 0.5 then -5 else 0)\n", "loss >= 0"),
    (X + "x + (if x > 0.5173 and x < 0.5183 then -5 else 0)\n", "loss >= 0"),
    (X + "x + (if a > 0.5 then -5 else 0) * (if a < 0.50001 then 1 else 0)\n", "loss >= 0"),
    (X + "if a == 1 then -1 else x^2\n", "loss >= 0"),
    (X + "x^2 + (if x == 0.123 then -5 else 0)\n", "loss >= 0"),
    (X + "x^2 + (if x != 0.123 then 0 else -5)\n", "loss >= 0"),
    (X + "sign(x - 0.5) + x\n", "loss >= 0"),
    (PT + "(1 - pt) - (if pt == 0.123 then 0.9 else 0)\n", "loss >= 0"),
    (LINE + "floor(x) + 0 * x\n", "lipschitz(x) <= 1"),
    (LINE + "(if x > 0 then 1 else 0) + x\n", "lipschitz(x) <= 1"),
    (PT + "if pt > 0.9 then 0 else 2 * (1 - pt)\n", "lipschitz(logits) <= 0.8"),
    (PT + "-log(pt) + (if pt > 0.999999 then 1e-3 else 0)\n", "proper"),
    (LINE + "x^2 - (if x == 0.123 then -5 else 0)\n", "convex(x)"),
]


@pytest.mark.parametrize(("text", "claim"), FALSE)
def test_a_false_claim_of_a_loss_that_jumps_is_not_proved(text: str, claim: str) -> None:
    (verdict,) = verdicts(text, claim)
    assert verdict.status != "proved", verdict.detail


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        (X + "x + (if a > 0.5 then 1 else 0)\n", "loss >= 0"),
        (X + "(if x > 0.5 then 2 else 1) - x\n", "loss >= 0"),
        (X + "relu(x - 0.5) + abs(x - 0.25)\n", "lipschitz(x) <= 2"),
    ],
)
def test_a_true_one_is_still_proved(text: str, claim: str) -> None:
    (verdict,) = verdicts(text, claim)
    assert verdict.status == "proved"
