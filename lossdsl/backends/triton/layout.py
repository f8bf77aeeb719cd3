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
    return [head, *(f"{pad}    {x}," for x in items), pad + tail]
