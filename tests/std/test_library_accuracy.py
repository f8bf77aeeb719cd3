"""Every loss of every pack in float32 (and half inputs) against its equation at 110 digits, on every backend.

`lossdsl/accuracy/measure.py` has the bars, and the reasons for which a number may be beyond its own; a miss is one that
nothing excuses. A sample here, all of them in `make test-all`.
"""

from __future__ import annotations

import random
from dataclasses import replace

import mpmath
import numpy as np
import pytest

import lossdsl
from lossdsl.accuracy.exact import SMALLEST, ULP, differences, exact, few, halfway, nearby, step_errors, written
from lossdsl.accuracy.measure import Report, judge, run_torch
from lossdsl.accuracy.rows import CLASSES, cases, wide
from lossdsl.accuracy.table import Accuracy, accuracy, in_words, record
from lossdsl.api import registry
from lossdsl.backends.manager import BackendError
from lossdsl.check.typed import CheckedLoss
from tests.losses import FULL

# The losses of which a number is beyond its bar, and why.
KNOWN = {
    # Each of two softmaxes sums to 1 to half a last place, and t = 4 times their difference is 5 units of the row's
    # largest entry, where 2 are allowed. In torch it is 3 of them, within 2 of the sum of the terms.
    "std/kd_kl": "the sum of a row with a class of -inf, in C++",
    # |sigmoid(x) - sigmoid(w)| of 10^-20 and less: 1/2 - 1/2 in float64, too, where the derivative jumps.
    "metric/harmonic_hamming_soft": "the slope of a distance of sigmoids that are all 1/2",
}
# The losses whose equation leaves float32 between inputs and results, so that a number is infinite, NaN or 0 where it
# should not be: of these all other numbers keep to their bars. `precise=True` has what float64 holds.
_SCALED = (
    "c·e^u, or a mean of such, of an e^u beyond 3.4e38 that c < 1 or the number of terms takes back: u of 88.7 to 92"
)
NOT_FINITE = {
    **dict.fromkeys(["info/js_nwj_bound", "llm/dpo_f_forward_kl", "llm/grpo"], _SCALED),
    # The moving average is detached: a quotient written anew would have another derivative.
    **dict.fromkeys(["info/mine", "info/mine_lower_bound"], "e^f of f = 10^4 over a moving average of it: inf / inf"),
    **dict.fromkeys(
        ["ranking/approx_ndcg", "ranking/lambda_loss", "ranking/lambda_loss_ndcg1"],
        "2^r of relevances of 10^4 over a sum of them",
    ),
    "llm/alphapo": "e^2500 - e^2500 of what bfloat16 rounds to the same",
    "info/adaptive_debiased_tsallis": "p^q of q < 0: a sum of 10^116 times a probability of e^-200",
    "segmentation/repri": "log(1 - m) of the mean of sigmoids of 60, which is 1",
    # Rows of classes, which float64 mends at 1.6 and 2 times the time in C++.
    "std/aldr_kl": "logits of 10^-40 over a temperature of their size",
    "std/sa_softmax": "logits over their spread of 10^-40",
    "std/dist_kd": "logits of 10^-40: in float64, too, probabilities are all equal there, without a direction",
}
ALL = sorted(registry().losses)
ALWAYS = ["std/cross_entropy", "std/focal", "std/kd_kl", "std/jsd", "llm/dpo", "metric/arcface_cosine"]


def sample(others: int) -> list[str]:
    return ALL if FULL else sorted({*ALWAYS, *random.Random(1).sample(ALL, others)})


def checked(name: str) -> CheckedLoss:
    return lossdsl.load(name).checked


