"""What is installed, as one Registry: built-in records, plugins with hooks, packs of `.loss` files.

Nothing that a plugin does at its import may stop lossdsl: one that fails disables itself alone and is reported.
Two that bring the same name are an error, since either choice would be a guess.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import Distribution, EntryPoint, distributions
from pathlib import Path
from typing import TypeVar

from lossdsl import __version__
from lossdsl.backends import hooks
from lossdsl.backends.manager import PluginVersionError, UnfitPluginError, built_in_plugins, call_hooks, in_window
from lossdsl.backends.offer import API, OLDEST_API
from lossdsl.packs import files
from lossdsl.packs.files import PackError, canonical
from lossdsl.primitives.record import Primitive
from lossdsl.primitives.scan import load_primitives
from lossdsl.reductions.scan import load_reductions
from lossdsl.registry import NOWHERE, BackendSpec, LossFile, PluginFailure, Registry
from lossdsl.source.diagnostic import Diagnostic, DiagnosticError, Label
from lossdsl.source.text import Source, Span

T = TypeVar("T")
OURS = f"lossdsl {__version__}"
DISABLED = "turned off by LOSSDSL_DISABLE"
BACKEND_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


class PluginConflictError(DiagnosticError):
    """Two distributions bring the same name; the message names both, with versions, and how to go on."""

    def __init__(self, conflicts: tuple[Conflict, ...]) -> None:
        super().__init__(conflicts[0].origin.source, (conflicts[0].problem,))
        self.conflicts = conflicts

    def __str__(self) -> str:
        return "\n".join(f"{c.problem.message}. {c.problem.fix}" for c in self.conflicts)


class PluginFailedError(Exception):
    """A plugin can't be used, and LOSSDSL_STRICT_PLUGINS=1 asks that this stop everything."""


@dataclass(frozen=True, slots=True)
class _Origin:
    """Where a plugin comes from: its distribution, and the line of its metadata that names it."""

    owner: str
    name: str
    source: Source = NOWHERE
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Conflict:
    """A name that two plugins bring; the first keeps it in the Registry of `survey`."""

    kind: str
    name: str
    other: str  # as the first spells it
    holder: str  # the distribution of the first
    origin: _Origin

    @property
    def problem(self) -> Diagnostic:
        owner = self.origin.owner
        same = f"{self.name!r}" if self.other == self.name else f"{self.name!r}, the same name as {self.other!r},"
        twice = f"comes twice from {owner}" if self.holder == owner else f"comes from {owner} and from {self.holder}"
        off = self.origin.name if self.holder == owner else owner.rpartition(" ")[0]
        fix = f"Uninstall one, or turn one off: LOSSDSL_DISABLE={off}"
        labels = (Label(self.origin.span, "one of them"),) if self.origin.span else ()
        return Diagnostic("E0702", f"{self.kind} {same} {twice}", labels, fix)


@dataclass(slots=True)
class _Found:
    """What has been gathered so far, and where each name came from."""

    primitives: dict[str, Primitive]
    backends: dict[str, BackendSpec] = field(default_factory=dict)
    losses: dict[str, LossFile] = field(default_factory=dict)
    failures: list[PluginFailure] = field(default_factory=list)
    conflicts: list[Conflict] = field(default_factory=list)
    owners: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)  # (kind, canonical): name, owner
    primitive_owners: dict[str, str] = field(default_factory=dict)
    plugins: list[object] = field(default_factory=list)  # loaded already: one under two names is one

    def claim(self, origin: _Origin, names: list[tuple[str, str]]) -> bool:
        """Take all of some names (kind, name), or none of them if one is taken: a conflict each."""
        taken = []
        for i, (kind, name) in enumerate(names):
            key = (kind, canonical(name))
            own = next((n for k, n in names[:i] if (k, canonical(n)) == key), None)
            if own is not None or key in self.owners:
                other, holder = (own, origin.owner) if own is not None else self.owners[key]
                taken.append(Conflict(kind, name, other, holder, origin))
        self.conflicts += taken
        if not taken:
            self.owners.update({(kind, canonical(name)): (name, origin.owner) for kind, name in names})
        return not taken


