"""What `analyze` finds of the library's losses, against what is known of them."""

from __future__ import annotations

import json
import re
from math import atan, inf, log, pi
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from lossdsl.api import registry
from lossdsl.cli._files import read_target
from lossdsl.cli.analyze import command
from lossdsl.derive.analysis.record import analyze
from lossdsl.pipeline import front
from lossdsl.source.text import Source


def record(name: str, part: str, timeout: float = 0, **settings: float) -> dict[str, Any]:
    """One part of the analysis: each takes its time."""
    source = read_target(name, registry())
    made = front(source, registry())
    return analyze(made.lossdef, made.checked, registry(), settings, timeout, (part,))


def harmonic(shift: int = 0, first: float = 0.0) -> list[tuple[float, float]]:
    """The series of -log p in 1 - p, times (1 - p)^shift, with something added to its first coefficient."""
    return [(k + shift, 1 / k + (first if k == 1 else 0)) for k in range(1, 9)]


def powers(q: float) -> list[tuple[float, float]]:
    """The series of (1 - p^q)/q in 1 - p: each coefficient is the one before times (k - 1 - q)/k."""
    found = [(1.0, 1.0)]
    for k in range(2, 9):
        found.append((float(k), found[-1][1] * (k - 1 - q) / k))
    return found


@pytest.mark.parametrize(
    ("name", "settings", "series"),
    [
        ("cross_entropy", {}, harmonic()),
        ("focal", {"gamma": 2}, harmonic(2)),
        ("focal", {"gamma": 0.5}, [(e - 1.5, c) for e, c in harmonic(2)]),
        ("poly1_ce", {"epsilon": 2}, harmonic(first=2)),
        ("poly_n_ce", {}, [(1, 2), (2, 1), *harmonic()[2:]]),
        ("poly_truncated_ce", {"terms": 3}, harmonic()[:3]),
        ("mean_absolute_error", {}, [(1, 1)]),
        ("generalized_cross_entropy", {"q": 0.7}, powers(0.7)),
        ("comp_sum", {"tau": 0}, [(k, 1) for k in range(1, 9)]),
        ("comp_sum", {"tau": 1.5}, powers(0.5)),
        ("brier", {}, [(2, 2)]),
        ("label_smoothing_ce", {"eps": 0}, harmonic()),
        ("bce", {}, harmonic()),
        ("sigmoid_focal", {}, [(e, c / 4) for e, c in harmonic(2)]),
        ("kl_div_logp", {}, harmonic()),
        ("crammer_singer", {}, []),  # 0 near p = 1
    ],
)
def test_polynomial(name: str, settings: dict[str, float], series: list[tuple[float, float]]) -> None:
    """The PolyLoss view: coefficients of the powers of 1 - p around p = 1."""
    found = [(t["power"], t["coefficient"]) for t in record(name, "shapes", **settings)["probability"]["polynomial"]]
    assert [e for e, _ in found] == pytest.approx([e for e, _ in series], abs=1e-12)
    assert [c for _, c in found] == pytest.approx([c for _, c in series], rel=1e-12)


@pytest.mark.parametrize(
    ("name", "settings", "weight"),
    [
        ("cross_entropy", {}, lambda p: 1.0),
        ("mean_absolute_error", {}, lambda p: p),
        ("generalized_cross_entropy", {"q": 0.7}, lambda p: p**0.7),
        ("comp_sum", {"tau": 0}, lambda p: 1 / p),
        ("focal", {"gamma": 2}, lambda p: (1 - p) ** 2 - 2 * p * log(p) * (1 - p)),
        ("poly1_ce", {"epsilon": 2}, lambda p: 1 + 2 * p),
        ("temperature_scaling_nll", {"log_t": log(2)}, lambda p: 0.5),
    ],
)
def test_weight(name: str, settings: dict[str, float], weight: Any) -> None:
    """The gradient's factor of (softmax - e), in closed form."""
    found = record(name, "shapes", **settings)["gradient"]["weights"]
    assert len(found) > 10
    for place in found:
        assert place["weight"] == pytest.approx(weight(place["p"]), rel=1e-12)


@pytest.mark.parametrize("name", ["brier", "label_smoothing_ce", "normalized_cross_entropy", "multi_margin"])
def test_no_such_form(name: str) -> None:
    assert record(name, "shapes")["gradient"] is None