@pytest.mark.parametrize("name", sample(2))
def test_every_number_keeps_to_its_bar(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On every backend that can be used here; without FULL the compiled ones for two losses, half inputs for one."""
    if FULL or name in ALWAYS[:2]:
        monkeypatch.setenv("LOSSDSL_DISABLE", "")
    dtypes = ("float32", "bfloat16", "float16") if FULL or name in ALWAYS[:1] else ("float32",)
    found = accuracy(checked(name), registry(), dtypes=dtypes, by_hand=False)
    assert found.reports
    for report in found.reports:
        assert report.gradient.count or not report.value.count or not written(checked(name), registry()).inputs
    assert found.ok or excused(name, found), in_words(found)
    assert not (FULL and found.ok and name in NOT_FINITE), "every number keeps to its bar: take it off the list"


def excused(name: str, found: Accuracy) -> bool:
    """Whether a loss is known to miss its bars; one of NOT_FINITE, where nothing is missed but infinities, NaN, and
    finite numbers for those beyond float32."""
    beyond = all(len(report.misses) == report.infinite.reasons["miss"] for report in found.reports)
    return name in KNOWN or (name in NOT_FINITE and beyond)


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
@pytest.mark.parametrize("backend", ["torch", "cpu"])
def test_very_many_classes(name: str, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The errors of 50 000 classes, in last places of the largest entry (of the terms, for a value), are no more than
    those of 50 and a few: entries of their own may be near a zero of the gradient, the more the more there are."""
    monkeypatch.setenv("LOSSDSL_DISABLE", "opencl")
    loss = written(checked(name), registry())
    if not loss.rowwise or name == "ranking/pld":  # a square of the classes
        return
    options = {} if loss.checked.reduction is None else {"reduction": "none"}
    try:
        module = lossdsl.loss(name, backend=backend, **options)
    except BackendError:  # it has no words for the loss
        return
    errors = []
    for classes in (50, 50_000):
        case = wide(loss.plain, loss.checked, rewritten=loss.rewritten, classes=classes)
        if case is None:
            return
        should, found = exact(loss, case, "float64"), run_torch(loss, module, case, "float32")
        report = Report(name, backend, "float32")
        judge(report, loss, case, should, found)
        assert report.ok, report.misses
        sizes = {n: should.sizes[n] if n == "rows" else np.max(np.abs(x), initial=0) for n, x in should.values.items()}
        apart = {n: np.where(found[n] == x, 0, found[n] - x.astype(float)) for n, x in should.values.items()}
        off = [np.abs(x) / np.maximum(sizes[n], SMALLEST) for n, x in apart.items()]  # infinite are both or none
        errors.append(max(float(x.max(initial=0)) for x in off) / ULP)
    assert errors[1] <= 8 + 2 * errors[0]


def test_the_rows_go_where_digits_are_lost() -> None:
    """Gaps, ties, offsets, absent classes, a teacher beside its student, denormals, and p beside 0, 1/2 and 1."""
    loss = written(checked("std/kd_kl"), registry())
    found = [c.leaves for c in cases(loss.plain, loss.checked)]
    z, teacher = ([np.asarray(x[name]) for x in found] for name in ("student", "teacher"))
    first = [x[0, 0] - x[0, 1:].max(initial=-np.inf) for x in z]
    assert all(any(abs(g - sign * gap) < 1e-3 for g in first) for gap in (0, 5, 17, 40, 90) for sign in (1, -1))
    assert any(np.ptp(x) == 0 and x.size > 2 for x in z)
    means = [x[np.isfinite(x)].mean() for x in z]
    assert all(any(abs(m - sign * by) < 10 for m in means) for by in (1e2, 1e4, 1e6) for sign in (1, -1))
    assert {np.isinf(x).sum() for x in z} >= {0, 2, 2 * (CLASSES - 1)}
    assert {x.shape[1] for x in z} == {1, 2, CLASSES}
    with np.errstate(invalid="ignore"):  # classes that are absent in both
        apart = [np.abs(x - y).max() for x, y in zip(z, teacher, strict=True)]
    assert any(0 < x < 1e-5 for x in apart)
    assert 0 in apart
    assert any(0 < np.abs(x).max() < SMALLEST for x in z)
    assert any(0 < abs(float(x[0, 0] - x[0, 1])) < 2e-6 for x in z if x.shape[1] == 2)  # of two classes: p near 1/2
    loss = written(checked("std/sigmoid_focal"), registry())
    p = {float(x) for c in cases(loss.plain, loss.checked) for x in c.leaves["target"]}
    near = {where: {x for x in p if 0 < abs(x - where) < 1e-5} for where in (0.0, 0.5, 1.0)}
    assert {0.0, 0.5, 1.0} < p
    assert all(near.values())
    assert any(x < SMALLEST for x in near[0.0])


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


@pytest.mark.parametrize("planted", [np.inf, np.nan])
def test_nothing_excuses_an_infinity(planted: float) -> None:
    """Of a row with numbers beyond float32 and of one that inputs nearby move far, either excuse of a finite number."""
    loss = written(checked("std/softplus_l1_ce"), registry())
    module = lossdsl.loss("softplus_l1_ce", backend="torch", reduction="none")
    for case in cases(loss.plain, loss.checked):
        if case.what not in ("one class ahead by 90", "tied"):
            continue
        found = run_torch(loss, module, case, "float32")
        found["grad.logits"].flat[0] = planted
        report = Report("softplus_l1_ce", "torch", "float32")
        judge(report, loss, case, exact(loss, case), found)
        assert [m for m in report.misses if f"is {planted:g}" in m] == report.misses != []
        assert report.infinite.reasons == {"miss": 1}


class Unmoved:
    """What inputs nearby give: nothing else."""

    def around(self, name: str, place: tuple[int, ...], exact: float) -> list[float]:
        return []


@pytest.mark.parametrize(
    ("number", "off", "reason"),
    [(0.0, 1e-7, "zero"), (1e-15, 1e-7, "zero"), (1e-10, 1e-7, "terms"), (0.0, 1e-4, "miss"), (1e-10, 1e-4, "miss")],
)
def test_nothing_of_its_terms(number: float, off: float, reason: str) -> None:
    """An exact number that is nothing beside terms of size 1 is told from one that a better form would have."""
    loss = written(checked("std/cross_entropy"), registry())
    case = next(iter(cases(loss.plain, loss.checked)))
    should = exact(loss, case)
    found = {name: x.astype(float) for name, x in should.values.items()}
    should.values["grad.logits"].flat[0] = mpmath.mpf(number)
    should.sizes["grad.logits"].flat[0] = 1.0
    found["grad.logits"].flat[0] = number + off
    report = Report("cross_entropy", "torch", "float32")
    still = {halfway: Unmoved(), few: Unmoved(), nearby: Unmoved(), step_errors: {"grad.logits": np.zeros((9, 9))}}
    judge(report, loss, case, replace(should, beyond=False), found, still)
    assert report.gradient.reasons == {reason: 1}
    assert bool(report.misses) == (reason == "miss")


def test_a_finite_number_is_no_infinity() -> None:
    loss = written(checked("std/gaussian_nll"), registry())
    case = next(c for c in cases(loss.plain, loss.checked) if c.what == "low bound and 1e-40")
    should = exact(loss, case)
    found = {name: x.astype(float) for name, x in should.values.items()}
    place = np.unravel_index(np.abs(found["grad.var"]).argmax(), found["grad.var"].shape)
    assert abs(found["grad.var"][place]) > 1e39
    found["grad.var"][place] = 3e38
    report = Report("gaussian_nll", "torch", "float32")
    judge(report, loss, case, should, found)
    assert len(report.misses) == 1
    assert "is 3e+38" in report.misses[0]


@pytest.mark.parametrize(
    ("number", "found", "kept"),
    [
        (1.0, 1 + 2.0**-11, True),  # half a last place, where eight of float32's are the rest of its bar
        (1.0, 1 + 1.2 * 2.0**-11, False),
        (1e5, np.inf, True),
        (1e5, 65504.0, True),
        (1e5, 6e4, False),
        (6e4, np.inf, False),
        (2.0**-26, 0.0, True),
        (2.0**-22, 0.0, False),
    ],
)
def test_a_gradient_in_float16(number: float, found: float, kept: bool) -> None:
    loss = written(checked("std/brier"), registry())
    case = next(iter(cases(loss.plain, loss.checked)))
    should = exact(loss, case)
    should.values["grad.logits"][0, 0] *= number / float(should.values["grad.logits"][0, 0])
    numbers = {name: x.astype(float) for name, x in should.values.items()}
    numbers["grad.logits"][0, 0] = found
    report = Report("brier", "torch", "float16")
    judge(report, loss, case, should, numbers)
    assert report.strict is kept, report


def test_the_table() -> None:
    heard: list[tuple[int, int]] = []
    found = accuracy(checked("std/focal"), registry(), dtypes=("float32",), told=lambda *x: heard.append(x))
    assert heard == [(k, found.cases) for k in range(found.cases + 1)]
    data = record(found)
    ours, by_hand = data["reports"]
    assert (ours["backend"], by_hand["backend"]) == ("torch", "by hand")
    assert by_hand["gradient"]["ulp"] > 1e4 > 100 > ours["gradient"]["ulp"]  # 1 - p of a confident row
    assert "torch, float32" in in_words(found)
