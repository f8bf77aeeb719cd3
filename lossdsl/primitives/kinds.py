"""The kind of a primitive's value from those of its arguments. bool ⊂ int ⊂ real, index A ⊂ int; label stands alone."""

from __future__ import annotations

from collections.abc import Sequence

from lossdsl.primitives.record import Primitive


def join(kinds: Sequence[str]) -> str:
    """The smallest kind that holds values of all: two indices of one axis stay an index, else int, else real."""
    distinct = set(kinds)
    if len(distinct) == 1:
        return kinds[0]
    return "real" if "real" in distinct else "int"


def result_kind(primitive: Primitive, kinds: Sequence[str]) -> str:
    """The kind of `primitive` applied to values of `kinds`.

    "same" is the join of the arguments (of the branches, for select); "number" is real if one is, else int, so that
    true + true is 2.
    """
    if primitive.kind == "same":
        return join(kinds[1:] if primitive.name == "select" else kinds)
    if primitive.kind == "number":
        return "real" if "real" in kinds else "int"
    return primitive.kind