@pytest.mark.parametrize(
    ("name", "settings", "low", "high"),
    [
        ("cross_entropy", {}, 0, None),
        ("mean_absolute_error", {}, 0, 1),
        ("generalized_cross_entropy", {"q": 0.5}, 0, 2),
        ("generalized_cross_entropy", {"q": 0.7}, 0, 1 / 0.7),
        ("brier", {}, 0, 2),
        ("normalized_cross_entropy", {}, 0, 1),
        ("binary_hinge", {}, 0, None),
        ("spherical_score", {}, -1, 0),
        ("agce", {"a": 1, "q": 2}, 0, 1.5),
        ("truncated_gce", {}, 0, (1 - 0.5**0.7) / 0.7),
        ("reverse_cross_entropy", {"a": -4}, 0, 4),
        ("gaussian_nll", {}, None, None),  # log(var) at a mean that is right goes down without end
        ("poisson_nll", {}, None, None),
    ],
)
def test_bounds(name: str, settings: dict[str, float], low: float | None, high: float | None) -> None:
    """A bound is proved; where there is none, a ray shows it."""
    found = record(name, "bounds", **settings)["bounds"]
    for side, value in (("lower", low), ("upper", high)):
        assert found[side]["status"] == ("unbounded" if value is None else "proved")
        assert found[side]["value"] == (
            None if value is None else pytest.approx(value, rel=3e-6, abs=1e-12)
        )  # by that intervals may fall short


@pytest.mark.parametrize(
    ("name", "side", "two", "three"),
    [
        ("gini_simpson", "upper", 1 / 2, 2 / 3),
        ("tent_entropy", "upper", log(2), log(3)),
        ("softcapped_ce", "upper", 60.0, 60 + log(2)),  # log(e^30 + (C - 1) e^30) + 30, but for e^-60
        (
            "label_smoothing_ce",
            "lower",
            -0.95 * log(0.95) - 0.05 * log(0.05),  # the entropy of the smoothed target
            -(0.9 + 0.1 / 3) * log(0.9 + 0.1 / 3) - (0.2 / 3) * log(0.1 / 3),
        ),
    ],
)
def test_a_bound_that_grows_with_the_classes(name: str, side: str, two: float, three: float) -> None:
    found = record(name, "bounds")["bounds"][side]
    assert (found["value"], found["status"]) == (None, "proved")
    assert found["by_classes"] == {"2": pytest.approx(two, rel=1e-6), "3": pytest.approx(three, rel=1e-6)}


def bounds_of(text: str) -> dict[str, Any]:
    made = front(Source("tried.loss", text), registry())
    return analyze(made.lossdef, made.checked, registry(), {}, 0, ("bounds",))["bounds"]


@pytest.mark.parametrize(
    ("returned", "low", "high"),
    [
        ("log(x)", "unbounded", "unbounded"),  # as slow as it is, and both ways
        ("log(1 + log(1 + x))", "proved", "seen"),  # slower than a ray tells from a limit: no word of a bound
        ("x / (1 + x)", "proved", "proved"),
        ("log(x) / (1 + log(x)^2)", "seen", "seen"),
        ("1 / x", "proved", "unbounded"),
        ("sqrt(x)", "proved", "unbounded"),
    ],
)
def test_no_bound_is_made_up(returned: str, low: str, high: str) -> None:
    """The extreme of the points that were tried is no bound."""
    found = bounds_of(f"loss tried\ninput x[N] in (0, inf)\nreturn {returned}\n")
    assert found["lower"]["status"] in (low, "proved")
    assert (found["lower"]["status"] == "unbounded") == (low == "unbounded")
    assert found["upper"]["status"] == high
    for side in found.values():
        assert (side["value"] is None) == (side["status"] != "proved")
    if high == "seen":
        assert found["upper"]["detail"].startswith("between ")


@pytest.mark.parametrize(
    ("returned", "value"),
    [("2*sin(x)", -2), ("tanh(if x > 0 then expm1(log(x)) else x - 1)*5", -5), ("min(x, 9)", None)],
)
def test_no_bound_goes_beyond_the_range(returned: str, value: float | None) -> None:
    found = bounds_of(f"loss tried\ninput x[N]\nreturn {returned}\n")
    assert found["lower"]["value"] == value
    if value is None:
        assert found["lower"]["status"] == "unbounded"