def discover(environ: Mapping[str, str] = os.environ) -> Registry:
    """Everything that is installed. Reads `LOSSDSL_DISABLE` and `LOSSDSL_STRICT_PLUGINS` of `environ`.

    Imports the modules that plugins name in the group `lossdsl.plugins`, and no code of data-only packs. Raises
    PluginConflictError where two distributions bring one name, and PluginFailedError in strict mode.
    """
    registry, conflicts = survey(environ)
    if conflicts:
        raise PluginConflictError(conflicts)
    broken = [failure for failure in registry.failures if not failure.disabled]
    if broken and environ.get("LOSSDSL_STRICT_PLUGINS") == "1":
        lines = "\n".join(f"  {f}" for f in broken)
        raise PluginFailedError(
            f"plugins can't be used, and --strict or LOSSDSL_STRICT_PLUGINS=1 forbids that:\n{lines}"
        )
    return registry


def survey(environ: Mapping[str, str] = os.environ) -> tuple[Registry, tuple[Conflict, ...]]:
    """What is installed, and which names are brought twice: those of the first stand in the Registry."""
    off = {canonical(name.strip()) for name in environ.get("LOSSDSL_DISABLE", "").split(",") if name.strip()}
    found = _Found(dict(load_primitives()))
    found.claim(_Origin(OURS, "lossdsl"), [("primitive", name) for name in sorted(found.primitives)])
    for name, load in built_in_plugins():
        ours = _Origin(OURS, name)
        _use(found, ours, off, partial(_load_hooks, found, load, ours))
    for pack, losses in files.built_in(OURS).items():
        ours = _Origin(OURS, pack)
        _use(found, ours, off, partial(_take_pack, found, pack, ours, losses))
    for origin, point in _entry_points(found.failures):
        _use(found, origin, off, partial(_take_point, found, origin, point))
    registry = Registry(
        primitives=found.primitives,
        reductions=load_reductions(),
        losses=found.losses,
        backends=found.backends,
        failures=tuple(found.failures),
        primitive_owners=found.primitive_owners,
    )
    return registry, tuple(found.conflicts)


def _use(found: _Found, origin: _Origin, off: set[str], take: Callable[[], None]) -> None:
    """Run `take`, and turn whatever goes wrong in it into a failure of this plugin alone."""

    def fail(reason: str, code: str, fix: str) -> None:
        found.failures.append(PluginFailure(origin.owner, origin.name, reason, code, fix, origin.source, origin.span))

    owner = origin.owner.rpartition(" ")[0]
    if canonical(origin.name) in off or canonical(owner) in off:
        fail(DISABLED, "W0701", "")
        return
    turn_off = f"LOSSDSL_DISABLE={origin.name} turns it off"
    try:
        with redirect_stdout(sys.stderr):  # what a plugin prints must not end up in our JSON
            take()
    except KeyboardInterrupt:
        raise
    except PluginVersionError as error:
        fail(str(error), "E0704", error.fix)
    except PackError as error:
        fail(str(error), "E0703", f"report it to those who make {owner}; {turn_off}")
    except UnfitPluginError as error:
        fail(str(error), "E0701", f"report it to those who make {owner}; {turn_off}")
    except ImportError as error:
        ours = (error.name or "").partition(".")[0] == "lossdsl"
        fix = f"the plugin may be for another version than {OURS}: update either; {turn_off}" if ours else turn_off
        fail(f"{type(error).__name__}: {error}", "E0704" if ours else "E0701", fix)
    except BaseException as error:  # SystemExit too: a plugin's failure, whatever it is, is its own
        said = " ".join(str(error).split())
        fail(f"{type(error).__name__}: {said}" if said else type(error).__name__, "E0701", turn_off)


def _take_point(found: _Found, origin: _Origin, point: EntryPoint) -> None:
    if point.group == hooks.GROUP:
        _load_hooks(found, point.load, origin)
    else:
        folder = files.folder_of(point.value)
        _take_pack(found, point.name, origin, files.files_of(folder, point.name, origin.owner))


