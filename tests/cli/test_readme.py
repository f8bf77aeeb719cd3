"""Following the README from top to bottom gives what it says."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent

import pytest
import torch

import lossdsl

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
[FIRST] = re.findall(r"^```\n(loss .*?)^```", README, re.DOTALL | re.MULTILINE)
[TRAINING, HEAD] = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "confidence_penalty.loss").write_text(FIRST)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shown(after: str) -> str:
    """The indented block that follows some words."""
    match = re.search(re.escape(after) + r"[^\n]*\n\n((?:    [^\n]*\n|\n)+)", README)
    assert match is not None
    return dedent(match[1]).strip()


def test_the_first_loss_is_ten_lines_and_formatted(run, here):
    assert len([line for line in FIRST.splitlines() if line]) <= 10
    assert run("fmt", "--check", "confidence_penalty.loss").exit_code == 0


def test_checking_it(run, here):
    command, said = shown("`.venv/bin/lossdsl`.)").splitlines()
    result = run(*command.split()[2:])
    assert result.stdout.strip() == said


def test_a_mistake(run, here):
    command, said = shown("With `log(q[target])`").split("\n", 1)
    Path("confidence_penalty.loss").write_text(FIRST.replace("log(p[target])", "log(q[target])"))
    result = run(*command.split()[2:])
    assert result.exit_code == 1
    assert (result.stderr + result.stdout).strip() == said


def test_training_with_it(here):
    scope: dict[str, object] = {}
    exec(TRAINING, scope)
    logits, target, loss_fn = scope["logits"], scope["target"], scope["loss_fn"]
    assert isinstance(logits, torch.Tensor)
    [wanted] = re.findall(r"# tensor\((.*?)\)", TRAINING)
    rows = loss_fn(logits, target, reduction="none", beta=0.0)
    assert rows.tolist() == pytest.approx([float(x) for x in wanted.strip("[]").split(",")], abs=5e-5)
    z = logits.detach().double().requires_grad_()
    entropy = -(z.softmax(1) * z.log_softmax(1)).sum(1)
    (torch.nn.functional.cross_entropy(z, target, reduction="none") - 0.3 * entropy).mean().backward()
    assert torch.allclose(logits.grad.double(), z.grad, rtol=1e-5, atol=1e-7)
    assert "beta=0.3" in repr(loss_fn)
    exec(HEAD, scope)
    hidden, weight, loss_fn = scope["hidden"], scope["weight"], scope["loss_fn"]
    plain = lossdsl.loss("confidence_penalty.loss")
    wanted = torch.autograd.grad(plain(hidden @ weight.t(), target), (hidden, weight))
    assert torch.allclose(hidden.grad, wanted[0], rtol=1e-5, atol=1e-7)
    assert torch.allclose(weight.grad, wanted[1], rtol=1e-5, atol=1e-7)


def test_what_came_out(run, here):
    command, said = shown("Ask what was made of it").split("\n", 1)
    lines = [line.strip() for line in run(*command.split()[2:]).stdout.splitlines()]
    assert {line.strip() for line in said.splitlines()} - {"..."} <= set(lines)
    for line in shown("that you may commit").splitlines():
        result = run(*line.partition("#")[0].split()[2:])
        assert result.exit_code == 0, result.stderr


def test_every_link_leads_somewhere():
    for target in re.findall(r"\]\(([\w.-]+/[\w./-]*)\)", README):
        assert (Path(__file__).parents[2] / target).exists(), target


def test_every_command_exists(run):
    for name in set(re.findall(r"lossdsl ([a-z]+)", README)):
        if name not in {"lets", "itself"}:
            assert run(name, "--help").exit_code == 0, name