@pytest.mark.parametrize(
    ("name", "settings", "wrong", "right"),
    [
        ("cross_entropy", {}, {"kind": "linear", "slope": 1}, {"kind": "bounded", "limit": 0}),
        ("mean_absolute_error", {}, {"kind": "bounded", "limit": 1}, {"kind": "bounded", "limit": 0}),
        ("comp_sum", {"tau": 0}, {"kind": "exponential", "rate": 1}, {"kind": "bounded", "limit": 0}),
        ("binary_hinge", {}, {"kind": "linear", "slope": 1}, {"kind": "bounded", "limit": 0}),
        ("bce", {}, {"kind": "linear", "slope": 1}, {"kind": "bounded", "limit": 0}),
        ("sigmoid_focal", {}, {"kind": "linear", "slope": 0.25}, {"kind": "bounded", "limit": 0}),
        ("stablemax_ce", {}, {"kind": "logarithmic", "slope": 1}, {"kind": "bounded", "limit": 0}),
        ("mse_onehot", {}, {"kind": "power", "exponent": 2}, {"kind": "power", "exponent": 2}),
        ("z_loss_ce", {}, {"kind": "linear", "slope": 1}, {"kind": "power", "exponent": 2}),
        ("spherical_score", {}, {"kind": "bounded", "limit": 0}, {"kind": "bounded", "limit": -1}),
        ("ovr", {}, {"kind": "linear", "slope": 1}, {"kind": "bounded", "limit": log(2)}),
        ("kl_div_logp", {}, {"kind": "linear", "slope": 1}, {"kind": "bounded", "limit": 0}),  # of a certain target
        ("cosface_cosine", {}, None, None),  # a cosine has no far end
        ("nwj_bound", {}, None, None),  # nothing is the target
        ("dpo", {}, None, None),
    ],
)
def test_growth(name: str, settings: dict[str, float], wrong: Any, right: Any) -> None:
    found = record(name, "shapes", **settings)["margin"]
    if wrong is None:
        assert found is None
        return
    for side, expected in (("wrong", wrong), ("right", right)):
        assert found[side]["kind"] == expected["kind"]
        (key,) = set(expected) - {"kind"}
        assert found[side][key] == pytest.approx(expected[key], rel=1e-3, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "settings", "radius"),
    [
        ("cross_entropy", {}, pi),
        ("focal", {"gamma": 2}, pi),
        ("brier", {}, pi),
        ("mse_onehot", {}, inf),
        ("crammer_singer", {}, inf),  # a tie is not where its kink is
        ("multiclass_perceptron", {}, 0),  # here it is
        ("comp_sum", {"tau": 0}, inf),  # (C - 1) e^-m
        ("bce", {}, pi),
    ],
)
def test_radius(name: str, settings: dict[str, float], radius: float) -> None:
    """π/Δ for a log-sum-exp: the nearest zero of Σ e^z off the real line."""
    found = record(name, "shapes", **settings)["margin"]["radius"]
    assert found == ("inf" if radius == inf else pytest.approx(radius, rel=1e-12))


@pytest.mark.parametrize(
    ("name", "settings", "radius"),
    [
        ("taylor_softmax_nll", {}, 2**0.5),  # 1 + z + z²/2 is 0 at -1 ± i
        ("spherical_score", {}, pi / 2),  # e^2m = -1
        ("temperature_scaling_nll", {"log_t": log(2)}, 2 * pi),
        ("softcapped_ce", {}, 30 * atan(pi / 30)),  # near π, and not π: 30 tanh(m/30) = iπ
    ],
)
def test_a_radius_that_is_an_estimate(name: str, settings: dict[str, float], radius: float) -> None:
    found = record(name, "shapes", **settings)["margin"]["radius"]
    assert found == pytest.approx(radius, rel=1e-3)
    assert found != pi


@pytest.mark.parametrize(
    ("name", "settings", "truths"),
    [
        ("cross_entropy", {}, {"shift_invariant(logits)": True, "convex(logits)": True, "symmetric(target)": False}),
        ("mean_absolute_error", {}, {"symmetric(target)": True, "convex(logits)": False, "proper": False}),
        ("normalized_cross_entropy", {}, {"symmetric(target)": True, "convex(logits)": False}),
        ("focal", {}, {"convex(logits)": False, "proper": False, "calibrated for 3 classes": True}),
        ("brier", {}, {"convex(logits)": False, "proper": True, "calibrated for 3 classes": True}),
        (
            "crammer_singer",
            {},
            {"convex(logits)": True, "calibrated for 2 classes": True, "calibrated for 3 classes": False},
        ),
        ("weston_watkins", {}, {"convex(logits)": True, "calibrated for 3 classes": False}),
        ("multi_margin", {}, {"convex(logits)": True, "calibrated for 3 classes": False}),
        ("ovr", {}, {"shift_invariant(logits)": False, "convex(logits)": True, "calibrated for 3 classes": True}),
        ("bce", {}, {"convex(logits)": True, "proper": True}),
        ("squentropy", {}, {"shift_invariant(logits)": False, "convex(logits)": True}),
        ("sigmoid_focal", {}, {"proper": False, "symmetric(target)": False}),
        ("bce", {}, {"symmetric(target)": False}),
        ("kto", {}, {"symmetric(desirable)": True}),  # s and 1 - s
    ],
)
def test_properties(name: str, settings: dict[str, float], truths: dict[str, bool]) -> None:
    found = {p["claim"]: p["status"] for p in record(name, "properties", **settings)["properties"]}
    assert {claim: found[claim] in ("proved", "held") for claim in truths} == truths


