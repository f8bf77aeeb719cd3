"""What could stand at the cursor."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from lossdsl.check.prelude import prelude
from lossdsl.lsp.analysis import Analysis
from lossdsl.lsp.words import CONSTANTS, FUNCTIONS, KINDS, STATEMENTS
from lossdsl.registry import Registry
from lossdsl.syntax import ast

Kind = Literal["statement", "word", "kind", "value", "axis", "function", "loss", "constant"]
_NAME = re.compile(r"[^\W\d]\w*'*\Z")


@dataclass(frozen=True, slots=True)
class Completion:
    label: str
    kind: Kind
    detail: str = ""


def completions(analysis: Analysis, registry: Registry, offset: int) -> list[Completion]:
    """Everything that may begin with the word before the cursor; the editor filters by what is typed."""
    source = analysis.source
    line, column = source.position(offset)
    before = _NAME.sub("", source.line(line)[: column - 1])
    if not before.strip():
        return [Completion(word, "statement", text) for word, text in STATEMENTS.items()] + _values(analysis)
    first = before.split()[0]
    if first in ("input", "param", "def") and re.search(r":\s*\Z", before):
        return [Completion(kind, "kind", text) for kind, text in KINDS.items()] + [Completion("fixed", "word")]
    if re.search(r"\[[^\](]*\Z", before):
        return _axes(analysis) + _values(analysis)
    functions = [Completion(name, "function", text) for name, text in FUNCTIONS.items()]
    functions += [Completion(f.name, "function", f.doc) for f in registry.reductions.values() if f.public]
    functions += [Completion(f.name, "function", f.doc) for f in registry.primitives.values() if f.public]
    functions += [Completion(name, "function", "prelude") for name in prelude()]
    losses = [Completion(file.name, "loss", f"{file.pack}/{file.name}") for file in registry.losses.values()]
    constants = [Completion(name, "constant", text) for name, text in CONSTANTS.items()]
    own = _values(analysis) + _axes(analysis)
    return list({c.label: c for c in [*losses, *functions, *constants, *own]}.values())


def _values(analysis: Analysis) -> list[Completion]:
    found: list[Completion] = []
    for decl in analysis.loss.decls if analysis.loss else ():
        if isinstance(decl, ast.InputDecl):
            found += [Completion(item.name, "value", "input") for item in decl.items]
        elif isinstance(decl, ast.ParamDecl):
            found += [Completion(item.name, "value", "param") for item, _ in decl.items]
    for statement in analysis.loss.body if analysis.loss else ():
        kind: Kind = "function" if isinstance(statement, ast.Def) else "value"
        found.append(Completion(statement.name, kind, "of this file"))
    return found


def _axes(analysis: Analysis) -> list[Completion]:
    if analysis.checked is not None:
        return [Completion(axis.name, "axis", "batch axis" if axis.batch else "axis") for axis in analysis.checked.axes]
    names = re.findall(r"(?<!\w)[^\W\da-z_]\w*'*", analysis.source.text)
    return [Completion(name, "axis", "axis") for name in dict.fromkeys(names) if name[0].isupper()]
