"""The three hooks a plugin may implement, and how it marks them.

A plugin is a distribution with an entry point in the group `lossdsl.plugins` that names a module (or any object) with
functions under these names:

    from lossdsl.backends.hooks import hookimpl
    from lossdsl.backends.offer import API, BackendSpec

    @hookimpl
    def lossdsl_backends():
        return [BackendSpec(name="mine", api=API, emit="mine.emit:emit", probe="mine.emit:probe", devices=("cpu",))]

    lossdsl_api = 1  # the version of these hooks that the plugin is written for; HOOKS of this module

The module is imported whenever lossdsl looks for plugins, `lossdsl list` included: it must be light. What is heavy
(torch, a compiler) belongs behind the "module:function" names of the records.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from lossdsl.primitives.record import Primitive
    from lossdsl.registry import BackendSpec, LossFile

PROJECT = "lossdsl"
GROUP = "lossdsl.plugins"  # entry points that name a plugin with hooks
HOOKS = 1  # raised when a plugin written for the last one would break; new hooks and arguments are no such change
OLDEST_HOOKS = 1
VERSION = "lossdsl_api"  # a plugin that doesn't say so is for version 1
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def lossdsl_backends() -> Iterable[BackendSpec]:  # type: ignore[empty-body]
    """Backends that this plugin brings; `distribution` is filled in by lossdsl."""


@hookspec
def lossdsl_primitives() -> Iterable[Primitive]:  # type: ignore[empty-body]
    """Pointwise operations that this plugin adds to the language."""


@hookspec
def lossdsl_losses() -> Iterable[LossFile]:  # type: ignore[empty-body]
    """Losses of a pack that needs code to find its files (`lossdsl.packs.files_of`); most need none, only data."""
