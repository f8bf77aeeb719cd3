"""The plot of errors against confidence: what it shows is so."""

from __future__ import annotations

import importlib.util
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_plot(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("lossdsl_accuracy_plot", EXAMPLES / "accuracy.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = module.curves()
    assert all(max(module.worst(e) for e in lines["torch"]) > 0.99 for lines in found.values())  # nothing is left
    assert all(max(module.worst(e) for e in lines["lossdsl"]) < 1e-5 for lines in found.values())
    assert all(max(module.worst(e) for e in lines["lossdsl, precise"]) < 8 * 2.0**-23 for lines in found.values())
    module.draw(found, tmp_path / "out" / "accuracy.png")
    assert (tmp_path / "out" / "accuracy.png").stat().st_size > 10_000
