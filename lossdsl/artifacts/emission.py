"""Calling a backend's `emit`, and looking at what it returns before it becomes text of ours."""

from __future__ import annotations

import ast
import inspect

from lossdsl.backends.api import Emitted, Plan
from lossdsl.backends.manager import BackendError, function
from lossdsl.registry import BackendSpec, Registry
from lossdsl.source.text import Source


def emit_with(spec: BackendSpec, plan: Plan, source: Source, registry: Registry) -> Emitted:
    """The backend's text of a plan. It is given `source` and `registry` by keyword if it takes them.

    Raises BackendError where it can't be loaded or returns what is no module's text; NotSupportedError passes through.
    """
    emit = function(spec, "emit")
    offered = {"source": source, "registry": registry}
    taken = inspect.signature(emit).parameters
    emitted = emit(plan, **{name: value for name, value in offered.items() if name in taken})
    if not isinstance(emitted, Emitted):
        raise BackendError(f"backend {spec.name!r} returned {type(emitted).__name__}, not Emitted")
    try:
        tree = ast.parse(emitted.functions)
    except SyntaxError as error:
        raise BackendError(f"backend {spec.name!r} returned text that is no Python: {error}") from error
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    asked = {program.name.rpartition(".")[2] for program in plan.programs}
    if missing := sorted(asked - defined):
        raise BackendError(f"backend {spec.name!r} printed no function {', '.join(missing)}")
    return emitted
