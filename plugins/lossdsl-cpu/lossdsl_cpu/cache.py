"""Files that are found by what made them: written once, whole or not at all, by any number of processes.

Part of the run time of generated modules: imports nothing of lossdsl.
"""

from __future__ import annotations

import functools
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

TRAILER = b"lossdsl: whole\n"  # what a file ends in that nobody has cut short


def folder() -> Path:
    """Where kernels are kept: `LOSSDSL_CPU_CACHE`, or lossdsl-cpu in the user's cache."""
    own = os.environ.get("LOSSDSL_CPU_CACHE")
    if own:
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    caches = ("Library", "Caches") if sys.platform == "darwin" else (".cache",)
    return (Path(base) if base else Path.home().joinpath(*caches)) / "lossdsl-cpu"


@functools.cache
def instead(asked: Path) -> Path:
    """A folder of this process alone, where the user's cache can't be written; warns, since it is compiled into anew by
    every process. OSError if `LOSSDSL_CPU_CACHE` names the folder: that was asked for."""
    if os.environ.get("LOSSDSL_CPU_CACHE"):
        raise OSError(f"LOSSDSL_CPU_CACHE={asked} can't be written: set it to a folder that can, or unset it")
    warnings.warn(
        f"{asked} can't be written: kernels are kept for this process alone; set LOSSDSL_CPU_CACHE to a folder",
        stacklevel=2,
    )
    made = tempfile.TemporaryDirectory(prefix="lossdsl-cpu-")
    _private_folders.append(made)
    return Path(made.name)


_private_folders: list[tempfile.TemporaryDirectory[str]] = []  # removed when the process ends


def is_whole(path: Path) -> bool:
    """Whether a file that `publish` made is there to its end: a library that is cut short ends the process that loads
    it."""
    try:
        with open(path, "rb") as file:
            file.seek(-len(TRAILER), os.SEEK_END)
            return file.read() == TRAILER
    except OSError:  # not there, or shorter than its end
        return False


def publish(target: Path, make: Callable[[Path], None]) -> None:
    """Let `make` write a file, then give it its name in one step: whoever sees the name sees a whole file.

    It ends in TRAILER then, which loaders of libraries don't read. Two that make the same both succeed, the last one
    stays; one that is killed leaves at most a temporary file.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{target.stem}-", suffix=target.suffix, dir=target.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        make(temporary)
        with open(temporary, "ab") as file:
            file.write(TRAILER)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o755)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
