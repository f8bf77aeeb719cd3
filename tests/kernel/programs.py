"""The hand-written KernelPrograms of this folder, by name."""

from __future__ import annotations

from pathlib import Path

from lossdsl.plan.kernel import KernelProgram
from lossdsl.plan.text import parse_kernel

FOLDER = Path(__file__).parent
NAMES = sorted(path.stem for path in FOLDER.glob("*.kernel"))


def text(name: str) -> str:
    return (FOLDER / f"{name}.kernel").read_text(encoding="utf-8")


def program(name: str) -> KernelProgram:
    return parse_kernel(text(name))
