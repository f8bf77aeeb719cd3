"""Building and keeping kernels: no compiler, a broken text, eight processes at once with one killed."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from lossdsl_cpu import build, cache
from lossdsl_cpu.available import probe

import lossdsl
from lossdsl.backends.manager import BackendError

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
    """One dies while its compiler runs, which has written nothing yet; the others find nothing half made."""
    slow = tmp_path / "slow"
    slow.write_text(f'#!/bin/sh\n: > "{tmp_path}/of.$PPID"\nsleep 0.3\nexec {build.compiler()} "$@"\n')
    slow.chmod(0o755)
    kept = tmp_path / "kept"
    command = [sys.executable, "-c", CHILD % TEXT, str(kept)]
    env = {**os.environ, "CXX": str(slow)}
    children = [subprocess.Popen(command, stderr=subprocess.PIPE, env=env) for _ in range(8)]
    started = tmp_path / f"of.{children[3].pid}"
    while not started.exists() and children[3].poll() is None:
        time.sleep(0.01)
    children[3].send_signal(signal.SIGKILL)
    failed = [c.communicate()[1] for i, c in enumerate(children) if c.wait() != 0 and i != 3]
    assert failed == []
    assert children[3].returncode == -signal.SIGKILL
    made = [p for p in kept.iterdir() if not p.name.startswith(".")]
    assert len(made) == 4
    for p in made:
        assert ctypes.CDLL(str(p)).answer() in range(4)


WITHOUT = """
import lossdsl
from lossdsl.backends.manager import BackendError
import torch
loss = lossdsl.loss("cross_entropy")
print(loss.compiled.signature.backend)
z = torch.randn(3, 4, requires_grad=True)
loss(z, torch.tensor([0, 1, 2])).backward()
print(z.grad is not None)
try:
    lossdsl.loss("cross_entropy", backend="cpu")
except BackendError as error:
    print(error)
print(lossdsl.load("cross_entropy").explain())
"""


@pytest.mark.parametrize("asked", [None, "/nowhere/g++-99"])
def test_a_machine_without_a_compiler(tmp_path: Path, asked: str | None) -> None:
    """`auto` takes torch and says why; the backend asked for by name, and doctor, say what to do."""
    kept = {k: v for k, v in os.environ.items() if k not in ("CXX", "LOSSDSL_DISABLE")}
    env = {**kept, "PATH": str(tmp_path), "LOSSDSL_CACHE_DIR": str(tmp_path), **({"CXX": asked} if asked else {})}
    looked = f"CXX={asked}" if asked else "g++, c++ and clang++"
    reason = f"no C++ compiler was found (looked for {looked}); install g++, or set CXX to one"

    def said(*command: str) -> str:
        done = subprocess.run([sys.executable, *command], capture_output=True, text=True, env=env, check=False)
        return done.stdout + done.stderr

    shown = said("-c", WITHOUT)
    assert shown.startswith("torch\nTrue\n"), shown
    assert f"backend 'cpu' can't be used here: {reason}" in shown
    assert f"Backend: torch (cpu can't be used: {reason}" in shown
    assert reason in said("-c", "from lossdsl.cli import main; main()", "doctor")


def test_a_compiler_that_has_gone(tmp_path: Path) -> None:
    """What was chosen where there was one isn't taken from the cache where there is none, nor the other way round."""
    code = "import lossdsl; print(lossdsl.loss('cross_entropy').compiled.signature.backend)"
    chosen = []
    for more in ({}, {"CXX": "no-compiler"}, {}):
        env = {k: v for k, v in os.environ.items() if k not in ("CXX", "LOSSDSL_DISABLE")}
        env |= {"LOSSDSL_CACHE_DIR": str(tmp_path), **more}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True)
        chosen.append(done.stdout.strip())
    assert chosen == ["cpu", "torch", "cpu"]


def sum_of_softmaxes(terms: int) -> str:
    parts = [f"sum[C](softmax(z * {1 + k / 7:.3f}) * log_softmax(z * {2 + k / 9:.3f}))" for k in range(terms)]
    return f"loss several\ninput z[N, C]\nreturn {' + '.join(parts)}\n"


def test_large_texts_are_compiled_with_less_effort_and_larger_ones_refused() -> None:
    found = [build.effort("x" * n) for n in (85_000, 85_001, 150_001, 240_001)]
    assert found == ["-O3", "-O2", "-O1", "-O0"]
    spec = lossdsl.loads(sum_of_softmaxes(30))
    with pytest.raises(BackendError, match="kB of C"):
        lossdsl.loss(spec, backend="cpu")
    assert "backend='torch'" in repr(lossdsl.loss(spec))


def test_less_effort_gives_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel at -O1 and at -O0, against the torch backend in double precision."""
    spec = lossdsl.loads(sum_of_softmaxes(2))
    z = torch.randn(5, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    expected = lossdsl.loss(spec, backend="torch")(z)
    (slope,) = torch.autograd.grad(expected, z)
    for level in ("-O1", "-O0"):
        monkeypatch.setattr(build, "EFFORTS", ((10**9, level),))
        value = lossdsl.loss(lossdsl.loads(f"# {level}\n{spec.checked.source.text}"), backend="cpu")(z)
        torch.testing.assert_close(value, expected, rtol=1e-13, atol=1e-15)
        torch.testing.assert_close(torch.autograd.grad(value, z)[0], slope, rtol=1e-12, atol=1e-15)


def damaged(whole: bytes) -> list[bytes]:
    return [b"", b"garbage", whole[:8000], whole[:-1], b"garbage" * 99 + cache.TRAILER]


@pytest.mark.parametrize("how", range(5))
def test_a_damaged_kernel_is_compiled_anew(how: int, tmp_path: Path) -> None:
    """In a process of its own: what is cut short ends the process that loads it."""
    text = 'extern "C" int number() { return 7; }'
    path = build.library(text, [], tmp_path)
    path.write_bytes(damaged(path.read_bytes())[how])
    code = (
        "import sys; from pathlib import Path; from lossdsl_cpu.build import load_library;"
        f"print(load_library({text!r}, [], Path(sys.argv[1])).number())"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "7"), done.stderr


def test_a_cache_in_the_folder_where_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert build.load_library('extern "C" int number() { return 3; }', [], Path()).number() == 3


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("LOSSDSL_CPU_CACHE", str(file / "below"))
    with pytest.raises(build.CompilerError, match=r"LOSSDSL_CPU_CACHE=.*can't be written"):
        build.load_library('extern "C" int number() { return 4; }', [])
    monkeypatch.delenv("LOSSDSL_CPU_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(file))
    with pytest.warns(UserWarning, match="can't be written: kernels are kept for this process alone") as told:
        kernels = [build.load_library(f'extern "C" int number() {{ return {i}; }}', []) for i in (5, 6)]
    assert [kernel.number() for kernel in kernels] == [5, 6]
    assert len(told) == 1  # of the folder, not of each kernel


def test_a_cache_that_is_read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(target: Path, make: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setenv("LOSSDSL_CPU_CACHE", str(tmp_path))
    monkeypatch.setattr(build, "publish", refused)
    with pytest.raises(build.CompilerError, match=r"LOSSDSL_CPU_CACHE.*Read-only file system"):
        build.library('extern "C" int number() { return 6; }', [])


@pytest.mark.parametrize(
    ("asked", "said"), [("ccache g++", "without options"), ("/bin/false", "ends with 1: no message")]
)
def test_what_is_no_compiler(asked: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", asked)
    with pytest.raises(build.CompilerError, match=said):
        build.version(build.compiler())
