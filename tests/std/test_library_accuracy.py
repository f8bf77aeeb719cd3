"""Every loss of every pack in float32 (and bfloat16 in) against its equation at 110 digits, on every backend.

`lossdsl/accuracy/measure.py` has the bars, and the reasons for which a number may be beyond its own; a miss is one that
nothing excuses. A sample here, all of them in `make test-all`.
"""

from __future__ import annotations

import random

import mpmath
import numpy as np
import pytest

import lossdsl
from lossdsl.accuracy.exact import SMALLEST, ULP, differences, exact, written
from lossdsl.accuracy.measure import Report, judge, run_torch
from lossdsl.accuracy.rows import cases, wide
from lossdsl.accuracy.table import accuracy, in_words, record
from lossdsl.api import registry
from lossdsl.check.typed import CheckedLoss
from tests.losses import FULL

# The losses of which a number is beyond its bar, and why.
KNOWN = {
    # In C++ a log-sum-exp that goes along with other sums meets its maximum late: its terms are rounded otherwise than
    # e^(z - max z) is, and the sums of these rows are 5 to 7 units of the largest entry, where 2 are allowed.
    "std/kd_kl": "the sum of a row with a class of -inf, in C++",
    "llm/synib_gaussian": "the sum of a row that is ahead by 60, in C++",
}
ALL = sorted(registry().losses)
ALWAYS = ["std/cross_entropy", "std/focal", "std/kd_kl", "std/jsd", "llm/dpo", "metric/arcface_cosine"]


def sample(others: int) -> list[str]:
    return ALL if FULL else sorted({*ALWAYS, *random.Random(1).sample(ALL, others)})


def checked(name: str) -> CheckedLoss:
    return lossdsl.load(name).checked


@pytest.mark.parametrize("name", sample(2))
def test_every_number_keeps_to_its_bar(name: str) -> None:
    dtypes = ("float32", "bfloat16") if FULL or name in ALWAYS[:1] else ("float32",)
    found = accuracy(checked(name), registry(), dtypes=dtypes, by_hand=False)
    assert found.reports
    for report in found.reports:
        assert report.gradient.count or not report.value.count or not written(checked(name), registry()).inputs
    assert found.ok or name in KNOWN, in_words(found)


@pytest.mark.parametrize("name", sample(4) if FULL else ["std/focal", "std/kd_kl", "llm/dpo"])
def test_the_exact_gradient_is_that_of_differences(name: str) -> None:
    """The gradient that all is compared with, against differences of the written value with a step of 1e-40."""
    loss = written(checked(name), registry())
    rng = np.random.default_rng(0)
    smooth = 0
    for case in list(cases(loss.plain, loss.checked))[:2]:
        values = exact(loss, case).values
        for leaf in loss.inputs:
            direction = rng.choice([-1.0, 1.0], np.shape(case.leaves[leaf]))
            along = (values[f"grad.{leaf}"] * direction).sum()
            slope = differences(loss, case, leaf, direction)
            with mpmath.workdps(60):
                smooth += bool(abs(along - slope) <= abs(slope) * mpmath.mpf("1e-30") + mpmath.mpf("1e-30"))
    assert smooth >= 1


# Of these an error by the largest entry grows with the classes: sums by a matrix product in float32, and weights that
# are themselves differences.
GROW = {"std/sel_full", "std/linear_cross_entropy", "llm/satimp"}


@pytest.mark.parametrize("name", [n for n in ALL if n not in GROW] if FULL else ["std/cross_entropy", "std/focal"])
def test_very_many_classes(name: str) -> None:
    """The errors of 50 000 classes, in last places of the largest entry (of the terms, for a value), are no more than
    those of 50 and a few: entries of their own may be near a zero of the gradient, the more the more there are."""
    loss = written(checked(name), registry())
    options = {} if loss.checked.reduction is None else {"reduction": "none"}
    module = lossdsl.loss(name, backend="torch", **options)
    errors = []
    for classes in (50, 50_000):
        case = wide(loss.plain, loss.checked, rewritten=loss.rewritten, classes=classes) if loss.rowwise else None
        if case is None or name == "ranking/pld":  # no row of classes, or a square of them
            return
        should, found = exact(loss, case, "float64"), run_torch(loss, module, case, "float32")
        report = Report(name, "torch", "float32")
        judge(report, loss, case, should, found)
        assert report.ok, report.misses
        sizes = {n: should.sizes[n] if n == "rows" else np.max(np.abs(x), initial=0) for n, x in should.values.items()}
        apart = {n: np.where(found[n] == x, 0, found[n] - x.astype(float)) for n, x in should.values.items()}
        off = [np.abs(x) / np.maximum(sizes[n], SMALLEST) for n, x in apart.items()]  # infinite are both or none
        errors.append(max(float(x.max(initial=0)) for x in off) / ULP)
    assert errors[1] <= 8 + 2 * errors[0]


def test_a_wrong_number_is_a_miss() -> None:
    """A gradient that is off by one part in ten thousand, and a value by as much, in one place."""
    loss = written(checked("std/cross_entropy"), registry())
    case = next(iter(cases(loss.plain, loss.checked)))
    should = exact(loss, case)
    module = lossdsl.loss("cross_entropy", backend="torch", reduction="none")
    for name in ("rows", "grad.logits"):
        found = run_torch(loss, module, case, "float32")
        found[name].flat[0] *= 1.0001
        report = Report("cross_entropy", "torch", "float32")
        judge(report, loss, case, should, found)
        assert len(report.misses) == 1, report.misses
        assert bool(report.total.reasons) == (name != "rows")  # its row no longer sums to 0, either
    found = run_torch(loss, module, case, "float32")
    found["rows"].flat[1] = np.inf
    report = Report("cross_entropy", "torch", "float32")
    judge(report, loss, case, should, found)
    assert "is inf" in report.misses[0]


def test_the_table() -> None:
    heard: list[tuple[int, int]] = []
    found = accuracy(checked("std/focal"), registry(), dtypes=("float32",), told=lambda *x: heard.append(x))
    assert heard == [(k, found.cases) for k in range(found.cases + 1)]
    data = record(found)
    ours, by_hand = data["reports"]
    assert (ours["backend"], by_hand["backend"]) == ("torch", "by hand")
    assert by_hand["gradient"]["ulp"] > 1e4 > 100 > ours["gradient"]["ulp"]  # 1 - p of a confident row
    assert "torch, float32" in in_words(found)
