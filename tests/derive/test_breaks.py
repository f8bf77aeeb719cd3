"""A loss that jumps: derivatives, which are 0 on both sides of a step, prove nothing of it."""

from __future__ import annotations

import pytest

from lossdsl.check.check import check
from lossdsl.derive.claims import breaks
from lossdsl.derive.claims.setting import subject
from lossdsl.source.text import Source
from lossdsl.syntax.parse import parse
from tests.derive.test_claims import HEAD, REGISTRY, verdicts

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


MEETS = "if x > 1 then 2*x - 1 else x\n"
HUBER_ONCE = "if abs(x) <= 3 then x^2 / 2 else 3 * (abs(x) - 3 / 2)\n"


@pytest.mark.parametrize(
    ("text", "jumps", "bends"),
    [
        (LINE + MEETS, False, True),  # both branches are 1 at the test
        (LINE + HUBER_ONCE, False, True),
        (LINE + MEETS.replace("- 1", ""), True, True),
        (LINE + HUBER_ONCE.replace("3 / 2", "3 / 4"), True, True),
        (LINE + f"({MEETS.strip()}) + (x > 1)\n", True, True),  # the test as a number jumps
        (LINE + "(if x > 1 then 2*x - 1 else x) + floor(x)\n", True, True),
    ],
)
def test_a_choice_whose_branches_meet_does_not_jump(text: str, jumps: bool, bends: bool) -> None:
    source = Source("l.loss", text)
    lossdef = parse(source)
    about = subject(lossdef, check(lossdef, source, REGISTRY), REGISTRY)
    assert breaks.jumps(about, "x") is jumps
    assert breaks.bends(about, "x") is bends


def test_what_does_not_jump_has_its_bound_proved() -> None:
    proved, refuted = (verdicts(LINE + MEETS, f"lipschitz(x) <= {k}")[0] for k in (2, 1.9))
    assert (proved.status, refuted.status) == ("proved", "refuted")


@pytest.mark.parametrize(
    ("test", "taken"), [("sqrt(2) > 1.4", 1), ("exp(1) < 2.7", 2), ("log(2) <= 0.6931", 2), ("1 / 3 < 0.33334", 1)]
)
def test_a_test_between_numbers_is_decided(test: str, taken: int) -> None:
    (verdict,) = verdicts(LINE + f"x^2 + exp(if {test} then 1 else 2)\n", f"loss >= exp({taken}) - 0.1")
    assert verdict.status == "proved"
    (other,) = verdicts(LINE + f"0 * x^2 + exp(if {test} then 1 else 2)\n", f"loss <= exp({taken}) + 0.1")
    assert other.status == "proved"
