"""The lines of one function: indentation, long calls, comments, and lines that belong to an outer function."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from textwrap import wrap

from lossdsl.backends.torch.names import Identifiers
from lossdsl.source.text import Source, Span

WIDTH = 88
_CHAINED = re.compile(r"\)\.\w+\(")  # a call of what a call has given


class Lines:
    """The body of a function as it is written, and the names that it uses."""

    def __init__(self, source: Source | None) -> None:
        self.source = source
        self.names = Identifiers()
        self.lines: list[str] = []
        self.outer = self.lines
        self.helpers: set[str] = set()
        self.said: str | None = None  # the comment above the current group

    def hoisted(self, text: str) -> None:
        """A line of the function itself, also while a function within it is written."""
        self.lines, inner = self.outer, self.lines
        self.line(text)
        self.lines = inner

    def line(self, text: str) -> None:
        self.lines += [f"    {text}"] if len(text) + 4 <= WIDTH else wrapped(text)

    def call(self, helper: str) -> str:
        self.helpers.add(helper)
        return helper

    def listed(self, text: str, head: str, items: Sequence[str]) -> None:
        """A call on one line, or with one argument a line."""
        if len(text) + 4 <= WIDTH:
            self.line(text)
        else:
            self.line(head)
            self.lines += [f"        {i}," for i in items]
            self.line(")")

    def comment(self, origin: Span | None) -> None:
        """The line of the file that the next lines compute, when it is another than the last."""
        if origin is None or self.source is None:
            return
        number, _ = self.source.position(origin.start)
        text = "".join(c if c.isprintable() else " " for c in self.source.line(number)).strip()
        text = text if len(text) <= WIDTH - 6 else text[: WIDTH - 9].rstrip() + "..."
        if text and text != self.said:
            self.said = text
            self.line(f"# {text}")


def docstring(doc: str) -> list[str]:
    """A record's sentence as the docstring of its function."""
    sentence = doc.replace("\\", "/").replace('"', "'") + "."
    if len(sentence) + 10 <= WIDTH:
        return [f'    """{sentence}"""']
    first, *rest = wrap(sentence, WIDTH - 7)
    return [f'    """{first}', *(f"    {line}" for line in rest), '    """']


def wrapped(text: str) -> list[str]:
    """A line that is too long, as ruff splits it: a chain of calls within brackets, if it fits there; else at the last
    brackets before which the line is short enough, with what they hold on one line, or on one each."""
    name, is_assigned, chain = text.partition(" = ")
    if is_assigned and name.isidentifier() and len(chain) + 8 <= WIDTH and len(_CHAINED.findall(_outside(chain))) > 1:
        return [f"    {name} = (", f"        {chain}", "    )"]
    depth, groups = 0, list[tuple[int, int]]()
    for i, c in enumerate(text):
        if c in "([{":
            if depth == 0:
                groups.append((i, -1))
            depth += 1
        elif c in ")]}":
            depth -= 1
            if depth == 0:
                groups[-1] = (groups[-1][0], i)
    if not groups:
        return [f"    {text}"]
    opened, closed = next((g for g in reversed(groups) if g[0] + 5 <= WIDTH), groups[-1])
    inner = text[opened + 1 : closed]
    if len(inner) + 8 <= WIDTH:
        return [f"    {text[: opened + 1]}", f"        {inner}", f"    {text[closed:]}"]
    return [f"    {text[: opened + 1]}", *(f"        {part}," for part in _parts(inner)), f"    {text[closed:]}"]


def _outside(text: str) -> str:
    """The text without what its brackets hold."""
    depth, found = 0, []
    for c in text:
        depth -= c in ")]}"
        if depth == 0:
            found.append(c)
        depth += c in "([{"
    return "".join(found)


def _parts(inner: str) -> list[str]:
    """The arguments between brackets."""
    depth, cuts = 0, [-1]
    for i, c in enumerate(inner):
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            cuts.append(i)
    return [inner[a + 1 : b].strip() for a, b in pairwise([*cuts, len(inner)])]


def signature(kind: str, arguments: Sequence[str], sizes: Sequence[str]) -> str:
    """The `def` line; one argument a line if they do not fit."""
    items = [f"{a}: Tensor" for a in arguments]
    if sizes:
        items += ["*", *(f"{s}: int" for s in sizes)]
    line = f"def {kind}({', '.join(items)}) -> tuple[Tensor, ...]:"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"def {kind}(", *(f"    {i}," for i in items), ") -> tuple[Tensor, ...]:"])
