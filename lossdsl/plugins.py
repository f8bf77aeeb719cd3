"""What is installed, as one Registry: built-in records, plugins with hooks, packs of `.loss` files.

Nothing that a plugin does at its import may stop lossdsl: one that fails disables itself alone and is reported.
Two that bring the same name are an error, since either choice would be a guess.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import Distribution, EntryPoint, distributions
from typing import TypeVar

from lossdsl import __version__
from lossdsl.backends import hooks
from lossdsl.backends.api import API, OLDEST_API
from lossdsl.backends.manager import UnfitPluginError, built_in_plugins, call_hooks
from lossdsl.packs import files
from lossdsl.packs.files import PackError, canonical
from lossdsl.primitives.record import Primitive
from lossdsl.primitives.scan import load_primitives
from lossdsl.reductions.scan import load_reductions
from lossdsl.registry import BackendSpec, LossFile, PluginFailure, Registry

T = TypeVar("T")
OURS = f"lossdsl {__version__}"
DISABLED = "turned off by LOSSDSL_DISABLE"


class PluginConflictError(Exception):
    """Two distributions bring the same name; the message names both, with versions, and how to go on."""


class PluginFailedError(Exception):
    """A plugin can't be used, and LOSSDSL_STRICT_PLUGINS=1 asks that this stop everything."""


@dataclass(slots=True)
class _Found:
    """What has been gathered so far, and where each name came from."""

    primitives: dict[str, Primitive]
    backends: dict[str, BackendSpec] = field(default_factory=dict)
    losses: dict[str, LossFile] = field(default_factory=dict)
    failures: list[PluginFailure] = field(default_factory=list)
    owners: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)  # (kind, canonical): name, owner

    def claim(self, kind: str, name: str, owner: str) -> None:
        """Take a name; PluginConflictError if it is taken."""
        key = (kind, canonical(name))
        if key in self.owners:
            other, holder = self.owners[key]
            same = f"{name!r}" if other == name else f"{name!r}, the same name as {other!r},"
            twice = f"comes twice from {owner}" if holder == owner else f"comes from {owner} and from {holder}"
            raise PluginConflictError(
                f"{kind} {same} {twice}. Uninstall one, or turn one off with LOSSDSL_DISABLE=<plugin or distribution>."
            )
        self.owners[key] = (name, owner)


def discover(environ: Mapping[str, str] = os.environ) -> Registry:
    """Everything that is installed. Reads `LOSSDSL_DISABLE` and `LOSSDSL_STRICT_PLUGINS` of `environ`.

    Imports the modules that plugins name in the group `lossdsl.plugins`, and no code of data-only packs. Raises
    PluginConflictError where two distributions bring one name, and PluginFailedError in strict mode.
    """
    off = {canonical(name.strip()) for name in environ.get("LOSSDSL_DISABLE", "").split(",") if name.strip()}
    found = _Found(dict(load_primitives()))
    for name in sorted(found.primitives):
        found.claim("primitive", name, OURS)
    for name, load in built_in_plugins():
        _use(found, name, OURS, off, partial(_load_hooks, found, load, OURS))
    for pack, losses in files.built_in(OURS).items():
        _use(found, pack, OURS, off, partial(_take_pack, found, pack, OURS, losses))
    for owner, point in _entry_points(found.failures):
        _use(found, point.name, owner, off, partial(_take_point, found, owner, point))
    if environ.get("LOSSDSL_STRICT_PLUGINS") == "1":
        broken = [failure for failure in found.failures if failure.reason != DISABLED]
        if broken:
            lines = "\n".join(f"  {f.name} ({f.distribution}): {f.reason}" for f in broken)
            raise PluginFailedError(f"plugins that can't be used, and LOSSDSL_STRICT_PLUGINS=1:\n{lines}")
    return Registry(
        primitives=found.primitives,
        reductions=load_reductions(),
        losses=found.losses,
        backends=found.backends,
        failures=tuple(found.failures),
    )


