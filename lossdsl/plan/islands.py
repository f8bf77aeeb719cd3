"""The library calls of a KernelProgram: along which axes each works, and which axes its value has."""

from __future__ import annotations

from collections.abc import Sequence

from lossdsl.plan.kernel import Island

LINEAR = frozenset({"logdet", "inverse", "solve", "eigvals", "eigvecs"})
ISLANDS = LINEAR | {"contract", "cumsum", "order", "root"}


def consumed(s: Island) -> tuple[str, ...]:
    """The axes along which an island works: it needs the whole of them at once."""
    match s.op:
        case "contract":
            return s.attrs[0] if isinstance(s.attrs[0], tuple) else ()
        case "cumsum" | "order":
            return (str(s.attrs[0]),)
        case "root":
            return ()
    return tuple(str(a) for a in s.attrs[:2])


def island_axes(s: Island, args: Sequence[set[str]]) -> set[str]:
    """The axes of an island's value from those of its arguments."""
    union = set().union(*args)
    match s.op:
        case "contract" | "logdet":
            return union - set(consumed(s))
        case "order":
            return union - {str(s.attrs[0])} | {str(s.attrs[1])}
        case "eigvals":
            return union - {str(s.attrs[0]), str(s.attrs[1])} | {str(s.attrs[2])}
        case "eigvecs":
            return union - {str(s.attrs[1])} | {str(s.attrs[2])}
        case "solve":
            return union - {str(s.attrs[0])}
    return union
