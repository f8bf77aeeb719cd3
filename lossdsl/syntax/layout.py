"""Breaking lines: documents that say where a line may break, laid out within a width.

The algebra of Wadler's "A prettier printer": a group is printed on one line if it fits, else its own breaks (not those
of groups inside it) become line breaks.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Break:
    """A place where a line may end; `flat` is what stands there when it doesn't."""

    flat: str = " "


@dataclass(frozen=True, slots=True)
class Nest:
    """A document whose broken lines are indented by two more columns."""

    doc: Doc


@dataclass(frozen=True, slots=True)
class Group:
    """A document that is printed flat if it fits."""

    doc: Doc


Doc = str | Break | Nest | Group | tuple["Doc", ...]


def join(separator: Doc, docs: list[Doc]) -> Doc:
    """The documents with a separator between each two."""
    out: list[Doc] = []
    for i, doc in enumerate(docs):
        out.extend((separator, doc) if i else (doc,))
    return tuple(out)


def lay_out(doc: Doc, width: int) -> str:
    """The text of a document, no line longer than `width` where that can be."""
    out: list[str] = []
    column = 0
    stack: list[tuple[int, bool, Doc]] = [(0, False, Group(doc))]
    while stack:
        indent, flat, part = stack.pop()
        if isinstance(part, str):
            out.append(part)
            column += len(part)
        elif isinstance(part, Break):
            if flat:
                out.append(part.flat)
                column += len(part.flat)
            else:
                out.append("\n" + " " * indent)
                column = indent
        elif isinstance(part, Nest):
            stack.append((indent + 2, flat, part.doc))
        elif isinstance(part, Group):
            stack.append((indent, flat or _fits(part.doc, width - column, stack), part.doc))
        else:
            stack.extend((indent, flat, child) for child in reversed(part))
    return "".join(out)


def _fits(doc: Doc, room: int, rest: list[tuple[int, bool, Doc]]) -> bool:
    """Whether a document fits flat in `room` columns, together with what follows it on its line."""
    pending: list[tuple[bool, Doc]] = [(True, doc)]
    following = len(rest)
    while room >= 0:
        if not pending:
            if following == 0:
                return True
            following -= 1
            pending.append((rest[following][1], rest[following][2]))
            continue
        flat, part = pending.pop()
        if isinstance(part, str):
            room -= len(part)
        elif isinstance(part, Break):
            if not flat:
                return True
            room -= len(part.flat)
        elif isinstance(part, Nest | Group):
            pending.append((flat, part.doc))
        else:
            pending.extend((flat, child) for child in reversed(part))
    return False
