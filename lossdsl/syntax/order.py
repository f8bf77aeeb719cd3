"""Which statement stands where: the rule of each line, and the file put together from its statements."""

from __future__ import annotations

import re
from typing import Any

from lossdsl.source.diagnostic import Diagnostic, Label
from lossdsl.source.suggest import closest
from lossdsl.source.text import Source, Span
from lossdsl.syntax import ast
from lossdsl.syntax.lines import Line
from lossdsl.syntax.words import PARTS, RESERVED

_ASSIGNS = re.compile(r"[^\W\d]\w*'*\s*[-+*/^]?=")  # `loss += x` is none of the head
_FOREIGN = {
    "import": "a file needs no imports: every function of the language is at hand",
    "from": "a file needs no imports: every function of the language is at hand",
    "for": "there are no loops: a reduction such as `sum[C](…)` runs over an axis",
    "while": "there are no loops: a reduction such as `sum[C](…)` runs over an axis",
    "class": "a file is one loss; it starts with `loss name`",
    "lambda": "write `def f(x) = …`",
    "let": "an assignment needs no word in front: `x = …`",
    "var": "an assignment needs no word in front: `x = …`",
    "print": "nothing is printed; `output x` hands a value to the caller",
    "assert": "what should hold is a `claim`",
    "try": "nothing can fail at run time",
    "with": "there is nothing to open or close",
    "global": "there are no global names",
    "del": "names are not deleted",
    "pass": "leave the line out",
    "raise": "nothing can fail at run time",
    "if": "a choice is a value: `x = if … then … else …`",
    "elif": "a choice is a value: `x = if … then … else …`",
    "else": "a choice is a value: `x = if … then … else …`",
}
_RULES = {"loss": "loss_head", "map": "map_head", "def": "def_", "return": "return_"}


def rule_of(source: Source, line: Line) -> str | Diagnostic:
    """The grammar's rule for a line, by its first word."""
    text = source.text[line.span.start : line.span.end]
    if text.startswith(('"', "'")):
        return "docstring"
    word = line.word
    assigns = _ASSIGNS.match(text)
    if word in PARTS and not (assigns and not text[assigns.end() :].startswith("=")):
        return _RULES.get(word, word)
    if assigns:
        return "assign"
    span = Span(line.span.start, line.span.start + max(len(word), 1))
    if word in _FOREIGN:
        label = Label(span, "not a statement of the language")
        what = "starts no statement" if word in RESERVED else "is Python, not .loss"
        return Diagnostic("E0112", f"`{word}` {what}", (label,), _FOREIGN[word])
    near = closest(word, PARTS) if word and not text[len(word) :].lstrip().startswith(("[", "(", ".")) else None
    if near:
        label = Label(span, "no statement starts with this word")
        return Diagnostic("E0116", f"`{word}` starts no statement", (label,), f"did you mean `{near}`?")
    return "assign"


def assemble(statements: list[tuple[str, Line, Any]], comments: tuple[ast.Comment, ...]) -> ast.LossDef:
    """The file from its statements; where they lack the head or the `return`, with one that says nothing."""
    first, last = statements[0][1].span, statements[-1][1].span
    nodes: dict[str, list[Any]] = {}
    for rule, _, node in statements:
        nodes.setdefault({"map_head": "loss_head", "def_": "body", "assign": "body"}.get(rule, rule), []).append(node)
    declarations = [n for r, _, n in statements if r in {"input", "param", "batch", "axis"}]
    kind, name, name_span = nodes.get("loss_head", [("loss", "", Span(first.start, first.start + 1))])[0]
    return ast.LossDef(
        kind,
        name,
        tuple(a for group in nodes.get("alias", ()) for a in group),
        nodes.get("docstring", [None])[0],
        tuple(nodes.get("cite", ())),
        tuple(t for group in nodes.get("tags", ()) for t in group),
        tuple(declarations),
        tuple(nodes.get("body", ())),
        tuple(nodes.get("output", ())),
        nodes.get("return_", [ast.Argument(ast.Number("0"))])[0],
        tuple(nodes.get("claim", ())),
        tuple(nodes.get("example", ())),
        comments,
        name_span=name_span,
        span=Span(first.start, last.end),
    )
