"""Lines of generated text that a formatter would leave as they are."""

from __future__ import annotations

from collections.abc import Sequence

WIDTH = 88


def wrapped(head: str, items: Sequence[str], tail: str) -> list[str]:
    """`head`, items and `tail` as one line, or with an item a line where that is too long."""
    one = f"{head}{', '.join(items)}{tail}"
    if len(one) <= WIDTH or not items:
        return [one]
    pad = " " * (len(head) - len(head.lstrip()))
    second = f"{pad}    {', '.join(items)}"
    if len(second) <= WIDTH and not head.lstrip().startswith("def "):
        return [head, second, pad + tail]
    lines = [head]
    for x in items:
        if len(pad) + len(x) + 5 > WIDTH and x.startswith("["):
            lines += [f"{pad}    [", *(f"{pad}        {y}," for y in parts(x[1:-1])), f"{pad}    ],"]
        else:
            lines.append(f"{pad}    {x},")
    return [*lines, pad + tail]


def parts(text: str) -> list[str]:
    """The items of a list's text, split at the commas that lie in no brackets."""
    found, depth = [""], 0
    for c in text:
        depth += (c in "([") - (c in ")]")
        if c == "," and not depth:
            found.append("")
        else:
            found[-1] += c
    return [x.strip() for x in found]
