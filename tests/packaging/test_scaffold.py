"""`lossdsl new`: what it writes works in a fresh environment, as its own CI would run it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from fresh import console, sh, venv

from lossdsl.cli import group

ROOT = Path(__file__).parents[2]


def new(*arguments: object) -> Result:
    return CliRunner().invoke(group, ["new", *map(str, arguments)], prog_name="lossdsl")


@pytest.mark.full
def test_following_the_page_for_authors(tmp_path: Path) -> None:
    """Every command of plugins/README.md in order, in a fresh environment."""
    variables, here = venv(tmp_path / "venv"), tmp_path / "work"
    here.mkdir()
    for command, said in console((ROOT / "plugins" / "README.md").read_text(encoding="utf-8")):
        if command.startswith("cd "):
            here = (here / command[3:]).resolve()
            continue
        found = sh(command, here, variables)
        assert not said or found == said, command
    loss = "lossdsl.loss('mine/first', backend='fast', beta=1.0)"
    code = f"import lossdsl, torch; print({loss}(torch.zeros(1, 2), torch.tensor([0])).item())"
    assert abs(float(sh(f'python -c "{code}"', tmp_path, variables))) < 1e-6


@pytest.mark.full
@pytest.mark.parametrize(("kind", "name"), [("pack", "some-thing"), ("backend", "some-thing")])
def test_the_ci_of_a_scaffold_passes(kind: str, name: str, tmp_path: Path) -> None:
    """Each line of its workflow, as it stands; with another name than a Python one."""
    variables = venv(tmp_path / "venv")
    assert new(kind, name, "-d", tmp_path).exit_code == 0
    project = tmp_path / "lossdsl-some-thing"
    steps = re.findall(r"- run: (.*)", (project / ".github" / "workflows" / "test.yml").read_text())
    assert steps[0].startswith("pip install")
    assert steps[-1] == "pytest"
    for step in steps:
        sh(step, project, variables)


@pytest.mark.parametrize("kind", ["loss", "pack", "backend"])
def test_a_scaffold_is_formatted_and_whole(kind: str, tmp_path: Path) -> None:
    result = new(kind, "good_one", "-d", tmp_path)
    assert result.exit_code == 0
    written = [Path(line) for line in result.stdout.splitlines()[:-1]]
    assert written
    assert all(path.is_file() and not re.search("@[A-Z]+@", path.read_text()) for path in written)
    for command in (["check", "--select", "E,F,W,UP,B", "."], ["format", "--check", "."]):
        ruff = [sys.executable, "-m", "ruff", command[0], "--isolated", "--line-length", "120", *command[1:]]
        done = subprocess.run(ruff, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
    for path in tmp_path.rglob("*.loss"):
        assert CliRunner().invoke(group, ["fmt", "--check", str(path)]).exit_code == 0


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        ("pack", "Mine", "'Mine' is no name for a pack: small letters"),
        ("pack", "9lives", "is no name"),
        ("pack", "a--b", "is no name"),
        ("backend", "../up", "is no name"),
        ("backend", "", "is no name"),
        ("loss", "my-loss", "can't stand in a formula; 'my_loss' can"),
        ("loss", "softmax", "there is a loss 'softmax' already, of the language"),
        ("loss", "focal", "there is a loss 'focal' already, of lossdsl 0"),
        ("pack", "std", "there is a pack 'std' already, of lossdsl 0"),
        ("backend", "torch", "there is a backend 'torch' already, of lossdsl 0"),
        ("backend", "lambda", "is a word of Python"),
    ],
)
def test_a_name_that_will_not_do(kind: str, name: str, said: str, tmp_path: Path) -> None:
    result = new(kind, name, "-d", tmp_path)
    assert result.exit_code == 2
    assert said in result.stderr
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "lossdsl-mine").mkdir()
    result = new("pack", "mine", "-d", tmp_path)
    assert result.exit_code == 2
    assert "lossdsl-mine is there already" in result.stderr
    (tmp_path / "my_loss.loss").write_text("mine")
    result = new("loss", "my_loss", "-d", tmp_path)
    assert result.exit_code == 2
    assert "my_loss.loss: there already, and not overwritten" in result.stderr
    assert (tmp_path / "my_loss.loss").read_text() == "mine"
    assert not (tmp_path / "test_my_loss.py").exists()


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = new("pack", "mine", "-d", tmp_path / "file")
    assert result.exit_code == 2
    assert "file" in result.stderr