def test_a_series_that_there_is_not() -> None:
    """log(1 - p) has none in 1 - p."""
    assert record("label_smoothing_ce", "shapes")["probability"]["polynomial"] is None


def test_which_probability() -> None:
    """Of the softmax that the loss takes: with a prior, that isn't the logits' own."""
    assert record("logit_adjusted_ce", "shapes")["probability"]["of"].startswith("the target, by the softmax that")
    assert record("cross_entropy", "shapes")["probability"]["of"] == "the target"
    assert record("tent_entropy", "shapes")["probability"]["of"].startswith("the first class")


def test_cosines_are_no_logits() -> None:
    """A grid of logits up to 30 lies outside [-1, 1]."""
    found = {p["claim"] for p in record("arcface_cosine", "properties")["properties"]}
    assert not [claim for claim in found if claim.startswith(("calibrated", "proper"))]


def test_proofs_are_asked_for() -> None:
    found = {p["claim"]: p["status"] for p in record("brier", "properties", timeout=60)["properties"]}
    assert found["proper"] == "proved"
    assert {p["claim"]: p["status"] for p in record("brier", "properties")["properties"]}["proper"] == "held"


def test_what_holds_at_some_params_only() -> None:
    (found,) = (p for p in record("comp_sum", "properties", tau=2)["properties"] if p["claim"] == "symmetric(target)")
    assert (found["status"], found["params"]) == ("proved", "tau = 2")


def test_command(tmp_path: Path) -> None:
    picture = tmp_path / "focal.png"
    run = CliRunner().invoke(command, ["comp_sum", "--set", "tau=2", "--quick", "--json", "--plot", str(picture)])
    assert run.exit_code == 0, run.output
    found = json.loads(run.output)
    assert found["params"] == {"tau": 2.0}
    assert found["probability"]["polynomial"] == [{"power": 1.0, "coefficient": 1.0}]
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert CliRunner().invoke(command, ["focal", "--set", "gama=1"]).exit_code == 2
    assert CliRunner().invoke(command, ["dpo", "--quick", "--plot", str(picture)]).exit_code == 2
    hinge = tmp_path / "hinge.png"
    text = CliRunner().invoke(command, ["binary_hinge", "--quick", "--plot", str(hinge)]).output
    assert text.startswith("binary_hinge at margin = 1\n")
    for line in (
        r"lower bound +0 \(proved by the range of the expression\)",
        r"upper bound +none: it grows as logits\[0\] -> -inf: 1.0e\+10, 1.0e\+20, … at steps of ten orders.*",
        r"in 1 - p +0 near p = 1 \(two classes\)",
        r"margin -> -inf +linear, slope 1",
        r"radius along a step +infinite",
    ):
        assert re.search(rf"^  {line}$", text, re.MULTILINE), text
    assert hinge.read_bytes().startswith(b"\x89PNG")


def test_a_pole_is_told_from_a_logarithm() -> None:
    at_0 = record("comp_sum", "shapes", tau=0)["probability"]["at_0"]
    assert (at_0["kind"], at_0["exponent"]) == ("power", pytest.approx(1, rel=1e-9))
    at_0 = record("cross_entropy", "shapes")["probability"]["at_0"]
    assert (at_0["kind"], at_0["slope"]) == ("logarithmic", pytest.approx(1, rel=1e-9))


def test_a_bound_for_two_entries_is_tried_at_more() -> None:
    """The largest of two probabilities is 1/2 at least, that of three isn't."""
    from lossdsl.check.check import check
    from lossdsl.derive.analysis.extremes import bounds
    from lossdsl.derive.claims.setting import subject
    from lossdsl.plugins import discover
    from lossdsl.source.text import Source
    from lossdsl.syntax.parse import parse

    source = Source("l.loss", "loss l\ninput q[N, C]: prob C\nreturn max[C](q)\n")
    lossdef, registry = parse(source), discover({})
    low, high = bounds(subject(lossdef, check(lossdef, source, registry), registry), 5)
    assert low.status == "seen"
    assert (high.status, high.value) == ("proved", 1)
