"""Sizes of axes that are more than a number: arithmetic of numbers, params and sizes, which the caller works out."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from lossdsl.check.typed import AxisInfo, Term
from lossdsl.check.types import base_axis

# What `lossdsl/runtime/extents.py` computes; the names are those of the primitives.
ARITHMETIC = frozenset({"add", "sub", "mul", "div", "neg", "pow", "mod", "minimum", "maximum", "clip", "select"})
ARITHMETIC |= {"abs", "sign", "floor", "round", "sqrt", "exp", "log"}
ARITHMETIC |= {"eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not"}

MOST = 200  # operations, as it is written out
Tree = float | int | str | tuple["Tree", ...]


def beyond(term: Term) -> Term | None:
    """A part of a size that is no arithmetic: a reduction, an index, a function that the caller doesn't have."""
    stack, seen = [term], {id(term)}
    while stack:
        t = stack.pop()
        if t.op not in ARITHMETIC and t.op not in ("const", "leaf", "size"):
            return t
        for a in t.args:
            if id(a) not in seen:
                seen.add(id(a))
                stack.append(a)
    return None


def tree(term: Term, names: dict[str, str]) -> Tree:
    """A size for the signature: a number, a param's name, "size A", or an operation with its arguments.

    `names` gives params the names that they have there.
    """
    if term.op == "const":
        value = term.attrs[0]
        return float(value) if isinstance(value, Fraction) else value if isinstance(value, int | float) else 0
    if term.op == "leaf":
        return names[str(term.attrs[0])]
    if term.op == "size":
        return f"size {base_axis(str(term.attrs[0]))}"
    return (term.op, *(tree(a, names) for a in term.args))


def written(term: Term) -> int:
    """How many operations a size has when it is written out."""
    counts: dict[int, int] = {}
    stack = [term]
    while stack:
        t = stack[-1]
        waiting = [a for a in t.args if id(a) not in counts]
        if waiting:
            stack.extend(waiting)
            continue
        stack.pop()
        counts[id(t)] = 1 + sum(counts[id(a)] for a in t.args)
    return counts[id(term)]


def ordered(axes: Iterable[AxisInfo]) -> list[tuple[str, Term]]:
    """The axes that have a size of their own, one that another's size reads before that one."""
    sizes = {a.name: a.size for a in axes if a.size is not None}
    found: dict[str, Term] = {}
    active: set[str] = set()

    def add(axis: str) -> None:
        if axis in found or axis not in sizes or axis in active:
            return
        active.add(axis)
        for other in sorted(size_axes(sizes[axis])):
            add(other)
        found[axis] = sizes[axis]

    for axis in sizes:
        add(axis)
    return list(found.items())


def size_axes(term: Term) -> set[str]:
    """The axes whose sizes a size reads."""
    stack, seen, names = [term], {id(term)}, set()
    while stack:
        t = stack.pop()
        if t.op == "size":
            names.add(base_axis(str(t.attrs[0])))
        for a in t.args:
            if id(a) not in seen:
                seen.add(id(a))
                stack.append(a)
    return names
