"""The Registry: everything that can be extended, as one immutable value that is passed to the stages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from lossdsl.source.diagnostic import Diagnostic, Label
from lossdsl.source.text import Source, Span

if TYPE_CHECKING:
    from lossdsl.primitives.record import Primitive
    from lossdsl.reductions.record import Reduction

NOWHERE = Source("entry_points.txt", "")


@dataclass(frozen=True, slots=True)
class LossFile:
    """One `.loss` file of a pack: found by its name, not yet read (`read` gives its text)."""

    pack: str  # "std"
    name: str  # "focal", the file's stem; `pack/name` is the full name
    path: str
    distribution: str  # "lossdsl 0.1.0", for messages

    @property
    def owner(self) -> str:
        """The distribution, if it isn't lossdsl itself."""
        return "" if self.distribution.startswith("lossdsl ") else self.distribution

    def read(self) -> str:
        with open(self.path, encoding="utf-8") as file:
            return file.read()


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendSpec:
    """A backend as its plugin declares it: nothing is imported until it is used.

    `emit` and `probe` are "module:function"; see `lossdsl.backends.api` for what these are called with. `priority`
    orders `backend="auto"`: the highest that is available for the tensors' device. `one_visit` asks for programs that
    give value and gradient together, for training steps in which the upstream is known to be one number. `fuses`: a
    loop becomes one kernel; False where each operation passes over whole arrays. `into`: functions take memory for
    their results from the caller. `multiplies`: programs that multiply matrices and go over them are printed so that no
    matrix is in memory.
    """

    name: str
    api: int
    emit: str
    probe: str
    devices: tuple[str, ...]
    priority: int = 0
    doc: str = ""
    distribution: str = ""
    one_visit: bool = False
    fuses: bool = True
    into: bool = False
    multiplies: bool = False


@dataclass(frozen=True, slots=True)
class PluginFailure:
    """A plugin or pack that is not in use, and why; `lossdsl doctor` shows these.

    `code` names a record of `source/codes/plugin.py`; `source` and `span` are the entry point in the distribution's
    metadata, where they can be read.
    """

    distribution: str  # "acme 1.2"
    name: str  # of the entry point
    reason: str
    code: str = "E0701"
    fix: str = ""
    source: Source = NOWHERE
    span: Span | None = None

    @property
    def disabled(self) -> bool:
        """Whether it was turned off, which is no mistake."""
        return self.code == "W0701"

    @property
    def problem(self) -> Diagnostic:
        """The failure as it is shown."""
        labels = (Label(self.span, "not in use"),) if self.span else ()
        return Diagnostic(
            self.code, str(self), labels, self.fix, severity="warning" if self.code.startswith("W") else "error"
        )

    def __str__(self) -> str:
        return f"{self.name} ({self.distribution}) is not in use: {self.reason}"


@dataclass(frozen=True, slots=True)
class Registry:
    primitives: Mapping[str, Primitive]
    reductions: Mapping[str, Reduction]
    losses: Mapping[str, LossFile] = field(default_factory=dict)  # by full name, pack/name
    backends: Mapping[str, BackendSpec] = field(default_factory=dict)
    failures: tuple[PluginFailure, ...] = ()
    primitive_owners: Mapping[str, str] = field(default_factory=dict)  # of those that plugins bring: the distribution


@cache
def base_registry() -> Registry:
    """The Registry of what lossdsl itself brings: primitives and reductions, without packs, backends or plugins."""
    from lossdsl.primitives.scan import load_primitives
    from lossdsl.reductions.scan import load_reductions

    return Registry(primitives=load_primitives(), reductions=load_reductions())
