"""Reports of public trackers about plugins, caches and names, as tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import lossdsl
from lossdsl import api
from lossdsl.artifacts import cache

LOSS = "loss mine\ninput x[N]\nreturn hinge_of_acme(x)^2\n"


# --- stale caches -----------------------------------------------------------------------------------------------------


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A backend with a template, and a pack with a loss that others call."""
    monkeypatch.setenv("LOSSDSL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(tmp_path)
    for package, points, files in (
        (
            "acme_losses",
            "[lossdsl.losses]\nacme = acme_losses",
            {"hinge_of_acme.loss": "loss hinge_of_acme\ninput x[N]\nreturn relu(1 - x)\n"},
        ),
        ("acme_backend", "[lossdsl.plugins]\nacme = acme_backend", {"__init__.py": BACKEND, "kernel.tmpl": "one"}),
    ):
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(points + "\n")
        (tmp_path / package).mkdir()
        for name, text in files.items():
            (tmp_path / package / name).write_text(text)
    return tmp_path


BACKEND = """
from lossdsl.backends.api import API, BackendSpec
from lossdsl.backends.hooks import hookimpl

@hookimpl
def lossdsl_backends():
    return [BackendSpec(name="acme", api=API, emit="acme_backend:emit", probe="acme_backend:probe", devices=("cpu",))]
"""


def edited(path: Path, old: str, new: str) -> None:
    """A file with other text of the same length and the same time of change."""
    stat, text = path.stat(), path.read_text()
    assert len(old) == len(new)
    assert old in text
    path.write_text(text.replace(old, new))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert path.stat().st_mtime_ns == stat.st_mtime_ns


def key(text: str = LOSS, **changed: object) -> str:
    """The key of a module as a process that has just started would form it."""
    for known in (api._registry, api._code, cache._hashed):
        known.cache_clear()
    options: dict[str, object] = {"backend": "torch", "device": "cpu", "standalone": False, "modes": {}} | changed
    return api._key(lossdsl.source.text.Source("mine.loss", text), *options.values())  # type: ignore[arg-type]


def test_a_key_is_of_all_that_a_module_depends_on_and_of_content_not_time(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """triton 4051, 7322 and 586, numba 8359: an edit that keeps the time, an included file, a template, a version."""
    first = key()
    assert key() == first
    seen = [first, key(LOSS.replace("^2", "^4")), key(backend="auto"), key(device="cuda"), key(standalone=True)]
    seen.append(key(modes={"act": "relu"}))
    edited(site / "acme_losses" / "hinge_of_acme.loss", "1 - x", "2 - x")
    seen.append(key())
    edited(site / "acme_backend" / "kernel.tmpl", "one", "two")
    seen.append(key())
    versions: dict[str, Callable[[str], str]] = {"torch": lambda name: "99.0"}
    monkeypatch.setattr("importlib.metadata.version", versions["torch"])
    seen.append(key())
    assert len(set(seen)) == len(seen)
    for path in sorted(site.rglob("*.*")):
        os.utime(path, ns=(1, 1))
    assert key() == seen[-1], "a file that was only touched is the same file"


def test_an_edit_of_a_loss_that_is_called_is_seen_in_the_same_process(site: Path) -> None:
    api._registry.cache_clear()
    x = torch.tensor([0.5])
    assert lossdsl.loss(lossdsl.loads(LOSS), backend="torch")(x).item() == pytest.approx(0.25)
    edited(site / "acme_losses" / "hinge_of_acme.loss", "1 - x", "2 - x")
    assert lossdsl.loss(lossdsl.loads(LOSS), backend="torch")(x).item() == pytest.approx(2.25)
    api._registry.cache_clear()


# --- a cache that several processes use -------------------------------------------------------------------------------


def test_a_writer_that_is_killed_leaves_nothing_that_is_read(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """triton 2688 and 11512, keops 168: the text is there without its manifest, or a half of it, or a stranger's."""
    text = "loss mine\ninput x[N]\nreturn x^2\n"
    first = lossdsl.compile(lossdsl.loads(text), backend="torch")
    assert first.path is not None
    for damage in (
        lambda: first.path.with_suffix(".json").unlink(),
        lambda: first.path.write_text(first.text[:200]),
        lambda: first.path.with_suffix(".json").write_text('{"text": "00"}'),
        lambda: first.path.unlink(),
    ):
        damage()
        monkeypatch.setattr(api, "_memory", {})
        again = lossdsl.compile(lossdsl.loads(text), backend="torch")
        assert again.text == first.text
        assert again.path.read_text() == first.text


COMPILE = """
import lossdsl, torch
for i in range(4):
    text = f"loss mine\\ninput x[N]\\nreturn x^{i + 2}\\n"
    assert lossdsl.loss(lossdsl.loads(text), backend="torch")(torch.tensor([2.0])) == 2.0 ** (i + 2)
"""


@pytest.mark.full
def test_eight_processes_one_empty_cache_and_one_killed(tmp_path: Path) -> None:
    """Every one that lives is right, and what lies in the folder afterwards is whole."""
    variables = {**os.environ, "LOSSDSL_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", COMPILE]
    children = [subprocess.Popen(command, env=variables, stderr=subprocess.PIPE, text=True) for _ in range(8)]
    while not list(tmp_path.rglob("*.py")):
        time.sleep(0.01)
    children[3].kill()
    said = [child.communicate()[1] for child in children]
    assert [child.returncode for i, child in enumerate(children) if i != 3] == [0] * 7, said
    subprocess.run(command, env=variables, check=True)
    assert len(list(tmp_path.rglob("*.json"))) == 4
    for manifest in tmp_path.rglob("*.json"):
        text = manifest.with_suffix(".py").read_text(encoding="utf-8")
        assert json.loads(manifest.read_text(encoding="utf-8"))["text"] == cache.key([text])


@pytest.mark.parametrize("value", ["", "/proc/nowhere/at/all"])
def test_a_cache_without_a_place(value: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty variable means none; a folder that can't be made keeps nothing, and the loss works."""
    monkeypatch.setenv("LOSSDSL_CACHE_DIR", value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(api, "_memory", {})
    artifact = lossdsl.compile(
        lossdsl.loads(f"loss placeless\ninput x[N]\nreturn x^{3 + bool(value)}\n"), backend="torch"
    )
    assert (artifact.path is None) == bool(value)
    assert artifact.load().Placeless()(torch.tensor([2.0])).item() == 2.0 ** (3 + bool(value))


# --- one name, several numbers ----------------------------------------------------------------------------------------


def test_what_libraries_call_focal_are_different_losses() -> None:
    """fastai 1814, MONAI 3917: at logits [1, 2, 0.5] and class 1, with gamma 2, the libraries give four numbers.

    kornia weights with alpha = 0.25, MONAI divides by the classes, segmentation-models takes sigmoids.
    """
    logits, target = torch.tensor([[1.0, 2.0, 0.5]], dtype=torch.float64), torch.tensor([1])
    plain = lossdsl.loss("focal", backend="torch", gamma=2.0)
    assert plain(logits, target).item() == pytest.approx(0.064078, abs=5e-7)
    weighted = plain(logits, target, alpha=torch.full((3,), 0.25, dtype=torch.float64), reduction="sum")
    assert weighted.item() == pytest.approx(0.016019, abs=6e-7)
    assert plain(logits, target).item() / 3 == pytest.approx(0.021359, abs=5e-7)
    each = lossdsl.loss("sigmoid_focal", backend="torch", gamma=2.0, alpha=0.5)  # 0.5 weighs both sides alike
    truth = torch.nn.functional.one_hot(target, 3).double()
    assert 2 * each(logits.reshape(-1), truth.reshape(-1)).item() == pytest.approx(0.360361, abs=5e-7)


@pytest.mark.parametrize(
    ("quadratic", "reference", "expected"),
    [
        ("d^2 / 2", torch.nn.HuberLoss(reduction="none", delta=2.0), [0.5, 4.0]),
        ("d^2 / (2 * k)", torch.nn.SmoothL1Loss(reduction="none", beta=2.0), [0.25, 2.0]),
    ],
)
def test_huber_and_smooth_l1_differ_by_a_factor(
    quadratic: str, reference: torch.nn.Module, expected: list[float]
) -> None:
    linear = "k * (d - k / 2)" if "(2" not in quadratic else "d - k / 2"
    result = f"if d < k then {quadratic} else {linear}"
    text = f"loss bend\ninput x[N], y[N]\nparam k = 2 in (0, inf)\nd = abs(x - y)\nreturn {result}\n"
    bend = lossdsl.loss(lossdsl.loads(text), backend="torch", reduction="none")
    x, y = torch.tensor([1.0, 3.0], dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    assert bend(x, y).tolist() == pytest.approx(expected, abs=1e-15)
    assert reference(x, y).tolist() == expected
