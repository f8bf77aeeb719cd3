"""The claims of the library's files: how many there are, of which kinds, and that the table of verdicts is right.

A claim that is refuted fails wherever it is decided; one that the table has as proved must be proved again.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from lossdsl.api import registry
from lossdsl.pipeline import front
from lossdsl.source.text import Source
from tests.derive.verdicts import counts, decided, kind_of, library, read
from tests.losses import FULL

CLAIMS, LOSSES, OF_A_KIND = 150, 80, 10
KINDS = ("identity", "limit", "bound", "shift_invariant", "symmetric", "convex", "lipschitz", "proper")
SAMPLE = 6
ROWS = read()
SLOW = ("entmax", "sparsemax", "normmax")  # roots and orders, at points of 110 digits: ten seconds a file


def drawn() -> list[str]:
    """All files with claims in a full run, else a few of the quick ones."""
    if FULL:
        return library()
    quick = sorted({row[0] for row in ROWS if not any(word in row[0] for word in SLOW)})
    return random.Random(len(ROWS)).sample(quick, SAMPLE)


def test_the_table_has_every_claim() -> None:
    said = []
    for full in library():
        path = Path(registry().losses[full].path)
        source = Source(str(path), path.read_text())
        for claim in front(source, registry()).checked.claims:
            said.append((full, " ".join(source.text[claim.span.start : claim.span.end].split())))
    assert [row[:2] for row in ROWS] == said, "run python -m tests.derive.verdicts"


def test_enough_claims_are_proved() -> None:
    telling = [row for row in ROWS if counts(row)]
    assert not [row for row in ROWS if row[2] in ("refuted", "undecided")]
    assert len(telling) >= CLAIMS
    assert len({row[0] for row in telling}) >= LOSSES
    assert 2 * sum(row[2] == "proved" for row in telling) >= len(telling)


@pytest.mark.parametrize("kind", KINDS)
def test_enough_of_each_kind(kind: str) -> None:
    proved = Counter(kind_of(row[1]) for row in ROWS if row[2] == "proved" and counts(row))
    assert proved[kind] >= OF_A_KIND, proved


@pytest.mark.parametrize("full", drawn())
def test_the_table_is_right(full: str) -> None:
    for (_, claim, status, _), row in zip(decided(full), (row for row in ROWS if row[0] == full), strict=True):
        assert claim == row[1]
        assert status == "proved" or status == row[2] == "held", f"{claim}: {status}, {row[2]} in the table"


# One false claim of each kind, in the words of a paper that is misremembered.
FALSE = {
    "identity": ("focal", "loss == cross_entropy(logits, target) when gamma = 1"),
    "limit": ("generalized_cross_entropy", "loss == mean_absolute_error(logits, target) when q -> 0"),
    "bound": ("generalized_cross_entropy", "loss <= 1"),
    "shift_invariant": ("squentropy", "shift_invariant(logits)"),
    "symmetric": ("generalized_cross_entropy", "symmetric(target)"),
    "convex": ("focal", "convex(logits)"),
    "lipschitz": ("cross_entropy", "lipschitz(logits) <= 1.4142"),
    "proper": ("focal", "proper"),
    "grad": ("cross_entropy", "grad(logits) == softmax(logits)"),
}


@pytest.mark.parametrize("kind", sorted(FALSE))
def test_a_false_claim_in_the_library_is_seen(kind: str) -> None:
    from lossdsl.derive.claims.decide import decide

    name, claim = FALSE[kind]
    assert kind_of(claim) == kind
    text = Path(registry().losses[f"std/{name}"].path).read_text() + f"claim {claim}\n"
    made = front(Source("planted.loss", text), registry())
    verdict = decide(made.lossdef, made.checked, registry(), timeout=0)[-1]
    assert verdict.status == "refuted"
    assert verdict.problem is not None
    assert "logits = [[" in verdict.detail
