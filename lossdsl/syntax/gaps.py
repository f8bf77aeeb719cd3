"""What the statements that can't be read may have said, so that the others are checked without blame for it.

A name that a broken statement seems to declare is not unknown elsewhere; nothing is said of it until it can be read.
What is taken from a broken statement errs on the side of silence: a mistake too few costs a second look, a false one
costs trust.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lossdsl.source.text import Source, Span

_NAME = re.compile(r"[^\W\d]\w*")
# a name, or one with axes, before `=`
_SET = re.compile(r"\b([^\W\d]\w*)[ \t]{0,40}(?:\[[^\]]{0,40}\][ \t]{0,9})?=(?!=)")
_ASSIGNED = re.compile(r"(?<![=!<>~:+*/^-])=(?!=)")  # an `=` that is none of `==`, `<=`, `+=`
_BRANCHES = re.compile(r"(?:if|elif|else|for|while|try|except|with)\b")  # blocks of Python
_TEXT = re.compile(r'"[^"\n]*"?|#[^\n]*')
_DECLARES = ("input", "param", "batch", "axis")
_BATCH = ("loss_head", "map_head", "docstring", "batch", "input", "")


@dataclass(frozen=True, slots=True)
class Gaps:
    """What is not known of a file of which some statements can't be read; of a whole file nothing.

    `names` are values and `functions` functions that may be declared in them, `axes` the base names of axes that stand
    in them. `batch`: which axes are the batch may be other than it seems. `result`: what is returned can't be read.
    `branches`: what looks like a second value of a name may be one of two branches. `nameless`: a value has lost its
    name.
    """

    names: frozenset[str] = frozenset()
    functions: frozenset[str] = frozenset()
    axes: frozenset[str] = frozenset()
    batch: bool = False
    result: bool = False
    branches: bool = False
    nameless: bool = False


NONE = Gaps()


@dataclass(frozen=True, slots=True)
class Broken:
    """A statement that can't be read, by the rule of its first word ("" if that is no statement's).

    It is `mended` if it was read all the same, with names in their right case.
    """

    rule: str
    span: Span
    mended: bool = False


def gaps(source: Source, broken: Sequence[Broken], readable: Iterable[str]) -> Gaps:
    """The gaps that broken statements leave beside statements of the rules `readable`."""
    readable = set(readable)
    names: set[str] = set()
    functions: set[str] = set()
    axes: set[str] = set()
    nameless = False
    for statement in broken:
        text = _TEXT.sub("", source.text[statement.span.start : statement.span.end])
        declared = _declared(text, statement.rule)
        names.update(declared)
        names.update(n[0].lower() + n[1:] for n in declared)  # one who is told to write `logits` has `Logits` elsewhere
        nameless |= text.startswith("=")
        functions.update(_functions(text, statement.rule, declared))
        found = _NAME.findall(text)
        axes.update(n for n in found if n[0].isupper())
        if statement.rule in _DECLARES:  # axes in the wrong case too
            axes.update(n[0].upper() + n[1:] for n in found)
    unknown = any(b.rule in _BATCH or not _assigns(source, b) for b in broken if not b.mended)
    headless = not readable & {"loss_head", "map_head"}
    return Gaps(
        frozenset(names),
        frozenset(functions),
        frozenset(axes),
        headless or unknown,
        "return_" not in readable,
        any(not b.rule and _BRANCHES.match(source.text, b.span.start) for b in broken),
        nameless,
    )


def _assigns(source: Source, statement: Broken) -> bool:
    """Whether it isn't one that looks like an assignment only because its first word, such as `batch`, is missing."""
    return statement.rule != "assign" or "=" in source.text[statement.span.start : statement.span.end]


def _declared(text: str, rule: str) -> list[str]:
    """The names that a statement seems to declare, on each of the lines that it has swallowed."""
    if rule in ("", "loss_head", "map_head", *_DECLARES):  # a head may hold arguments, as a def of Python does
        return _NAME.findall(text)
    found: list[str] = []
    for i, line in enumerate(text.splitlines()):
        assigned = _ASSIGNED.search(line)
        if i == 0 and rule not in ("assign", "def_"):
            continue
        if assigned:
            found += [*_SET.findall(line), *_NAME.findall(line[: assigned.start()])]
        elif i == 0 or line.split(maxsplit=1)[:1] in [[word] for word in _DECLARES]:
            found += _NAME.findall(line)
    return found


def _functions(text: str, rule: str, declared: list[str]) -> list[str]:
    """Which of the declared names may be functions: those of a def, also without its word, and those that are modes."""
    left, *right = _ASSIGNED.split(text, maxsplit=1)
    if rule == "def_" or (right and "(" in left) or "{" in text or "lambda" in text:
        return declared
    return [] if rule else declared[:2]
