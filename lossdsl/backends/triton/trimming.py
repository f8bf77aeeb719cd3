"""What a function of a printed text assigns and never reads is left out of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

IMPURE = ("store", "atomic", "run", "empty_", "fill_")  # in the name of what is called for more than its value


def trimmed(text: str) -> str:
    """The text of functions without the assignments to names that nothing in their function reads.

    Only statements `name = expression` go, calls of what does more than give a value stay, and so does a block that
    would be left without a statement. What only such a statement read goes with it.
    """
    while True:
        gone: set[int] = set()
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef):
                gone |= set(_unread(node))
        if not gone:
            return text
        text = "".join(line for at, line in enumerate(text.splitlines(keepends=True), 1) if at not in gone)


def _unread(function: ast.FunctionDef) -> Iterator[int]:
    """The lines of a function's assignments that nothing reads."""
    read = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Store)}
    read |= {n.target.id for n in ast.walk(function) if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)}
    for block in _blocks(function):
        dead = [s for s in block if _assigns(s) and _name(s) not in read and not _acts(s)]
        if len(dead) < len(block):
            for s in dead:
                yield from range(s.lineno, (s.end_lineno or s.lineno) + 1)


def _blocks(function: ast.FunctionDef) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(function):
        for field in ("body", "orelse"):
            block = getattr(node, field, None)
            if isinstance(block, list) and block:
                yield block


def _assigns(s: ast.stmt) -> bool:
    return isinstance(s, ast.Assign) and len(s.targets) == 1 and isinstance(s.targets[0], ast.Name)


def _name(s: ast.stmt) -> str:
    assert isinstance(s, ast.Assign)
    target = s.targets[0]
    assert isinstance(target, ast.Name)
    return target.id


def _acts(s: ast.stmt) -> bool:
    """Whether an assignment calls something that does more than give its value."""
    calls = (ast.unparse(n.func) for n in ast.walk(s) if isinstance(n, ast.Call))
    return any(word in name for name in calls for word in IMPURE)
