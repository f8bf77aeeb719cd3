"""The demo in small: every part of it runs, and its losses are what their files say."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch

import lossdsl

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("lossdsl_demo", EXAMPLES / "demo.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "EPOCHS", 2)
    monkeypatch.setattr(module, "SEEDS", (0, 1))
    monkeypatch.setattr(module, "HERE", tmp_path / "examples")
    monkeypatch.setattr(module, "PICTURE", tmp_path / "examples" / "out" / "demo.png")
    (tmp_path / "examples").mkdir()
    return module


def test_it_prints_a_table_and_draws_a_picture(demo: ModuleType, capsys: pytest.CaptureFixture[str]):
    threads = torch.get_num_threads()
    try:
        demo.main()
    finally:
        torch.set_num_threads(threads)
    text = capsys.readouterr().out
    for name in demo.LOSSES:
        assert name in text
    assert "points" in text
    assert demo.PICTURE.read_bytes().startswith(b"\x89PNG")
    assert demo.PICTURE.stat().st_size > 20_000


def test_labels_are_wrong_as_often_as_it_says(demo: ModuleType):
    images, labels, _, right = demo.digits(0)
    demo.WRONG = 0.0
    same, clean, _, _ = demo.digits(0)
    assert torch.equal(images, same)
    assert abs((labels != clean).double().mean().item() - 0.4) < 0.04
    assert set(right.tolist()) == set(range(10))


def test_the_losses_are_bounded_and_let_go_of_what_they_do_not_believe(demo: ModuleType):
    """What the picture shows: the pull of cross-entropy grows as p falls, that of the others goes to 0."""
    for name, target in demo.LOSSES.items():
        value, pull = demo.shape(lossdsl.loss(target))
        p = value[0]
        exact = {
            "cross_entropy": -p.log(),
            "generalized_cross_entropy": (1 - p**0.7) / 0.7,
            "taylor_cross_entropy": (1 - p) + (1 - p) ** 2 / 2,
        }[name]
        assert torch.allclose(value[1], exact, rtol=1e-12, atol=0)
        slope = {"cross_entropy": 1 / p, "generalized_cross_entropy": p**-0.3, "taylor_cross_entropy": 2 - p}[name]
        assert torch.allclose(pull[1], slope * p * (1 - p), rtol=1e-9, atol=0)
        assert (pull[1][0] > 0.9) == (name == "cross_entropy")
