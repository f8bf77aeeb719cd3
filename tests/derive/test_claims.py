"""Claims of every kind: proved ones, ones that hold at points, and false ones, which must be refuted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from lossdsl.check.check import check
from lossdsl.derive.claims import by_algebra
from lossdsl.derive.claims.decide import decide
from lossdsl.derive.claims.properties import scores
from lossdsl.derive.claims.setting import place, subject
from lossdsl.derive.claims.verdict import Verdict
from lossdsl.derive.prove import settle
from lossdsl.plugins import discover
from lossdsl.source.text import Source
from lossdsl.syntax.parse import parse

REGISTRY = discover({})  # found once: looking takes longer than most of what is tested here

HEAD = "loss l\ninput logits[N, C]\ninput target[N]: index C\n"
CE = HEAD + "return -log(softmax(logits)[target])\n"
MAE = HEAD + "return 1 - softmax(logits)[target]\n"
GCE = HEAD + "param q = 0.7 in (0, 1]\nreturn (1 - softmax(logits)[target]^q) / q\n"
POLY1 = HEAD + "p = softmax(logits)[target]\nreturn 2 * (1 - p) - log(p)\n"
SQUARED = HEAD + "param c = 0.01 in [0, inf)\nreturn cross_entropy(logits, target) + c * logsumexp(logits)^2\n"
FOCAL = HEAD + "param gamma = 2 in [0, inf)\np = softmax(logits)[target]\nreturn -(1 - p)^gamma * log(p)\n"
NCE = HEAD + "logp = log_softmax(logits)\nreturn logp[target] / sum[C](logp)\n"
NCE_MAE = HEAD + "logp = log_softmax(logits)\nreturn 2 * logp[target] / sum[C](logp) + (1 - exp(logp[target])) / 3\n"
ADJUSTED = (
    HEAD + "input prior[C] in (0, 1]\nparam t = 2 in (0, inf)\nreturn cross_entropy(logits / t + log(prior), target)\n"
)
MARGIN = HEAD + "return relu(1 - logits[target] + max[C](logits where C != target))\n"
ENTMAX = (
    HEAD
    + "t = root(t in [max[C](logits) - 1, max[C](logits)]: sum[C](relu(logits - t)) - 1)\n"
    + "return sum[C](relu(logits - t)^2) - relu(logits[target] - t)\n"
)
BRIER = HEAD + "return sum[C]((softmax(logits) - (C == target))^2)\n"
ZLOSS = HEAD + "return logsumexp(logits)^2 + 0 * logits[target]\n"
UNEVEN = HEAD + "return logsumexp(logits * (1 + (C == target))) - logits[target]\n"
SPREAD = HEAD + "p = softmax(logits)\nreturn 1 - 2 * p[target] + sum[C](p^2)\n"
RLL = HEAD + "p = softmax(logits)\nreturn mean[C](log(0.1 + p) where C != target) - log(0.1 + p[target])\n"
KL = "loss l\ninput z[N, C]\ninput q[N, C]: prob C fixed\nreturn kl(q, softmax(z))\n"
PAIRS = "loss l\ninput x[N, D]\nreturn mean[N'](cosine[D](x, x'))\n"
BENT = "loss l\ninput x[N]\nreturn x^2 - tanh(x) / 4\n"
HUBER = "loss l\ninput x[N]\nparam d = 1 in (0, inf)\nreturn if abs(x) <= d then x^2 / 2 else d * (abs(x) - d / 2)\n"
HINGE = "loss l\ninput x[N]\nreturn relu(1 - x)\n"


def verdicts(text: str, *claims: str) -> tuple[Verdict, ...]:
    source = Source("l.loss", text + "".join(f"claim {c}\n" for c in claims))
    lossdef = parse(source)
    return decide(lossdef, check(lossdef, source, REGISTRY), REGISTRY)


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        (CE, "loss == cross_entropy(logits, target)"),
        (FOCAL, "loss == cross_entropy(logits, target) when gamma = 0"),
        (GCE, "loss == mean_absolute_error(logits, target) when q = 1"),
        (CE, "loss >= 0"),
        (GCE, "loss >= 0"),
        (GCE, "loss <= 1 / q"),
        (MAE, "loss <= 1"),
        (CE, "shift_invariant(logits)"),
        (FOCAL, "shift_invariant(logits)"),
        (BRIER, "shift_invariant(logits)"),
        (MAE, "symmetric(target)"),
        (NCE, "symmetric(target)"),
        (NCE_MAE, "symmetric(target)"),
        (ADJUSTED, "shift_invariant(logits)"),
        (MARGIN, "shift_invariant(logits)"),
        (ENTMAX, "shift_invariant(logits)"),
        (CE, "convex(logits)"),
        (HINGE, "convex(x)"),
        (CE, "grad(logits) == softmax(logits) - (C == target)"),
    ],
)
def test_proved(text: str, claim: str) -> None:
    (verdict,) = verdicts(text, claim)
    assert verdict.status == "proved"
    assert verdict.claim == claim
    assert verdict.detail


@pytest.mark.parametrize(
    ("text", "claim", "way"),
    [
        (GCE, "loss == cross_entropy(logits, target) when q -> 0", "limit"),
        (FOCAL, "loss == cross_entropy(logits, target) when gamma -> 0", "limit"),
        (GCE, "loss == mean_absolute_error(logits, target) when q = 1", "rewritten"),
        (SPREAD, "loss == brier(logits, target)", "algebra"),
        (RLL, "symmetric(target)", "algebra"),
        (BRIER, "loss <= 2", "intervals"),
        (FOCAL, "loss <= cross_entropy(logits, target)", "any number of classes"),
        (GCE, "loss <= cross_entropy(logits, target)", "any number of classes"),
        (CE, "lipschitz(logits) <= sqrt(2)", "any number of classes"),
        (FOCAL, "lipschitz(logits) <= 1.6 when gamma = 2", "any number of classes"),
        (BRIER, "lipschitz(logits) <= 2", "intervals"),
        (HINGE, "lipschitz(x) <= 1", "intervals"),
        (HUBER, "loss >= 0", "signs of its parts"),  # beyond delta, |x| - delta/2 is more than delta/2
        (BENT, "convex(x)", "second derivative"),
        (CE, "proper", "tangents"),
        (BRIER, "proper", "tangents"),
        (FOCAL, "proper when gamma = 0", "tangents"),
        (KL, "proper", "tangents"),
    ],
)
def test_proved_over_the_whole_domain(text: str, claim: str, way: str) -> None:
    (verdict,) = verdicts(text, claim)
    assert verdict.status == "proved", verdict
    assert way in verdict.detail


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        (ENTMAX, "loss >= -2"),  # a root has no enclosure
        (PAIRS, "loss >= -1"),  # rows that read other rows are not taken by themselves
    ],
)
def test_held(text: str, claim: str) -> None:
    (verdict,) = verdicts(text, claim)
    assert verdict.status == "held"
    assert 1 <= verdict.points <= 24 + 18  # drawn ones, and some where the loss may turn
    assert (verdict.digits, verdict.seed) == (40, 0)


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        (FOCAL, "loss == cross_entropy(logits, target) when gamma = 0.001"),
        (CE, "loss == 1.000001 * cross_entropy(logits, target)"),
        (CE, "loss >= 0.001"),
        (GCE, "loss <= 1"),
        (ZLOSS, "shift_invariant(logits)"),
        (UNEVEN, "shift_invariant(logits)"),
        (ADJUSTED, "symmetric(target)"),
        (CE, "symmetric(target)"),
        (BRIER, "symmetric(target)"),
        (GCE, "convex(logits)"),
        (MAE, "convex(logits)"),
        (POLY1, "convex(logits)"),  # bent the other way where p < 1/4 alone
        (POLY1, "proper"),  # whose least risk is near the distribution, but not there
        (SQUARED, "convex(logits)"),
        (CE, "lipschitz(logits) <= 1"),
        (MAE, "proper"),
        (CE, "grad(logits) == softmax(logits)"),
        (GCE, "loss == mean_absolute_error(logits, target) when q -> 0"),
        (GCE, "lipschitz(logits) <= 1.4142"),
        (BRIER, "loss <= 1.9999"),
        (FOCAL, "proper"),
        (GCE, "loss >= 0.5 when q = 1"),
        (HUBER.replace("<=", ">="), "loss >= 0"),  # what a branch knows is not what the other does
    ],
)
def test_refuted(text: str, claim: str) -> None:
    (verdict,) = verdicts(text, claim)
    assert verdict.status == "refuted"
    assert " = [" in verdict.detail, "a counterexample is shown"
    assert verdict.problem is not None
    assert verdict.problem.code == "E0903"


def test_a_counterexample_is_a_small_one() -> None:
    (verdict,) = verdicts(CE, "loss >= 1")
    assert verdict.detail == "logits = [[0.0, 0.0]], target = [0]"


@pytest.mark.parametrize(
    ("within", "returned", "claim", "at"),
    [
        ("(0, inf)", "log(x)", "loss >= -5", "[0.001]"),
        ("(0, inf)", "log(x)", "loss >= -100", "[1e-64]"),  # intervals refute it at 0, which is no value
        ("(0, inf)", "x", "loss >= 0.5", "[0.1]"),
        ("(0, inf)", "x", "loss <= 10", "[100.0]"),
        ("(0, inf)", "1 / x", "loss <= 10", "[0.01]"),
        ("(-inf, 0)", "x", "loss <= -1", "[-0.5]"),
        ("(2, inf)", "x", "loss >= 2.5", "[2.1]"),
        ("(0, 1)", "x", "loss >= 0.5", "[0.1]"),
        ("[0, 1]", "x", "loss >= 0.5", "[0.0]"),  # an end that belongs to it is the plainest there is
        ("(0, inf)", "sqrt(x)", "lipschitz(x) <= 3", "[0.01]"),
    ],
)
def test_a_counterexample_is_a_value_of_its_domain(within: str, returned: str, claim: str, at: str) -> None:
    (verdict,) = verdicts(f"loss l\ninput x[N] in {within}\nreturn {returned}\n", claim)
    assert (verdict.status, verdict.detail) == ("refuted", f"x = {at}")


def test_a_counterexample_has_few_classes() -> None:
    text = HEAD + "param t = 1 in (0, inf)\nreturn cross_entropy(logits / t, target)\n"
    (verdict,) = verdicts(text, "lipschitz(logits) <= 3")
    assert (verdict.status, verdict.detail) == ("refuted", "logits = [[0.0, 0.0]], target = [0], t = 0.1")


def test_the_index_of_a_counterexample_stays_in_its_axis() -> None:
    """A plain number is no class: 10 of five."""
    (verdict,) = verdicts(HEAD + "return if target >= 2 then -softmax(logits)[target] else 1\n", "loss >= 0")
    assert (verdict.status, verdict.detail) == ("refuted", "logits = [[0.0, 0.0, 0.0]], target = [2]")


def test_what_no_entry_takes_part_in() -> None:
    (verdict,) = verdicts("loss l\ninput x[N]\nreturn 0 * x + 1\n", "loss >= 2")
    assert (verdict.status, verdict.detail) == ("refuted", "every point")


def test_a_counterexample_that_points_miss() -> None:
    """Intervals find a violation in a corner, and it is tried exactly."""
    (verdict,) = verdicts(FOCAL, "lipschitz(logits) <= 3")
    assert verdict.status == "refuted"
    assert float(verdict.detail.split("gamma = ")[1]) > 50


def test_large_params_are_tried() -> None:
    """The gradient grows with beta, far beyond what its usual values show."""
    text = (
        HEAD + "param beta = 0.1 in [0, inf)\nreturn cross_entropy(logits, target) - beta * entropy(softmax(logits))\n"
    )
    (verdict,) = verdicts(text, "lipschitz(logits) <= 2")
    assert verdict.status == "refuted"


def test_a_condition_is_not_passed_over() -> None:
    first, second = verdicts(GCE, "loss <= 1 when q = 1", "loss <= 1 when q = 0.5")
    assert (first.status, second.status) == ("proved", "refuted")
    convex, bent = verdicts(FOCAL, "convex(logits) when gamma = 0", "convex(logits) when gamma = 3")
    assert (convex.status, bent.status) == ("proved", "refuted")


def test_sympy_has_a_clock() -> None:
    """A claim that only algebra proves is held where it is given no time."""
    source = Source("l.loss", SPREAD + "claim loss == brier(logits, target)\n")
    lossdef = parse(source)
    checked = check(lossdef, source, REGISTRY)
    assert [v.status for v in decide(lossdef, checked, REGISTRY, timeout=0)] == ["held"]
    assert [v.status for v in decide(lossdef, checked, REGISTRY)] == ["proved"]


def test_probabilities_sum_to_one_at_every_point() -> None:
    text = "loss l\ninput z[N, C]\ninput q[N, C]: prob C fixed\nreturn kl(q, softmax(z))\n"
    (verdict,) = verdicts(text, "loss >= 0")
    assert verdict.status == "held"


def test_a_loss_called_in_a_claim_is_worth_its_rows() -> None:
    text = "loss l\ninput x[N]\ninput t[N]: fixed in [0, 1]\nreturn softplus(x) - t * x\n"
    (verdict,) = verdicts(text, "loss == bce(x, t)")
    assert verdict.status in ("proved", "held")


def question(text: str, kind: str, **more: object) -> Mapping[str, Any]:
    """What sympy would be asked of a loss, without having held at points first."""
    source = Source("l.loss", text)
    lossdef = parse(source)
    about = subject(lossdef, check(lossdef, source, REGISTRY), REGISTRY)
    if kind == "proper":
        told = scores(about)
        assert told is not None
        b, node = told.builder, told.losses(None)
    else:
        b = about.builder()
        node = place(b, about.graph, {})["rows"]
    found = by_algebra.request(about, b, node, kind, **more)
    assert found is not None
    return found


def test_sympy_shows_nothing_that_is_false() -> None:
    """Points refute a false claim before sympy sees it; here each kind of question is put to it at once."""
    limit = {"param": "q", "to": "0", "sides": ["+"]}
    difference = GCE.replace("return ", "return cross_entropy(logits, target) - ")
    true = [
        question(HEAD + "return brier(logits, target) - 1 + 2 * softmax(logits)[target] - sum[C](softmax(logits)^2)\n",
                 "zero"),
        question(HEAD + "return sum[C](softmax(logits)) + 0 * logits[target]\n", "constant"),
        question(difference, "limit", **limit),
        question(BRIER, "proper"),
    ]  # fmt: skip
    false = [
        question(HEAD + "return brier(logits, target) - 1 + 2 * softmax(logits)[target]\n", "zero"),
        question(BRIER, "constant"),
        question(difference, "limit", **{**limit, "to": "1/2"}),
        question(HEAD + "return softmax(logits)[target] - 0.01\n", "sign"),
        question(HEAD + "return softmax(logits)[target]^2\n", "proper"),
    ]
    assert settle(true + false, 20) == [True] * len(true) + [False] * len(false)


JUMPING = "loss l\ninput x[N]\nparam q = 0.5 in [0, 2]\nreturn x^2 + sign(q - 1) + (if q > 1 then 1 else 0)\n"


@pytest.mark.parametrize(
    ("claim", "status", "side"),
    [
        ("loss == x^2 + 2 when q -> 1", "refuted", "from below"),
        ("loss == x^2 - 1 when q -> 1", "refuted", "from above"),
        ("loss == x^2 + 2 when q -> 2", "proved", ""),  # the param's values end there
        ("loss == x^2 - 1 when q -> 0", "proved", ""),
    ],
)
def test_a_limit_is_of_both_sides(claim: str, status: str, side: str) -> None:
    (verdict,) = verdicts(JUMPING, claim)
    assert verdict.status == status
    assert verdict.detail.endswith(side)
    assert verdict.status == "proved" or verdict.problem is not None


def test_what_proper_asks_of_a_target_is_said() -> None:
    moving = "loss l\ninput q[N, C]: prob C\ninput logits[N, C]\nreturn -sum[C](q * log_softmax(logits))\n"
    (verdict,) = verdicts(moving, "proper")
    assert verdict.status == "undecided"
    assert "`fixed`" in verdict.detail
    (verdict,) = verdicts(moving.replace("prob C", "prob C fixed"), "proper")
    assert verdict.status == "proved"


@pytest.mark.parametrize("text", ["axis K = 10000000000\nreturn x^2 + sum[K](K*x)\n",
                                  "axis K = 3000\nreturn sum[K, K'](cos(K*x + K'))\n"])  # fmt: skip
def test_an_axis_too_long_to_try_is_said(text: str) -> None:
    (verdict,) = verdicts(f"loss l\ninput x[N]\n{text}", "loss >= 0")
    assert (verdict.status, "too many entries" in verdict.detail) == ("undecided", True)
