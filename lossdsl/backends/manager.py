"""How backends are found, asked and chosen. Nothing of a backend is imported before it is asked something."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

import pluggy

from lossdsl.backends import hooks
from lossdsl.backends.offer import Availability
from lossdsl.registry import BackendSpec, PluginFailure

HERE = Path(__file__).parent


class BackendError(ValueError):
    """A backend asked for by name that isn't there or can't be used; the message says why."""


class UnfitPluginError(TypeError):
    """What a plugin is, or what its hooks returned, can't be used."""


class PluginVersionError(UnfitPluginError):
    """A plugin is for another version of lossdsl; `fix` says which of the two to change."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


@dataclass(frozen=True, slots=True)
class HookResults:
    """What the hooks of one plugin returned, not yet looked at."""

    backends: tuple[object, ...]
    primitives: tuple[object, ...]
    losses: tuple[object, ...]


def built_in_plugins() -> Iterator[tuple[str, Callable[[], object]]]:
    """Name and loader of every backend in this folder: a package with a `plugin.py`, which holds the same hooks as
    anyone's."""
    for module in pkgutil.iter_modules([str(HERE)]):
        if module.ispkg and (HERE / module.name / "plugin.py").is_file():
            yield module.name, lambda name=module.name: importlib.import_module(f"{__package__}.{name}.plugin")  # type: ignore[misc]


def call_hooks(plugin: object) -> HookResults:
    """Everything that one plugin's hooks return; UnfitPluginError if it has none, or returns no list.

    Each plugin gets a manager of its own, so that one that raises is known by name and stops no other.
    """
    if plugin is None:
        raise UnfitPluginError("its entry point leads to None")
    in_window("it", "hooks", getattr(plugin, hooks.VERSION, 1), hooks.OLDEST_HOOKS, hooks.HOOKS)
    manager = pluggy.PluginManager(hooks.PROJECT)
    manager.add_hookspecs(hooks)
    try:
        manager.register(plugin)
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        raise UnfitPluginError(f"its hooks aren't those of lossdsl: {' '.join(str(error).split())}") from None
    callers = manager.get_hookcallers(plugin)
    if not callers:
        raise UnfitPluginError("it implements none of the hooks; are its functions marked with @hookimpl?")
    found = {caller.name: _records(caller.name, caller()) for caller in callers}
    return HookResults(*(found.get(f"{hooks.PROJECT}_{what}", ()) for what in ("backends", "primitives", "losses")))


def in_window(what: str, interface: str, number: object, oldest: int, newest: int) -> None:
    """PluginVersionError unless oldest <= number <= newest; UnfitPluginError if it is no whole number."""
    if not isinstance(number, int) or isinstance(number, bool):
        raise UnfitPluginError(f"the version of the {interface} that {what} is for is {number!r}, no whole number")
    window = f"{newest}" if oldest == newest else f"{oldest} to {newest}"
    if number > newest:
        raise PluginVersionError(
            f"{what} is for the newer {interface} {number}; here it is {window}",
            "update lossdsl, or install an older version of the plugin",
        )
    if number < oldest:
        raise PluginVersionError(
            f"{what} is for the older {interface} {number}; here it is {window}",
            "update the plugin, or install an older lossdsl",
        )


def _records(name: str, results: list[object]) -> tuple[object, ...]:
    """What one hook of one plugin returned; pluggy leaves out a None."""
    if not results:
        raise UnfitPluginError(f"its hook {name} returned None where a list of records is asked for")
    [result] = results
    if not isinstance(result, Iterable) or isinstance(result, str | bytes):
        raise UnfitPluginError(f"its hook {name} returned {type(result).__name__} where a list of records is asked for")
    return tuple(result)


def function(spec: BackendSpec, which: Literal["emit", "probe"]) -> Callable[..., Any]:
    """One of a backend's functions, imported; BackendError if its name doesn't lead to one."""
    target = spec.emit if which == "emit" else spec.probe
    module, _, name = target.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError, OSError) as error:
        raise BackendError(f"backend {spec.name!r} ({spec.distribution}) can't be loaded: {error}") from error
    if not callable(found):
        raise BackendError(f"backend {spec.name!r} ({spec.distribution}): {target} is no function")
    return found  # type: ignore[no-any-return]


def availability(spec: BackendSpec) -> Availability:
    """Whether a backend can be used here. Its probe's failure is an answer: no, and why."""
    try:
        answer = function(spec, "probe")()
    except BackendError as error:
        return Availability(False, str(error))
    except Exception as error:
        return Availability(False, f"its probe failed: {type(error).__name__}: {error}")
    if not isinstance(answer, Availability):
        return Availability(False, f"its probe returned {type(answer).__name__}, not Availability")
    return answer


def device_type(device: object) -> str:
    """The type of a device: "cuda" of "cuda:1" or of a torch.device. BackendError where torch knows none such."""
    name = str(device).partition(":")[0]
    if name not in ("cpu", "cuda"):
        import torch

        try:
            torch.device(name)
        except RuntimeError:
            raise BackendError(f"{str(device)!r} is no device: cpu, cuda, or another that torch knows") from None
    return name


@dataclass(frozen=True, slots=True)
class Choice:
    """The backend that is used, and in words why: what stood before it and could not be."""

    spec: BackendSpec
    reason: str


def choose(
    backends: Mapping[str, BackendSpec],
    name: str = "auto",
    device: str = "cpu",
    failures: Iterable[PluginFailure] = (),
) -> Choice:
    """The backend of that name; for "auto" the one of highest priority for the device that can be used here.

    One that is asked for by name is never replaced: BackendError says why it can't be used, and for a name that is not
    known, which plugins are not in use (`failures`).
    """
    if name != "auto":
        spec = backends.get(name)
        if spec is None:
            close = get_close_matches(name, backends, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else "."
            blamed = "".join(f" (But {f})" for f in failures if not f.disabled or name in (f.name, f.distribution))
            raise BackendError(
                f"there is no backend {name!r}{hint} There are: {', '.join(sorted(backends))}, auto{blamed}"
            )
        answer = availability(spec)
        if not answer.ok:
            raise BackendError(f"backend {name!r} can't be used here: {answer.reason}")
        return Choice(spec, "asked for by name")
    passed: list[str] = []
    device = device_type(device)
    for spec in sorted(backends.values(), key=lambda spec: (-spec.priority, spec.name)):
        if device not in spec.devices and "*" not in spec.devices:
            passed.append(f"{spec.name} is for {' and '.join(spec.devices)}")
            continue
        answer = availability(spec)
        if answer.ok:
            reason = f"the first that can be used for {device}"
            return Choice(spec, "; ".join([*passed, reason]) if passed else reason)
        passed.append(f"{spec.name} can't be used: {answer.reason}")
    raise BackendError(f"no backend can be used for {device}: {'; '.join(passed) or 'none is installed'}")
