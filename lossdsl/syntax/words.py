"""The language's words, by where they stand."""

from __future__ import annotations

# They may not name a value: a line that starts with one of them goes on from the line before.
RESERVED = frozenset({"if", "then", "else", "and", "or", "not", "where", "weighted", "in"})

# Names that no argument has: an axis is said by its name, in brackets.
NOT_ARGUMENTS = frozenset({"dim", "dims", "axis", "axes", "keepdim", "keepdims"})

# The first words of statements, with the part of the file in which the statement stands.
HEAD, DECLARATION, BODY, OUTPUT, RETURN, AFTER = range(6)
PARTS: dict[str, int] = {
    "loss": HEAD,
    "map": HEAD,
    "alias": HEAD,
    "cite": HEAD,
    "tags": HEAD,
    "input": DECLARATION,
    "param": DECLARATION,
    "batch": DECLARATION,
    "axis": DECLARATION,
    "def": BODY,
    "output": OUTPUT,
    "return": RETURN,
    "claim": AFTER,
    "example": AFTER,
}

KINDS = ("real", "prob", "bool", "int", "index", "label")
DRAWS = ("gumbel", "uniform", "normal")
