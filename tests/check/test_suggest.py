"""What was probably meant: the nearest name, and of near ones one that can be called so."""

from __future__ import annotations

import pytest

from lossdsl.check.check import check
from lossdsl.plugins import discover
from lossdsl.source.diagnostic import DiagnosticError
from lossdsl.source.suggest import closest, edits
from lossdsl.source.text import Source
from lossdsl.syntax.parse import parse

REGISTRY = discover({})
HEAD = "loss l\ninput logits[N, C]\ninput target[N]: index C\nreturn -log(softmax(logits)[target])\n"


@pytest.mark.parametrize(
    ("a", "b", "count"),
    [("", "", 0), ("ab", "ba", 1), ("focal", "focla", 1), ("mse", "mae", 1), ("kitten", "sits", 4)],
)
def test_edits(a: str, b: str, count: int) -> None:
    assert edits(a, b) == edits(b, a) == count


def test_closest() -> None:
    names = ["mw_loss", "mse", "mse_onehot", "focal", "cross_entropy"]
    assert closest("mse_loss", names) == closest("mse_los", names) == closest("MSE", names) == "mse"
    assert closest("focla", names) == "focal"
    assert closest("zebra", names) is None
    assert closest("mse_one", ["mse_once", "mse_onehot"], lambda c: c == "mse_onehot") == "mse_onehot"


@pytest.mark.parametrize(
    ("call", "near"),
    [
        ("mse_los(logits[target], 1)", "mse"),
        ("crossentropy(logits, target)", "cross_entropy"),
        ("focal_los(logits, target, gamma = 0)", "focal"),
        ("sofmax(logits)[target]", "softmax"),
        ("bce_(logits[target], 1)", "bce"),
    ],
)
def test_a_claim_is_told_what_can_be_called(call: str, near: str) -> None:
    source = Source("l.loss", HEAD + f"claim loss >= {call}\n")
    with pytest.raises(DiagnosticError) as error:
        check(parse(source), source, REGISTRY)
    assert error.value.diagnostics[0].fix == f"did you mean `{near}`?"


def test_a_loss_may_be_called_by_its_other_name_in_a_claim() -> None:
    source = Source("l.loss", HEAD + "claim loss == ce(logits, target)\n")
    assert check(parse(source), source, REGISTRY).claims
