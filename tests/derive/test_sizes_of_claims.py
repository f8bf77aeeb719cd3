"""A claim that is proved for two and three classes is tried at others before it is called proved, and says so."""

from __future__ import annotations

import pytest

from lossdsl.derive.claims import at_points
from tests.derive.test_claims import BRIER, HEAD, verdicts

VANISHES = HEAD + "return (size(C)-2)*(size(C)-3)*(size(C)-5)*logits[target]\n"
TURNS = "return cross_entropy(logits, target) + (size(C)-2)*(size(C)-3)*(size(C)-5)*softmax(logits)[target]\n"
FALSE = [
    ("loss l\ninput x[N, D]\nreturn sum[D](abs(x))\n", "lipschitz(x) <= 1.5"),
    (HEAD + "p = softmax(logits)\nreturn sum[C](p^2) + 0*p[target]\n", "loss >= 0.25"),
    (HEAD + "p = softmax(logits)\nreturn 1 - p[target] - (if target >= 3 then 2 else 0)\n", "loss >= 0"),
    (HEAD + "p = softmax(logits)\nreturn sum[C](if C >= 3 then 1 else 0)*p[target]\n", "loss <= 0"),
    (VANISHES, "loss == 0"),
    (VANISHES, "shift_invariant(logits)"),
    (VANISHES, "symmetric(target)"),
    (VANISHES, "lipschitz(logits) <= 1"),
    (VANISHES, "grad(logits) == 0*logits"),
    (HEAD + TURNS, "proper"),
]


@pytest.mark.parametrize(("text", "claim"), FALSE)
def test_more_classes_refute_it(text: str, claim: str) -> None:
    (verdict,) = verdicts(text, claim)
    assert verdict.status == "refuted", verdict


def test_without_larger_sizes_it_would_be_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault is seen by these tests."""
    monkeypatch.setattr(at_points, "LARGER", (2,))
    assert [verdicts(text, claim)[0].status for text, claim in FALSE[:4]] == ["proved"] * 4


@pytest.mark.parametrize("claim", ["loss <= 2", "proper", "lipschitz(logits) <= 2"])
def test_the_verdict_says_both(claim: str) -> None:
    (verdict,) = verdicts(BRIER, claim)
    assert verdict.status == "proved"
    assert "for C = 2, 3; held at " in verdict.detail
    assert verdict.detail.endswith("points at C = 4, 5, 10")
