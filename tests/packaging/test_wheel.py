"""A wheel holds what the tree holds: a package that the list lacks would show only where lossdsl is installed."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from shutil import copytree

import pytest

ROOT = Path(__file__).parents[2]
PROJECTS = [ROOT, *(path.parent for path in sorted(ROOT.glob("plugins/*/pyproject.toml")))]
DATA = {".loss", ".lark", ".typed", ".hpp", ".json"}


def tracked(project: Path) -> set[str]:
    """The files of the project's packages, as a wheel names them."""
    if project == ROOT:
        folders = {ROOT / "lossdsl": "lossdsl", ROOT / "grammar": "lossdsl/grammar"}
    else:
        folders = {path: path.name for path in project.iterdir() if path.name.startswith("lossdsl_") and path.is_dir()}
    found = set()
    for folder, name in folders.items():
        if folder.name.endswith(".egg-info"):
            continue
        for path in folder.rglob("*"):
            if path.suffix == ".py" or path.suffix in DATA or path.name == "py.typed":
                found.add(f"{name}/{path.relative_to(folder).as_posix()}")
    if project == ROOT:
        found |= {f"lossdsl/migrating/{path.name}" for path in (ROOT / "examples/migrating").glob("*.md")}
    return found


def test_every_package_is_listed():
    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    folders = {path.parent.relative_to(ROOT).as_posix() for path in (ROOT / "lossdsl").rglob("*.py")}
    assert {folder.replace("/", ".") for folder in folders} <= listed


@pytest.mark.parametrize(
    "project", [pytest.param(p, marks=[pytest.mark.full] * (i > 2), id=p.name) for i, p in enumerate(PROJECTS)]
)
def test_a_wheel_holds_every_file(project: Path, tmp_path: Path):
    build, wheels = tmp_path / "build", tmp_path / "wheels"
    skip = {".venv", ".git", "build", "tests", ".mypy_cache", ".ruff_cache", ".hypothesis", "out", "plugins"}
    copy(project, build, skip)
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels)]
    command = [sys.executable, "-m", "pip", "wheel", *options, str(build)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    [wheel] = wheels.iterdir()
    with zipfile.ZipFile(wheel) as archive:
        missing = tracked(project) - set(archive.namelist())
    assert not missing


def copy(source: Path, target: Path, skip: set[str]) -> None:
    """The project without what building it must not see."""
    copytree(source, target, ignore=lambda _, names: {n for n in names if n in skip or n.endswith(".egg-info")})