def _use(found: _Found, name: str, owner: str, off: set[str], take: Callable[[], None]) -> None:
    """Run `take`, and turn whatever goes wrong in it into a failure of this plugin alone."""
    if canonical(name) in off or canonical(owner.split(" ")[0]) in off:
        found.failures.append(PluginFailure(owner, name, DISABLED))
        return
    try:
        with redirect_stdout(sys.stderr):  # what a plugin prints must not end up in our JSON
            take()
    except (KeyboardInterrupt, PluginConflictError):
        raise
    except BaseException as error:  # SystemExit too: a plugin's failure, whatever it is, is its own
        reason = str(error) if isinstance(error, PackError | UnfitPluginError) else f"{type(error).__name__}: {error}"
        found.failures.append(PluginFailure(owner, name, reason))


def _take_point(found: _Found, owner: str, point: EntryPoint) -> None:
    if point.group == hooks.GROUP:
        _load_hooks(found, point.load, owner)
    else:
        folder = files.folder_of(point.value)
        _take_pack(found, point.name, owner, files.files_of(folder, point.name, owner))


def _load_hooks(found: _Found, load: Callable[[], object], owner: str) -> None:
    """All that a plugin's hooks return, or nothing of it: every record is looked at before the first is taken."""
    results = call_hooks(load())
    backends = [replace(_fit(spec, BackendSpec), distribution=owner) for spec in results.backends]
    extra = [_fit(primitive, Primitive) for primitive in results.primitives]
    losses = [replace(_fit(loss, LossFile), distribution=owner) for loss in results.losses]
    for spec in backends:
        if not OLDEST_API <= spec.api <= API:
            age = "newer" if spec.api > API else "older"
            window = f"{API}" if OLDEST_API == API else f"{OLDEST_API} to {API}"
            raise UnfitPluginError(
                f"backend {spec.name!r} is for the {age} backend API {spec.api}; here it is {window}"
            )
    for spec in backends:
        found.claim("backend", spec.name, owner)
        found.backends[spec.name] = spec
    for primitive in extra:
        found.claim("primitive", primitive.name, owner)
        found.primitives[primitive.name] = primitive
    for pack in sorted({loss.pack for loss in losses}):
        _take_pack(found, pack, owner, tuple(loss for loss in losses if loss.pack == pack))


def _fit(record: object, kind: type[T]) -> T:
    if not isinstance(record, kind):
        raise UnfitPluginError(f"a hook returned {type(record).__name__} where {kind.__name__} is asked for")
    return record


def _take_pack(found: _Found, pack: str, owner: str, losses: tuple[LossFile, ...]) -> None:
    found.claim("pack", pack, owner)
    found.losses.update((f"{loss.pack}/{loss.name}", loss) for loss in losses)


def _entry_points(failures: list[PluginFailure]) -> Iterator[tuple[str, EntryPoint]]:
    """The entry points of both groups with "distribution version", in one order everywhere.

    Each distribution is read by itself: one with damaged metadata doesn't hide the others. Of two with one name the
    first on the path counts, as for imports. Our own are built in, and found without metadata.
    """
    points: list[tuple[str, EntryPoint]] = []
    seen: set[str] = {"lossdsl"}
    for distribution in distributions():
        try:
            mine = [point for point in distribution.entry_points if point.group in (hooks.GROUP, files.GROUP)]
            if not mine or canonical(distribution.name) in seen:
                continue
            seen.add(canonical(distribution.name))
            points += [(f"{distribution.name} {distribution.version}", point) for point in mine]
        except Exception as error:
            failures.append(PluginFailure(_place(distribution), "?", f"its metadata can't be read: {error}"))
    yield from sorted(points, key=_order)


def _order(item: tuple[str, EntryPoint]) -> tuple[str, str, str]:
    owner, point = item
    return canonical(owner), point.group, point.name


def _place(distribution: Distribution) -> str:
    return str(getattr(distribution, "_path", "a distribution"))
