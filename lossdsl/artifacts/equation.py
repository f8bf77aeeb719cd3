"""The mathematics that a module shows: the file's own lines, and the gradient as formulas."""

from __future__ import annotations

from lossdsl.derive.formula import formulas, plain
from lossdsl.ir.graph import JointGraph
from lossdsl.registry import Registry
from lossdsl.source.text import Source
from lossdsl.syntax.ast import Assign, LossDef

PAGE = 40  # lines


def equation(lossdef: LossDef, source: Source) -> str:
    """The assignments and the return of a file, as they stand there, without comments."""
    spans = [s.span for s in lossdef.body if isinstance(s, Assign)]
    parts = [_words(source.text[s.start : s.end]) for s in spans]
    result = lossdef.result.span
    return "\n".join([*parts, f"return {_words(source.text[result.start : result.end])}"])


def _words(text: str) -> str:
    """A statement on one line: comments left out, line breaks and runs of blanks as one blank."""
    lines = [line.split("#", 1)[0] for line in text.splitlines()]
    return " ".join(" ".join(lines).split())


def gradient(joint: JointGraph, registry: Registry) -> str:
    """The derivatives of an entry of the loss by the inputs as formulas; empty where they fill more than a page."""
    graph = plain(joint, registry)
    inputs = {f"grad.{leaf.name}": leaf for leaf in graph.leaves if leaf.role == "input"}
    written = formulas(graph, [name for name, _ in graph.outputs if name in inputs])
    lines = [f"{name} = {text}" for name, text in written.lets]
    for name, text in written.outputs:
        leaf = inputs[name]
        axes = f"[{', '.join(leaf.axes)}]" if leaf.axes else ""
        lines.append(f"d loss / d {leaf.name}{axes} = {text}")
    return "\n".join(lines) if len(lines) <= PAGE else ""
