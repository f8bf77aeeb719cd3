"""What answers at once must not wait for torch, sympy or triton."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

HEAVY = ("torch", "sympy", "triton", "numpy", "scipy", "matplotlib")
FOCAL = "lossdsl/packs/std/focal.loss"
ROOT = Path(__file__).parents[2]

CALL = """
import sys
sys.argv = ["lossdsl", *{arguments!r}]
from lossdsl.cli import main
try:
    main()
except SystemExit as stop:
    assert stop.code in (0, None), stop.code
heavy = [name for name in {heavy!r} if name in sys.modules]
print("HEAVY", *heavy, file=sys.stderr)
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["list"],
        ["list", "--json"],
        ["list", "--property", "convex", "--input", "index"],
        ["list", "--like", "kornia.FocalLoss"],
        ["show", "focal", "--source"],
        ["fmt", "--check", FOCAL],
        ["check", "--syntax", FOCAL],
        ["--help"],
        ["--version"],
        ["dump", FOCAL, "--stage", "ast"],
        ["explain", "E0901"],
    ],
    ids=" ".join,
)
def test_light_commands_import_nothing_heavy(arguments: list[str]):
    code = CALL.format(arguments=arguments, heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "HEAVY"


@pytest.mark.parametrize(
    "arguments",
    [["list", "--property", "convex"], ["list", "--like", "kornia.FocalLoss"], ["fmt", "--check", FOCAL]],
    ids=" ".join,
)
def test_they_answer_in_a_blink(arguments: list[str]):
    """0.3 s of processor time, the least of five: another process on the machine can't fail this."""
    code = f"import sys; sys.argv = ['lossdsl', *{arguments!r}]; from lossdsl.cli import main; main()"
    best = min(_seconds(code) for _ in range(5))
    assert best < 0.3


def _seconds(code: str) -> float:
    if not hasattr(os, "wait4"):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=ROOT, check=True)
        return time.perf_counter() - started
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    assert status == 0
    return usage.ru_utime + usage.ru_stime
