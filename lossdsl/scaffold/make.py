"""Templates to files.

A template is a file under `templates/KIND`, with the ending .tmpl; @NAME@ and its kin in its text, and NAME, PACKAGE
and DOT_ in its path, are replaced.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from lossdsl import __version__
from lossdsl.packs.files import canonical
from lossdsl.syntax.words import RESERVED

NAME = re.compile(r"[a-z][a-z0-9]*(?:[_-][a-z0-9]+)*")


class ScaffoldError(ValueError):
    """A name that won't do, or a place that is taken; the message says what to do."""


def checked_name(kind: str, name: str, taken: Mapping[str, str]) -> str:
    """The name, if it is one and nobody has it: `taken` maps names to the distributions that bring them."""
    if not NAME.fullmatch(name):
        raise ScaffoldError(
            f"{name!r} is no name for a {kind}: small letters and digits, joined by _ or -, a letter first"
        )
    word = canonical(name)
    if kind == "loss" and (word in RESERVED or "-" in name):
        why = "is a word of the language" if word in RESERVED else f"can't stand in a formula; {word!r} can"
        raise ScaffoldError(f"{name!r} {why}")
    if keyword.iskeyword(word):
        raise ScaffoldError(f"{name!r} is a word of Python, and a package's name can't be one")
    owner = {canonical(other): (other, owner) for other, owner in taken.items()}.get(word)
    if owner:
        same = "" if owner[0] == name else f", the same name as {name!r}"
        raise ScaffoldError(f"there is a {kind} {owner[0]!r}{same} already, of {owner[1]}: choose another name")
    return name


def scaffold(kind: str, name: str, folder: Path) -> list[Path]:
    """Write the files of a "loss", "pack" or "backend"; where each lies, in order.

    A loss is written into `folder`, the others into a new folder lossdsl-NAME in it. ScaffoldError if that, or a
    file, is there already, or can't be written: nothing is overwritten.
    """
    from lossdsl.backends.api import API
    from lossdsl.backends.hooks import HOOKS

    word = canonical(name)
    project = f"lossdsl-{word.replace('_', '-')}"
    package = f"lossdsl_{word}" + ("_losses" if kind == "pack" else "")
    values = {
        "NAME": name,
        "WORD": word,
        "TITLE": "".join(part.capitalize() for part in word.split("_")),
        "PROJECT": project,
        "PACKAGE": package,
        "API": str(API),
        "HOOKS": str(HOOKS),
        "VERSION": __version__,
    }
    root = folder if kind == "loss" else folder / project
    if kind != "loss" and root.exists():
        raise ScaffoldError(f"{root} is there already: choose another name, or move it away")
    templates = files(__package__) / "templates" / kind
    texts = {root / _filled_path(path, word, package): _filled(text, values) for path, text in _walk(templates)}
    if there := [str(path) for path in texts if path.exists()]:
        raise ScaffoldError(f"{', '.join(there)}: there already, and not overwritten")
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ScaffoldError(f"{error.filename}: {error.strerror}") from error
    return sorted(texts)


def _walk(folder: Traversable, within: str = "") -> list[tuple[str, str]]:
    found = []
    for entry in sorted(folder.iterdir(), key=lambda e: e.name):
        if entry.is_dir():
            found += _walk(entry, f"{within}{entry.name}/")
        elif entry.name.endswith(".tmpl"):
            found.append((within + entry.name.removesuffix(".tmpl"), entry.read_text(encoding="utf-8")))
    return found


def _filled_path(path: str, word: str, package: str) -> str:
    return path.replace("PACKAGE", package).replace("NAME", word).replace("DOT_", ".")


def _filled(text: str, values: Mapping[str, str]) -> str:
    return re.sub(r"@([A-Z]+)@", lambda match: values[match[1]], text)
