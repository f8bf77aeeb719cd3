"""The `.loss` files of a pack's folder."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path

from lossdsl.registry import LossFile

GROUP = "lossdsl.losses"  # entry points whose value is a top-level package of .loss files: `name = "my_losses"`
BUILT_IN = Path(__file__).parent  # every folder here is a pack: std
ENDING = ".loss"
PACK_NAME = re.compile(r"[a-z][a-z0-9_-]*")


class PackError(ValueError):
    """A pack that can't be used; the message says what is wrong with it."""


def canonical(name: str) -> str:
    """The form under which names are compared: `My-Losses` and `my_losses` are one name."""
    return name.lower().replace("-", "_")


def folder_of(package: str) -> Path:
    """The folder of a package, found without running any of its code.

    Only a top-level package can be found so: a dotted name would import its parents.
    """
    if "." in package:
        raise PackError(f"{package!r} is not a top-level package; finding it would import {package.split('.')[0]!r}")
    try:
        spec = find_spec(package)
    except ValueError as error:
        raise PackError(f"package {package!r} can't be found: {error}") from error
    places = list(spec.submodule_search_locations or ()) if spec else []
    if not places:
        raise PackError(f"there is no package {package!r} beside the entry point that names it")
    return Path(places[0])


def files_of(folder: Path, pack: str, distribution: str) -> tuple[LossFile, ...]:
    """The losses of a folder, in the order of their names; PackError if it holds none, or two of one name."""
    if not PACK_NAME.fullmatch(pack):
        raise PackError(f"{pack!r} is not a pack's name: small letters, digits, - and _, a letter first")
    found = _names(folder)
    if not found:
        raise PackError(f"pack {pack!r} holds no .loss file ({folder})")
    seen: dict[str, str] = {}
    for name in found:
        other = seen.setdefault(canonical(name), name)
        if other != name:
            raise PackError(f"pack {pack!r} holds {other}{ENDING} and {name}{ENDING}, which are one name")
    return tuple(
        LossFile(pack=pack, name=name, path=os.path.join(folder, name + ENDING), distribution=distribution)
        for name in found
    )


def _names(folder: Path) -> list[str]:
    """The names of a folder's losses. Strings, not Paths: this is read whenever a program starts."""
    try:
        with os.scandir(folder) as entries:
            return sorted(e.name.removesuffix(ENDING) for e in entries if e.name.endswith(ENDING) and e.is_file())
    except FileNotFoundError:
        return []


def built_in(distribution: str) -> dict[str, tuple[LossFile, ...]]:
    """The packs that come with lossdsl, by name. One without files yet is left out."""
    folders = sorted(path for path in BUILT_IN.iterdir() if path.is_dir() and _names(path))
    return {folder.name: files_of(folder, folder.name, distribution) for folder in folders}
