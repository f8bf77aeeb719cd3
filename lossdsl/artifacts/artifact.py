"""What a compilation leaves: a module's text and its manifest."""

from __future__ import annotations

import importlib.util
import linecache
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.abc import Loader
from pathlib import Path
from types import ModuleType


@dataclass(frozen=True, slots=True)
class Artifact:
    """A generated module. `path` is where it lies in the cache, if it does."""

    text: str
    manifest: Mapping[str, object]
    path: Path | None = field(default=None, compare=False)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the text to a file, which is there whole or not at all."""
        publish(Path(path), self.text)

    @property
    def asked(self) -> str:
        """The backend that was asked for: "auto", or a name."""
        return str(self.manifest.get("asked", self.manifest["backend"]))

    def load(self) -> ModuleType:
        """The module, imported: from the cache if it lies there. Once a process for one text."""
        name = f"lossdsl_built_{self.manifest['name']}_{self.manifest['identity']}_{self.asked}"
        if name in sys.modules:
            return sys.modules[name]
        if self.path is not None:
            spec = importlib.util.spec_from_file_location(name, self.path)
        else:
            spec = importlib.util.spec_from_loader(name, _TextLoader(self.text))
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
        return module


class _TextLoader(Loader):
    """Imports a generated text that lies in no file; tracebacks show its lines."""

    def __init__(self, text: str) -> None:
        self.text = text

    def exec_module(self, module: ModuleType) -> None:
        place = f"<{module.__name__}>"
        linecache.cache[place] = (len(self.text), None, self.text.splitlines(keepends=True), place)
        exec(compile(self.text, place, "exec"), module.__dict__)


def publish(path: Path, text: str) -> None:
    """Write a file so that no reader ever sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        if path.exists():
            os.chmod(temporary, path.stat().st_mode & 0o777)
        else:
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
