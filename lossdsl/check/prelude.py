"""The prelude: functions of the language written in it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from lossdsl.check.context import Function, Scope
from lossdsl.source.text import Source
from lossdsl.syntax import ast
from lossdsl.syntax.parse import parse


@cache
def prelude_source() -> Source:
    """The text of `prelude.loss`."""
    return Source("prelude.loss", (files("lossdsl.check") / "prelude.loss").read_text(encoding="utf-8"))


@cache
def prelude() -> Mapping[str, Function]:
    """Its functions by name; each sees the others."""
    functions: dict[str, Function] = {}
    scope = Scope({}, functions, {}, (), title="the prelude")
    for statement in parse(prelude_source()).body:
        if isinstance(statement, ast.Def):
            functions[statement.name] = Function(statement, scope)
    return MappingProxyType(functions)


def of_prelude(scope: Scope) -> bool:
    """Whether a scope is the body of one of its functions: these may call primitives that files may not."""
    return scope.functions.get("dot") is prelude()["dot"]
