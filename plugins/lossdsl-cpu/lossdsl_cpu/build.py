"""From C++ text to a shared library, by the system's compiler, once for each text, compiler and CPU.

Part of the run time of generated modules: imports nothing of lossdsl.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from lossdsl_cpu.cache import folder, instead, is_whole, publish

ABI = 3  # of `run` and its packed arguments; part of every key
# -fno-tree-pre: partial redundancies are removed by branches, and a loop that holds one isn't vectorised.
OPTIMISE = ("-march=native", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-fno-tree-pre")
FLAGS = ("-std=c++17", *OPTIMISE, "-fopenmp", "-fPIC", "-shared", "-w")
# How hard to try, by the longest text for it: g++ takes 2.4 s for 78 kB at -O3 and 5.4 s for 117 kB, for which -O2
# takes 3.1 s; 4.9 s for 240 kB at -O1; 3.8 s for 790 kB, more than there is, at -O0. Kernels: 1.3 times slower at -O1.
EFFORTS = ((85_000, "-O3"), (150_000, "-O2"), (240_000, "-O1"))
# Never -ffast-math: linked into a library it sets flush-to-zero for the whole process.


class CompilerError(RuntimeError):
    """There is no C++ compiler, or it did not take the text."""


def compiler() -> str:
    """The path of the C++ compiler: `CXX`, g++, c++ or clang++; CompilerError if there is none."""
    asked = os.environ.get("CXX")
    for name in [asked] if asked else ["g++", "c++", "clang++"]:
        path = shutil.which(name)
        if path:
            return path
    if asked and len(asked.split()) > 1:
        raise CompilerError(f"CXX={asked} is no program: give the path of one, without options")
    looked = f"CXX={asked}" if asked else "g++, c++ and clang++"
    raise CompilerError(f"no C++ compiler was found (looked for {looked}); install g++, or set CXX to one")


@functools.lru_cache(maxsize=8)
def version(path: str) -> str:
    """What the compiler says of itself."""
    try:
        shown = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CompilerError(f"{path} --version: {error}") from error
    if shown.returncode:
        raise CompilerError(f"{path} --version ends with {shown.returncode}: {shown.stderr.strip() or 'no message'}")
    return shown.stdout.splitlines()[0] if shown.stdout else ""


@functools.lru_cache(maxsize=1)
def processor() -> str:
    """What -march=native depends on: the machine's architecture and the CPU's list of features."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith(("flags", "Features")):
                    return platform.machine() + " " + " ".join(sorted(line.split(":", 1)[1].split()))
    except OSError:
        pass  # no /proc: what platform knows has to do
    return f"{platform.machine()} {platform.processor()}"


def stamp(path: str) -> str:
    """A compiler by its path and file, which changes when it is replaced: asked for at every load, so it's quick."""
    found = os.stat(path)
    return f"{os.path.realpath(path)} {found.st_size} {found.st_mtime_ns}"


def effort(text: str) -> str:
    """The level of optimisation at which this text is compiled within 5 s."""
    return next((level for longest, level in EFFORTS if len(text) <= longest), "-O0")


def key(text: str, macros: Sequence[str]) -> str:
    """The name of what this text becomes here."""
    parts = (str(ABI), text, " ".join(macros), " ".join([effort(text), *FLAGS]), stamp(compiler()), processor())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def library(text: str, macros: Sequence[str], keep: Path | None = None) -> Path:
    """The shared library of this text, compiled now if it never was; CompilerError with the compiler's words if it
    can't be."""
    home, name = keep or folder(), f"{key(text, macros)}.so"
    if not is_whole(home / name):
        make = functools.partial(_compile, text, tuple(macros))
        try:
            publish(home / name, make)
        except OSError as error:  # no rights, a file where a folder should be, a file system that is read only
            try:
                home = instead(home)
            except OSError as refused:
                raise CompilerError(f"{refused} ({error.strerror})") from error
            if not is_whole(home / name):
                publish(home / name, make)
    return home / name


def load_library(text: str, macros: Sequence[str], keep: Path | None = None) -> ctypes.CDLL:
    """The library of this text, loaded; one that can't be is compiled anew once. CompilerError if that is no better."""
    try:
        return _open_library(library(text, macros, keep))
    except OSError:
        library(text, macros, keep).unlink(missing_ok=True)
    path = library(text, macros, keep)
    try:
        return _open_library(path)
    except OSError as error:
        raise CompilerError(
            f"a kernel that was just compiled can't be loaded: {error}. If {path.parent} allows no programs (noexec), "
            "set LOSSDSL_CPU_CACHE to a folder that does"
        ) from error


def _open_library(path: Path) -> ctypes.CDLL:
    return ctypes.CDLL(str(path.absolute()))  # a name without a slash is looked for on the library path


def _compile(text: str, macros: tuple[str, ...], output: Path) -> None:
    command = [compiler(), effort(text), *FLAGS, *(f"-D{m}" for m in macros), "-x", "c++", "-", "-o", str(output)]
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=300, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CompilerError(f"{command[0]}: {error}") from error
    if done.returncode:
        raise CompilerError(f"{' '.join(command)} failed ({version(command[0])}):\n{done.stderr.strip()}")
