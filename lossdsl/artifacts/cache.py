"""Generated modules kept on disk, under the hash of everything that they depend on.

`LOSSDSL_CACHE_DIR` says where; a folder that can't be written is no error, it only keeps nothing. Texts are published
whole, so that processes may share the folder, and read with their hash, so that a damaged file is made again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import platformdirs

from lossdsl.artifacts.artifact import Artifact, publish


def folder() -> Path:
    """Where modules are kept."""
    own = os.environ.get("LOSSDSL_CACHE_DIR")
    return Path(own) if own else Path(platformdirs.user_cache_dir("lossdsl")) / "modules"


def key(parts: Iterable[str]) -> str:
    """The hash of texts, in order."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()


def fingerprint(package: str) -> str:
    """A package's files by name and content: changes whenever the code that compiles does, and never else."""
    spec = find_spec(package)
    lines = []
    for place in (spec.submodule_search_locations or ()) if spec else ():
        for here, _, names in os.walk(place):  # strings, not Paths: every first `loss()` of a program waits for this
            inside = here[len(place) :].replace(os.sep, "/")
            lines += [
                f"{inside}/{name} {content(os.path.join(here, name))}" for name in names if not name.endswith(".pyc")
            ]
    return key(sorted(lines))


def content(path: str | os.PathLike[str]) -> str:
    """The hash of a file's bytes; nothing for a file that can't be read. Read once a process until it changes."""
    try:
        stat = os.stat(path)
        return _hashed(os.fspath(path), stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
    except OSError:
        return ""


@lru_cache(maxsize=4096)
def _hashed(path: str, *_state: int) -> str:
    """The times only say when to read again: ctime moves with every write, whatever mtime is set to."""
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def read(name: str) -> Artifact | None:
    """The artifact kept under a key, or None if there is none that is whole."""
    place = folder() / name[:2]
    try:
        manifest = json.loads((place / f"{name}.json").read_text(encoding="utf-8"))
        text = (place / f"{name}.py").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
    if not isinstance(manifest, dict) or manifest.get("text") != key([text]):
        return None
    return Artifact(text, manifest, place / f"{name}.py")


def keep(name: str, artifact: Artifact) -> Artifact:
    """Put an artifact under a key; what comes back knows its place, unless the folder can't be written."""
    place = folder() / name[:2]
    manifest: Mapping[str, object] = {**artifact.manifest, "text": key([artifact.text])}
    try:
        publish(place / f"{name}.py", artifact.text)
        publish(place / f"{name}.json", json.dumps(manifest, indent=1, sort_keys=True) + "\n")
    except OSError:
        return artifact
    return Artifact(artifact.text, manifest, place / f"{name}.py")
