"""Files that are not code: those of `grammar/`, and what is kept between runs."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path


def grammar_text(name: str) -> str:
    """The text of a file of `grammar/`.

    A wheel holds the folder as `lossdsl/grammar`; an editable install leaves it where it is, beside the package.
    """
    installed = files("lossdsl") / "grammar" / name
    if installed.is_file():
        return installed.read_text(encoding="utf-8")
    return (Path(__file__).parents[2] / "grammar" / name).read_text(encoding="utf-8")


def cache_folder() -> Path | None:
    """Where what is quick to lose and slow to make is kept: `LOSSDSL_CACHE_DIR`, or lossdsl in the user's cache.

    None where it can't be made; everything works without.
    """
    named = os.environ.get("LOSSDSL_CACHE_DIR")
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    folder = Path(named) if named else Path(base, "lossdsl")
    try:
        folder = folder.expanduser()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return None
    return folder
