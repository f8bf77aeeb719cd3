"""`benchmarks/accuracy.py`: what has not changed isn't measured again, and the tables count what was found."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import lossdsl
from lossdsl.accuracy import exact, rows, table
from lossdsl.api import registry

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
GAP = "loss gap\ninput x[N]\nreturn (exp(x) - 1)^2\n"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, which keeps in a folder and writes a page of the test's."""
    spec = importlib.util.spec_from_file_location("lossdsl_accuracy_tables", BENCHMARKS / "accuracy.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "KEPT", tmp_path / "kept")
    monkeypatch.setattr(module, "PAGE", tmp_path / "page.md")
    return module


def refused(*_: object) -> Any:
    raise AssertionError("these numbers are known")


def test_what_is_known_is_not_measured_again(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "gap.loss"
    path.write_text(GAP)
    assert script.measured(str(path), ["torch"]) == ["torch"]
    assert script.measured(str(path), ["torch"]) == []
    assert script.measured(str(path), ["torch"], "float16") == ["torch"]
    [(at, report)] = script.kept()["torch", "float32", False].items()
    assert (at, report["beyond"]) == (str(path), {})
    with monkeypatch.context() as patch:  # how reasons are found: nothing here needed one
        patch.setattr(script.inspect, "getsource", lambda what: "other" if what is script.measure else "")
        hashes = script.hashes_of(exact.written(lossdsl.load(path).checked, registry()), "torch", "float32", False)
    [record] = script.KEPT.glob("*torch.float32.json")
    assert not script.is_current(record, *hashes)  # the equation's hash has the texts in it, too
    numbers = script.json.loads(record.read_text())["numbers"]
    assert script.is_current(record, numbers, "other")
    record.write_text(record.read_text().replace('"beyond": {}', '"beyond": {"terms": 1}', 1))
    assert not script.is_current(record, numbers, "other")
    with monkeypatch.context() as patch:  # the kernels' text: measured again, by the exact numbers that are known
        patch.setattr(lossdsl, "compile", lambda *_, **__: SimpleNamespace(manifest={"identity": "other"}))
        patch.setattr(table, "exact_numbers", refused)
        assert script.measured(str(path), ["torch"]) == ["torch"]
    path.write_text(GAP.replace("^2", "^4"))
    assert script.measured(str(path), ["torch"]) == ["torch"]


def test_exact_numbers_are_kept_to_fifty_digits(script: ModuleType) -> None:
    loss = exact.written(lossdsl.load("std/cross_entropy").checked, registry())
    case = next(c for c in rows.cases(loss.plain, loss.checked) if c.what == "one class ahead by 90")
    found = exact.exact(loss, case)
    kept = script.from_data(script.json.loads(script.json.dumps(script.as_data(found))))
    for name, values in found.values.items():
        assert values.shape == kept.values[name].shape
        assert all(abs(a - b) <= abs(a) * 1e-49 for a, b in zip(values.flat, kept.values[name].flat, strict=True))
        assert np.array_equal(found.sizes[name], kept.sizes[name])
    assert abs(kept.values["grad.logits"][0].sum()) < 1e-45  # at more digits than a float's
    assert (kept.from_rules, kept.beyond) == (found.from_rules, found.beyond)
    assert np.array_equal(kept.spread, found.spread)


def test_the_tables(script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gradient that is off by one in a hundred is counted, and named, between the marks of the page alone."""
    path = tmp_path / "gap.loss"
    path.write_text(GAP)
    run = table.run_torch

    def astray(*arguments: Any) -> dict[str, Any]:
        found = run(*arguments)
        return {**found, "grad.x": found["grad.x"] * 1.01}

    monkeypatch.setattr(table, "run_torch", astray)
    script.measured(str(path), ["torch"])
    made = script.tables(script.kept())
    assert made["losses"][0][:2] == ["every number of a loss is", "torch, of 1"]
    assert made["losses"][-1][1:] == ["1", "1"]  # of the two columns: the one typed in torch has 1 - 1 near 0
    [(name, where, first)] = made["misses"][1:]
    assert (name, where) == (f"`{path}`", "torch")
    assert "x[0] is" in first
    [said] = [row for row in made["gradient"] if row[0].startswith("`miss`")]
    count, losses = map(int, said[1].split(" / "))
    assert count > 20
    assert losses == 1
    marks = "".join(f"before {n}\n<!-- table: {n} -->\nBEFORE\n<!-- end -->\nafter {n}\n" for n in made)
    script.PAGE.write_text(marks)
    script.write(made)
    text = script.PAGE.read_text()
    assert "BEFORE" not in text
    assert all(
        f"before {n}\n<!-- table: {n} -->\n\n| " in text and f"|\n\n<!-- end -->\nafter {n}\n" in text for n in made
    )
    page = (BENCHMARKS / "accuracy.md").read_text()
    assert all(f"<!-- table: {n} -->\n" in page for n in made)
