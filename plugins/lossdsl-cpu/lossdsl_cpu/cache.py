"""Files that are found by what made them: written once, whole or not at all, by any number of processes.

Part of the run time of generated modules: imports nothing of lossdsl.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path


def folder() -> Path:
    """Where kernels are kept: `LOSSDSL_CPU_CACHE`, or lossdsl-cpu in the user's cache."""
    own = os.environ.get("LOSSDSL_CPU_CACHE")
    if own:
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    caches = ("Library", "Caches") if sys.platform == "darwin" else (".cache",)
    return (Path(base) if base else Path.home().joinpath(*caches)) / "lossdsl-cpu"


def publish(target: Path, make: Callable[[Path], None]) -> None:
    """Let `make` write a file, then give it its name in one step: whoever sees the name sees a whole file.

    Two that make the same both succeed, the last one stays; one that is killed leaves at most a temporary file.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{target.stem}-", suffix=target.suffix, dir=target.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        make(temporary)
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.chmod(temporary, 0o755)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
