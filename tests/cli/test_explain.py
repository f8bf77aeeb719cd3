from __future__ import annotations

import json

import pytest

from lossdsl.explain import loss_record
from lossdsl.plugins import discover
from lossdsl.source.codes import all_codes
from lossdsl.source.text import Source
from tests.losses import CASES, STANDARD


def test_a_loss_in_words(run):
    text = run("explain", "cross_entropy").stdout
    assert text.startswith("loss cross_entropy  (")
    assert "  logits[N, C]: real\n" in text
    assert "Equation: the mean over N of what is returned" in text
    assert "  d loss / d logits[N, C] = if C == target then expm1(t2) else exp(t1)\n" in text
    assert "\nBackend: " in text


def test_a_loss_for_programs(run):
    record = json.loads(run("explain", "focal", "--json").stdout)
    assert record["name"] == "focal"
    assert record["reduction"] == "mean"
    assert record["over"] == ["N"]
    assert [item["name"] for item in record["inputs"]] == ["logits", "target", "alpha"]
    assert [item["input"] for item in record["gradient"]] == ["logits", "gamma"]
    costs = {cost["name"]: cost for cost in record["cost"]}
    assert costs["value"]["reads"] == pytest.approx(1, abs=0.01)
    assert costs["gradient"]["reads"] == pytest.approx(1, abs=0.01)
    assert costs["gradient"]["writes"] == pytest.approx(1, abs=0.01)
    assert record["backend"]["name"] in {"torch", "cpu"}


def test_for_a_device_no_backend_is_for_every_one(run):
    record = json.loads(run("explain", "focal", "--device", "mps", "--json").stdout)
    assert record["backend"]["name"] == "torch"


def test_of_a_wrong_file(run, wrong):
    result = run("explain", wrong)
    assert result.exit_code == 1
    assert "`y`" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("code", sorted(all_codes()))
def test_every_code_is_explained(run, code):
    text = run("explain", code.lower()).stdout
    record = json.loads(run("explain", code, "--json").stdout)
    assert text.startswith(f"{code}: {record['title']}\n\n")
    assert record["code"] == code
    assert record["reason"]
    assert record["fix"]
    for line in record["example"].splitlines():
        assert line in text


def test_an_unknown_code_is_a_wrong_call(run):
    result = run("explain", "E9999")
    assert result.exit_code == 2
    assert "there is no code E9999" in result.stderr


@pytest.mark.parametrize(
    ("name", "depends"),
    [("cross_entropy", False), ("weighted_cross_entropy", False), ("nt_xent", True), ("dice", True)],
)
def test_a_note_says_when_samples_depend_on_each_other(name: str, depends: bool) -> None:
    path = next(p for p in (STANDARD / f"{name}.loss", CASES / f"{name}.loss") if p.exists())
    record = loss_record(Source(name, path.read_text()), discover(), "cpu")
    assert any("share the batch" in note for note in record["notes"]) == depends
