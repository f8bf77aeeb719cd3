"""Losses as they are written and as the rules have them: the same value and gradient, at 50 digits and more.

And the rules that accuracy called for, each with the text that needs it, the digits that it keeps in float32, and a
wrong rule that is seen.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import mpmath
import numpy as np
import pytest

import lossdsl
from lossdsl.accuracy.exact import Written, exact, leaves_of, written
from lossdsl.accuracy.measure import Report, judge, run_torch
from lossdsl.accuracy.rows import Case, cases
from lossdsl.api import registry
from lossdsl.ir import rewrite as rewriting
from lossdsl.ir.builder import Builder
from lossdsl.ir.graph import Attr
from lossdsl.ir.interpret import evaluate
from lossdsl.ir.rules.match import inside
from tests.losses import FULL

ALL = sorted(registry().losses)
DIGITS = mpmath.mpf(10) ** -50
PI_FOLDED = mpmath.mpf(10) ** -15  # a multiple of pi is folded as that of its nearest double


def difference(loss: Written, case: Case) -> Any:
    """How far value and gradient of the two graphs are apart, relative to what is added up in them."""
    names = ["rows", *(f"grad.{name}" for name in loss.inputs)]
    sizes = exact(loss, case).sizes
    worst = mpmath.mpf(0)
    given = [(g, leaves_of(g, case)) for g in (loss.plain, loss.rewritten)]
    extents = {a: case.sizes[a.rstrip("'")] for a in loss.plain.axes if a.rstrip("'") in case.sizes}
    plain, ruled = (evaluate(g, registry(), leaves, names, "mpmath", extents) for g, leaves in given)
    for name in names:
        for a, b, size in zip(plain[name].flat, ruled[name].flat, sizes[name].flat, strict=True):
            if not (mpmath.isnan(a) or mpmath.isinf(a)):
                with mpmath.workdps(60):
                    worst = max(worst, abs(a - b) / (1 + abs(a) + mpmath.mpf(float(size))))
    return worst


def loads(text: str) -> Written:
    return written(lossdsl.loads(text).checked, registry())


@pytest.mark.parametrize("name", ALL if FULL else random.Random(2).sample(ALL, 6))
def test_losses_as_written_and_as_rewritten(name: str) -> None:
    loss = written(lossdsl.load(name).checked, registry())
    case = next(iter(cases(loss.plain, loss.checked)))
    assert difference(loss, case) < (PI_FOLDED if "pi" in lossdsl.load(name).text.split() else DIGITS) or (
        "pi" in lossdsl.load(name).text and difference(loss, case) < PI_FOLDED
    )


HEAD = "loss form\ninput logits[N, C]\ninput target[N]: index C\n"
FORMS = {
    # what is written, and how near float32 comes to it on rows where the plain form loses its digits
    "log of a bound": "return -log(max(1 - softmax(logits)[target], 1e-20))",
    "log of a choice": "p = softmax(logits)\nreturn -sum[C](log(if C == target then p else 1 - p))",
    "beyond a running sum": "return sum[C]((1 - cumsum[C](softmax(logits)))^2 where C >= target)",
    "a put under a condition": "return softplus(-sum[C](log_softmax(logits) where C == target and size(C) > 1))",
    "power of a sigmoid": "return sigmoid(logits[target])^0.5",
    "power of a complement": "return (1 - softmax(logits)[target])^0.5",
    "log of a product": "p = softmax(logits)\nreturn -log(p[target] * (1 - p[target]))",
    "the loss of a bit": "return sum[C](softplus(logits) - (C == target) * logits)",
    "power of a bound": "return (1 - clip(softmax(logits)[target], 1e-30, 1)^0.7) / 0.7",
    "a mixture with one class": "m = 0.1 * (C == target) + 0.9 * softmax(logits)\nreturn -log(m[target])",
    "log-odds": "p = log_softmax(logits)\nreturn sum[C](softplus(p - p[target]) where C != target)",
    "opposites": "u = softplus(logits)\nreturn sum[C]((u + 1 - u[target]) - 1 where C != target)",
    "two kinds of cotangent": "p = softmax(logits)\nreturn sum[C](9 * p where C != target) - 1 / sum[C](log(p))",
    "root of an entry": "return sqrt(softmax(logits)[target])",
}


@pytest.mark.parametrize("form", FORMS if FULL else [*FORMS][:5])
def test_forms_keep_their_digits(form: str) -> None:
    text = HEAD + FORMS[form] + "\n"
    loss = loads(text)
    module = lossdsl.loss(lossdsl.loads(text), backend="torch", reduction="none")
    report = Report(form, "torch", "float32")
    for case in cases(loss.plain, loss.checked):
        if "inf" not in case.what and case.what != "one class":
            assert difference(loss, case) < DIGITS
        judge(report, loss, case, exact(loss, case), run_torch(loss, module, case, "float32"))
    assert report.ok, report.misses
    assert set(report.value.reasons) <= {"inputs", "terms"}, report.value


def planted(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    """1 - e^u taken for -u, which it is near 0 only."""
    u = inside(b, args[1], "exp") if b.value(args[0]) == 1 else None
    return None if u is None else b.node("neg", [u])


def test_a_wrong_rule_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    # Before the plant: it would go into the cache of modules, which other tests read.
    module = lossdsl.loss("mean_absolute_error", backend="torch", reduction="none")
    rules = dict(rewriting.rules())
    assert difference(loads(HEAD + "return 1 - softmax(logits)[target]\n"), one_case()) < DIGITS
    rules["sub"] = (rewriting.Rule("planted", ("sub",), "it is wrong", planted), *rules["sub"])
    monkeypatch.setattr(rewriting, "rules", lambda: rules)
    loss = loads(HEAD + "return 1 - softmax(logits)[target]\n")
    assert difference(loss, one_case()) > 0.01
    good = run_torch(loss, module, one_case(), "float32")
    wrong = {
        n: np.array(evaluate(loss.rewritten, registry(), leaves_of(loss.rewritten, one_case()), [n])[n]) for n in good
    }
    report = Report("form", "torch", "float32")
    judge(report, loss, one_case(), exact(loss, one_case()), wrong)
    assert report.misses


def one_case() -> Case:
    loss = loads(HEAD + "return -log(softmax(logits)[target])\n")
    return replace(next(iter(cases(loss.plain, loss.checked))), what="planted")
