"""Which statement stands where: the rule of each line, and the file put together from its statements."""

from __future__ import annotations

import re
from typing import Any

from lossdsl.source.diagnostic import Diagnostic, Label
from lossdsl.source.suggest import closest
from lossdsl.source.text import Source, Span
from lossdsl.syntax import ast
from lossdsl.syntax.lines import Line
from lossdsl.syntax.words import AFTER, BODY, HEAD, PARTS, RESERVED

_ASSIGNS = re.compile(r"[^\W\d]\w*'*\s*=")
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
# After one of these, a missing `return` may be a consequence.
_MAY_BE_RETURN = {"E0101", "E0102", "E0105", "E0112", "E0116", "E0132"}
# The order of statements within the head, and of the parts.
_RANK = {"loss_head": 0, "map_head": 0, "alias": 1, "docstring": 2, "cite": 3, "tags": 4, "assign": 20}


def rule_of(source: Source, line: Line) -> str | Diagnostic:
    """The grammar's rule for a line, by its first word."""
    text = source.text[line.span.start : line.span.end]
    if text.startswith('"'):
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


def _rank(rule: str) -> int:
    if rule in _RANK:
        return _RANK[rule]
    part = PARTS[rule.rstrip("_")]
    return 10 * part


def assemble(
    source: Source,
    statements: list[tuple[str, Line, Any]],
    comments: tuple[ast.Comment, ...],
    problems: list[Diagnostic],
) -> ast.LossDef | None:
    """The file from its statements; adds to `problems` what is missing, doubled or out of order."""
    _check_order(statements, problems)
    if not statements and not problems:
        span = Span(0, min(1, len(source.text)))
        problems.append(_missing_head(span, "the file has no statements"))
    if problems:
        return None
    nodes: dict[str, list[Any]] = {}
    for rule, _, node in statements:
        nodes.setdefault({"map_head": "loss_head", "def_": "body", "assign": "body"}.get(rule, rule), []).append(node)
    declarations = [n for r, _, n in statements if r in {"input", "param", "batch", "axis"}]
    kind, name, name_span = nodes["loss_head"][0]
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
        nodes["return_"][0],
        tuple(nodes.get("claim", ())),
        tuple(nodes.get("example", ())),
        comments,
        name_span=name_span,
        span=Span(statements[0][1].span.start, statements[-1][1].span.end),
    )


def _missing_head(span: Span, text: str) -> Diagnostic:
    message = "a file starts with `loss name` or `map name`"
    return Diagnostic("E0115", message, (Label(span, text),), "write `loss my_loss` as its first line")


def _check_order(statements: list[tuple[str, Line, Any]], problems: list[Diagnostic]) -> None:
    highest = -1
    highest_line: Line | None = None
    seen: dict[str, Line] = {}
    for i, (rule, line, _) in enumerate(statements):
        span = Span(line.span.start, line.span.start + max(len(line.word), 1))
        once = "loss_head" if rule == "map_head" else rule
        if i == 0 and once != "loss_head" and not any(d.labels[0].span.start < span.start for d in problems):
            problems.append(_missing_head(span, "the first statement is another one"))
        rank = _rank(rule)
        if once in {"loss_head", "docstring", "return_", "tags", "alias"} and once in seen:
            what = {"loss_head": "head", "return_": "`return`", "docstring": "docstring"}.get(once, f"`{once}` line")
            first = Label(
                Span(seen[once].span.start, seen[once].span.start + max(len(seen[once].word), 1)), "the first"
            )
            fix = "merge them" if once in {"tags", "alias", "docstring"} else "keep one of them"
            problems.append(Diagnostic("E0114", f"a file has one {what}", (Label(span, "a second one"), first), fix))
            continue
        if rank < highest and highest_line is not None and once != "loss_head":
            problems.append(_misplaced(rule, span, highest, highest_line))
        elif rank > highest:
            highest, highest_line = rank, line
        seen.setdefault(once, line)
    if "return_" not in seen and statements and not any(d.code in _MAY_BE_RETURN for d in problems):
        last = statements[-1][1].span
        label = Label(Span(max(last.end - 1, 0), last.end), "the file ends here")
        fix = "end it with `return` and the loss of one row"
        problems.append(Diagnostic("E0113", "nothing is returned", (label,), fix))


def _misplaced(rule: str, span: Span, highest: int, highest_line: Line) -> Diagnostic:
    after = Label(
        Span(highest_line.span.start, highest_line.span.start + max(len(highest_line.word), 1)), "already here"
    )
    if highest >= 10 * AFTER or highest == _rank("return_"):
        if rule in {"assign", "def_"}:
            message = "only claims and examples come after `return`"
            fix = "move this line above `return`"
        else:
            message, fix = "`return` comes before claims and examples", "move this line up"
            if rule != "return_":
                message, fix = "this comes before `return`", "move this line up"
        return Diagnostic("E0114", message, (Label(span, "too late"), after), fix)
    if (rule in PARTS and PARTS[rule] == HEAD) or rule == "docstring":
        order = "alias, docstring, cite, tags"
        message = f"the lines under the head come in the order {order}, before any input"
        return Diagnostic("E0114", message, (Label(span, "too late"), after), "move this line up")
    if _rank(rule) < 10 * BODY:
        message = "inputs, params and axes are declared before the first assignment"
        return Diagnostic("E0114", message, (Label(span, "too late"), after), "move this line up")
    message = "assignments come before `output`"
    return Diagnostic("E0114", message, (Label(span, "too late"), after), "move this line up")
