"""Where the grammar's files lie: inside the installed package, or beside it in a source tree."""

from __future__ import annotations

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
