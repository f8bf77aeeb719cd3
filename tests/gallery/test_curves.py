"""A loss along one entry: the derivative that is drawn is that of the value that is drawn."""

from __future__ import annotations

import pytest

from lossdsl.api import registry
from lossdsl.curves import Curve, curve
from lossdsl.pipeline import middle
from lossdsl.source.text import Source

SMOOTH = ["std/focal", "std/weighted_cross_entropy", "llm/dpo", "segmentation/dice_multiclass", "info/dv_bound"]


def drawn(full: str, text: str | None = None) -> Curve | None:
    source = Source(full, text or registry().losses[full].read())
    return curve(middle(source, registry()), registry(), 201)


@pytest.mark.parametrize("full", SMOOTH)
def test_the_slope_is_that_of_the_value(full: str) -> None:
    c = drawn(full)
    assert c is not None
    step = c.at[1] - c.at[0]
    scale = max(map(abs, c.slope))
    for i in range(1, len(c.at) - 1):
        # central differences are off by step² / 6 times the third derivative, here below 8 times the scale
        assert abs((c.value[i + 1] - c.value[i - 1]) / (2 * step) - c.slope[i]) < 8 * scale * step**2


def test_the_targets_entry_moves() -> None:
    c = drawn("std/weighted_cross_entropy")
    assert c is not None
    assert c.along == "logits[0, 2]"
    assert c.value[0] > c.value[-1]


def test_what_has_none() -> None:
    assert drawn("std/sparsemax") is None
    assert drawn("t", "loss t\ninput x[N]\nreturn x^2\n") is None
    assert drawn("t", "loss t\ninput x[N]: fixed\nreturn x^2\nexample x = [1] gives 1\n") is None


def test_an_interval_bounds_the_places() -> None:
    c = drawn("t", "loss t\ninput x[N] in (0, 2]\nreturn log(x)\nexample x = [1] gives 0\n")
    assert c is not None
    assert 0 < c.at[0] < 0.02
    assert 1.98 < c.at[-1] < 2
