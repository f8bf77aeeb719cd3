"""Building and keeping kernels: no compiler, a broken text, eight processes at once with one killed."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lossdsl_cpu import build
from lossdsl_cpu.emit import probe

TEXT = 'extern "C" long answer() { return NUMBER; }\n'
CHILD = """
import sys
from pathlib import Path
from lossdsl_cpu.build import library
import ctypes
for i in range(4):
    path = library(%r, [f"NUMBER={i}"], Path(sys.argv[1]))
    assert ctypes.CDLL(str(path)).answer() == i
"""


def test_a_text_is_compiled_once(tmp_path: Path) -> None:
    first = build.library(TEXT, ["NUMBER=7"], tmp_path)
    made = first.stat().st_mtime_ns
    assert build.library(TEXT, ["NUMBER=7"], tmp_path) == first
    assert first.stat().st_mtime_ns == made
    assert ctypes.CDLL(str(first)).answer() == 7
    assert build.library(TEXT, ["NUMBER=8"], tmp_path) != first
    assert {p.suffix for p in tmp_path.iterdir()} == {".so"}


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    answer = probe()
    assert not answer.ok
    assert "no C++ compiler was found (looked for g++, c++ and clang++)" in answer.reason
    with pytest.raises(build.CompilerError, match="install g"):
        build.library(TEXT, ["NUMBER=1"], tmp_path)


def test_what_the_compiler_says_is_shown(tmp_path: Path) -> None:
    with pytest.raises(build.CompilerError, match="nonsense"):
        build.library("nonsense here;", [], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_probe_names_the_compiler() -> None:
    assert probe().ok
    assert build.compiler() in probe().device


def test_eight_processes_and_one_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CHILD % TEXT, str(tmp_path)]
    children = [subprocess.Popen(command, stderr=subprocess.PIPE, env=dict(os.environ)) for _ in range(8)]
    time.sleep(0.15)
    children[3].send_signal(signal.SIGKILL)
    failed = [c.communicate()[1] for i, c in enumerate(children) if c.wait() != 0 and i != 3]
    assert failed == []
    kept = [p for p in tmp_path.iterdir() if not p.name.startswith(".")]
    assert len(kept) == 4
    for p in kept:
        assert ctypes.CDLL(str(p)).answer() in range(4)
