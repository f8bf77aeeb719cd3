"""What `analyze` finds of the library's losses, against what is known of them."""

from __future__ import annotations

import json
from math import inf, log, pi
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from lossdsl.api import registry
from lossdsl.cli._files import read_target
from lossdsl.cli.analyze import command
from lossdsl.derive.analysis.record import analyze
from lossdsl.pipeline import front


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
        ("brier", {}, 0, 2),
        ("normalized_cross_entropy", {}, 0, 1),
        ("binary_hinge", {}, 0, None),
        ("spherical_score", {}, -1, 0),
        ("tvd", {}, 0, 1),
        ("agce", {"a": 1, "q": 2}, 0, 1.5),
    ],
)
def test_bounds(name: str, settings: dict[str, float], low: float, high: float | None) -> None:
    found = record(name, "bounds", **settings)["bounds"]
    assert found["lower"]["value"] == pytest.approx(low, abs=1e-12)
    assert found["lower"]["status"] in ("proved", "held")
    assert found["upper"]["value"] == (None if high is None else pytest.approx(high, abs=1e-12))


@pytest.mark.parametrize(
    ("name", "settings", "wrong", "right"),
    [
        ("cross_entropy", {}, {"kind": "linear", "slope": 1}, {"kind": "bounded", "limit": 0}),
        ("mean_absolute_error", {}, {"kind": "bounded", "limit": 1}, {"kind": "bounded", "limit": 0}),
        ("comp_sum", {"tau": 0}, {"kind": "exponential", "rate": 1}, {"kind": "bounded", "limit": 0}),
        ("binary_hinge", {}, {"kind": "linear", "slope": 1}, {"kind": "bounded", "limit": 0}),
        ("bce", {}, None, None),  # two inputs: the target is a number
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
        ("temperature_scaling_nll", {"log_t": log(2)}, 2 * pi),
        ("mse_onehot", {}, inf),
        ("crammer_singer", {}, inf),  # a tie is not where its kink is
        ("multiclass_perceptron", {}, None),  # here it is
    ],
)
def test_radius(name: str, settings: dict[str, float], radius: float | None) -> None:
    """π/Δ for a log-sum-exp: the nearest zero of Σ e^z off the real line."""
    found = record(name, "shapes", **settings)["margin"]["radius"]
    assert found == (radius if radius is None else "inf" if radius == inf else pytest.approx(radius, rel=1e-12))


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
        ("sigmoid_focal", {}, {"proper": False}),
    ],
)
def test_properties(name: str, settings: dict[str, float], truths: dict[str, bool]) -> None:
    found = {p["claim"]: p["status"] for p in record(name, "properties", **settings)["properties"]}
    assert {claim: found[claim] in ("proved", "held") for claim in truths} == truths


def test_proofs_are_asked_for() -> None:
    found = {p["claim"]: p["status"] for p in record("brier", "properties", timeout=60)["properties"]}
    assert found["proper"] == "proved"
    assert {p["claim"]: p["status"] for p in record("brier", "properties")["properties"]}["proper"] == "held"


def test_what_holds_at_some_params_only() -> None:
    (found,) = (p for p in record("comp_sum", "properties", tau=2)["properties"] if p["claim"] == "symmetric(target)")
    assert (found["status"], found["params"]) == ("proved", "tau = 2")


def test_command(tmp_path: Path) -> None:
    picture = tmp_path / "focal.png"
    run = CliRunner().invoke(command, ["focal", "--set", "gamma=0", "--quick", "--json", "--plot", str(picture)])
    assert run.exit_code == 0, run.output
    found = json.loads(run.output)
    assert found["params"] == {"gamma": 0.0}
    assert found["probability"]["polynomial"][0] == {"power": 1.0, "coefficient": 1.0}
    assert picture.read_bytes().startswith(b"\x89PNG")
    text = CliRunner().invoke(command, ["focal", "--quick"]).output
    assert text.startswith("focal at gamma = 2\n")
    assert "1 (1-p)^3 + 0.5 (1-p)^4" in text
    assert CliRunner().invoke(command, ["focal", "--set", "gama=1"]).exit_code == 2
    assert CliRunner().invoke(command, ["dpo", "--quick", "--plot", str(picture)]).exit_code == 2


def test_a_pole_is_told_from_a_logarithm() -> None:
    at_0 = record("comp_sum", "shapes", tau=0)["probability"]["at_0"]
    assert (at_0["kind"], at_0["exponent"]) == ("power", pytest.approx(1, rel=1e-9))
    at_0 = record("cross_entropy", "shapes")["probability"]["at_0"]
    assert (at_0["kind"], at_0["slope"]) == ("logarithmic", pytest.approx(1, rel=1e-9))
