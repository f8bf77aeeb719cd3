"""Distributions made up for a test: a folder with metadata and modules, put on the path."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

BACKEND = """
    from lossdsl.backends.api import API, BackendSpec
    from lossdsl.backends.hooks import hookimpl

    @hookimpl
    def lossdsl_backends():
        return [BackendSpec(name={name!r}, api={api}, emit="{module}:emit", probe="{module}:probe", devices=("cpu",))]
"""


def distribution(site: Path, name: str, version: str, points: str = "", **modules: str) -> Path:
    """Write a distribution's metadata with the text of its entry_points.txt, and its modules."""
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(dedent(points))
    for module, text in modules.items():
        (site / f"{module}.py").write_text(dedent(text))
    return site


def backend(module: str, name: str, api: str = "API", extra: str = "") -> str:
    """The text of a plugin that brings one backend."""
    return dedent(BACKEND.format(module=module, name=name, api=api)) + indent(dedent(extra), "")


def pack(site: Path, package: str, **losses: str) -> None:
    """A package folder of .loss files, without any Python in it."""
    folder = site / package
    folder.mkdir(parents=True)
    for name, text in losses.items():
        (folder / f"{name}.loss").write_text(text)
