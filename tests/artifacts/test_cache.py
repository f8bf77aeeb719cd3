"""Modules on disk: published whole, shared between processes, made again when damaged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lossdsl import api
from lossdsl.artifacts import cache
from lossdsl.artifacts.artifact import Artifact, publish

TEXT = "loss mine\ninput x[N]\nreturn x^2\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOSSDSL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(api, "_memory", {})
    return tmp_path


def made(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def test_once_for_one_text(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = api.compile(api.loads(TEXT), backend="torch")
    assert [first.path] == made(folder)
    monkeypatch.setattr(api, "_memory", {})
    monkeypatch.setattr("lossdsl.pipeline.build", lambda *a, **k: pytest.fail("compiled again"))
    assert api.compile(api.loads(TEXT), backend="torch").text == first.text


def test_another_key_for_another_text_option_or_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    api.compile(api.loads(TEXT), backend="torch")
    api.compile(api.loads(TEXT), backend="torch", standalone=True)
    api.compile(api.loads(TEXT.replace("^2", "^4")), backend="torch")
    assert len(made(folder)) == 3
    monkeypatch.setattr(api, "_code", lambda packages: "another version")
    api.compile(api.loads(TEXT), backend="torch")
    assert len(made(folder)) == 4


def test_a_damaged_file_is_made_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = api.compile(api.loads(TEXT), backend="torch")
    [path] = made(folder)
    for damage in ("", first.text[:100], first.text + "raise SystemExit\n"):
        path.write_text(damage)
        monkeypatch.setattr(api, "_memory", {})
        assert api.compile(api.loads(TEXT), backend="torch").text == first.text
        assert path.read_text() == first.text
    manifest = path.with_suffix(".json")
    manifest.write_text("{")
    monkeypatch.setattr(api, "_memory", {})
    assert api.compile(api.loads(TEXT), backend="torch").text == first.text
    assert json.loads(manifest.read_text())["name"] == "mine"


def test_a_folder_that_cannot_be_written_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "file"
    place.write_text("")
    monkeypatch.setenv("LOSSDSL_CACHE_DIR", str(place))
    monkeypatch.setattr(api, "_memory", {})
    artifact = api.compile(api.loads(TEXT.replace("mine", "unkept")), backend="torch")
    assert artifact.path is None
    assert artifact.load().Unkept.__name__ == "Unkept"


def test_publishing_leaves_nothing_half_done(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "module.py"
    publish(target, "x = 1\n")
    os.chmod(target, 0o640)
    publish(target, "x = 2\n")
    assert target.read_text() == "x = 2\n"
    assert target.stat().st_mode & 0o777 == 0o640
    assert [p.name for p in target.parent.iterdir()] == ["module.py"]
    with pytest.raises(UnicodeEncodeError):
        publish(target, "\ud800")
    assert [p.name for p in target.parent.iterdir()] == ["module.py"]


def test_processes_share_a_folder(folder: Path) -> None:
    code = (
        "import lossdsl, torch\n"
        f"f = lossdsl.loss(lossdsl.loads({TEXT!r}), backend='torch')\n"
        "assert f(torch.tensor([1.0, 2.0])) == 2.5\n"
    )
    runs = [subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True) for _ in range(3)]
    for run in runs:
        assert run.wait() == 0, run.stderr.read() if run.stderr else ""
    assert len(made(folder)) == 1
    assert not list(folder.rglob("*.tmp"))


def test_one_module_for_one_text(folder: Path) -> None:
    artifact = api.compile(api.loads(TEXT), backend="torch")
    assert artifact.load() is artifact.load()
    assert Artifact(artifact.text, artifact.manifest).load() is artifact.load()
    assert cache.key(["a", "b"]) != cache.key(["ab"])