def _load_hooks(found: _Found, load: Callable[[], object], origin: _Origin) -> None:
    """All that a plugin's hooks return, or nothing of it: every record is looked at before the first is taken."""
    plugin = load()
    if any(plugin is other for other in found.plugins):
        return  # one module under two names
    results = call_hooks(plugin)
    found.plugins.append(plugin)
    backends = [replace(_fit(spec, BackendSpec), distribution=origin.owner) for spec in results.backends]
    extra = [_fit(primitive, Primitive) for primitive in results.primitives]
    losses = [replace(_fit(loss, LossFile), distribution=origin.owner) for loss in results.losses]
    for spec in backends:
        _whole(spec)
        in_window(f"backend {spec.name!r}", "backend API", spec.api, OLDEST_API, API)
    packs = sorted({loss.pack for loss in losses})
    names = [("backend", spec.name) for spec in backends]
    names += [("primitive", primitive.name) for primitive in extra]
    names += [("pack", pack) for pack in packs]
    if found.claim(origin, names):
        found.backends.update((spec.name, spec) for spec in backends)
        found.primitives.update((primitive.name, primitive) for primitive in extra)
        found.primitive_owners.update((primitive.name, origin.owner) for primitive in extra)
        found.losses.update((f"{loss.pack}/{loss.name}", loss) for loss in losses)


def _fit(record: object, kind: type[T]) -> T:
    if not isinstance(record, kind):
        raise UnfitPluginError(f"a hook returned {type(record).__name__} where {kind.__name__} is asked for")
    return record


def _whole(spec: BackendSpec) -> None:
    """UnfitPluginError for a record that would fail later, far from the plugin that made it."""
    if not isinstance(spec.name, str) or not BACKEND_NAME.fullmatch(spec.name) or spec.name == "auto":
        raise UnfitPluginError(f"{spec.name!r} is not a backend's name: letters, digits, - and _, a letter first")
    for field_name in ("emit", "probe"):
        target = getattr(spec, field_name)
        if not isinstance(target, str) or not all(target.partition(":")):
            raise UnfitPluginError(f"backend {spec.name!r}: {field_name} is {target!r}, not 'module:function'")
    if isinstance(spec.devices, str) or not all(isinstance(device, str) for device in spec.devices) or not spec.devices:
        raise UnfitPluginError(f"backend {spec.name!r}: devices is {spec.devices!r}, not a tuple such as ('cpu',)")


def _take_pack(found: _Found, pack: str, origin: _Origin, losses: tuple[LossFile, ...]) -> None:
    if found.claim(origin, [("pack", pack)]):
        found.losses.update((f"{loss.pack}/{loss.name}", loss) for loss in losses)


# --- entry points -----------------------------------------------------------------------------------------------------


def _entry_points(failures: list[PluginFailure]) -> Iterator[tuple[_Origin, EntryPoint]]:
    """The entry points of both groups, in one order everywhere.

    Each distribution is read by itself: one with damaged metadata doesn't hide the others. Of two with one name the
    first on the path counts, as for imports. Our own are built in, and found without metadata.
    """
    points: list[tuple[_Origin, EntryPoint]] = []
    seen: set[str] = {"lossdsl"}
    for distribution in distributions():
        try:
            text = distribution.read_text("entry_points.txt") or ""
            if hooks.GROUP not in text and files.GROUP not in text:  # nearly all; parsing them takes much longer
                continue
            mine = [point for point in distribution.entry_points if point.group in (hooks.GROUP, files.GROUP)]
            if not mine or canonical(distribution.name) in seen:
                continue
            seen.add(canonical(distribution.name))
            owner = f"{distribution.name} {distribution.version}"
            source = Source(_place(distribution), text)
            points += [(_Origin(owner, point.name, source, _line(source, point)), point) for point in mine]
        except Exception as error:
            reason = f"its metadata can't be read: {error}"
            failures.append(PluginFailure(_place(distribution), "?", reason, fix="reinstall or remove it"))
    yield from sorted(points, key=lambda item: (canonical(item[0].owner), item[1].group, item[1].name))


def _line(source: Source, point: EntryPoint) -> Span | None:
    """The line that names an entry point, in its group."""
    group = re.search(rf"^\[{re.escape(point.group)}\].*?(?=^\[|\Z)", source.text, re.MULTILINE | re.DOTALL)
    line = group and re.search(rf"^\s*({re.escape(point.name)}\s*=[^\n]*)", group[0], re.MULTILINE)
    return Span(group.start() + line.start(1), group.start() + line.end(1)) if group and line else None


def _place(distribution: Distribution) -> str:
    path = getattr(distribution, "_path", None)
    return str(Path(path) / "entry_points.txt") if isinstance(path, str | os.PathLike) else "a distribution"
