"""Which results of a KernelProgram may be written into the memory of an argument, each entry over the one that it is
the gradient of: those for which every read of an entry comes before the write to it, in any order of the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lossdsl.plan.kernel import Buffer, KernelProgram, Load, Loop, Stmt, Store


@dataclass(frozen=True, slots=True)
class _Access:
    """A load or store, and the loops around it: their places in the text, their axes, whether they hold loops."""

    statement: Load | Store
    loops: tuple[int, ...] = ()
    axes: tuple[str, ...] = ()
    deep: tuple[bool, ...] = ()


def overwritable(program: KernelProgram) -> dict[str, str]:
    """The arguments that may be overwritten, by the results that may be written there: real, of the same axes, and of
    several such arguments the one whose gradient the result is.

    A printer must keep the order of a row's statements. It may run outer loops in any order, several turns at once, and
    compute anew for each turn of an inner loop what stands before it.
    """
    accesses = list(_accesses(program.body))
    found: dict[str, str] = {}
    for out in (b for b in program.buffers if b.role == "out" and b.dtype == "real" and b.axes):
        alike = [b for b in program.buffers if b.role == "in" and b.dtype == "real" and b.axes == out.axes]
        own = [b for b in alike if out.name in (f"grad_{b.name}", f"grad.{b.name}")]
        for b in own or (alike if len(alike) == 1 else []):
            if b.name not in found.values() and _read_first(accesses, b, out):
                found[out.name] = b.name
    return found


def _accesses(body: Sequence[Stmt], around: _Access | None = None) -> Iterator[_Access]:
    """Every load and store in the order of the text."""
    loops, axes, deep = (around.loops, around.axes, around.deep) if around else ((), (), ())
    for i, s in enumerate(body):
        if isinstance(s, Loop):
            inside = (*s.head, *s.body)
            holds = any(isinstance(x, Loop) for x in inside)
            yield from _accesses(inside, _Access(Store("", (), 0), (*loops, i), (*axes, s.axis), (*deep, holds)))
        elif isinstance(s, Load | Store):
            yield _Access(s, loops, axes, deep)


def _read_first(accesses: Sequence[_Access], b: Buffer, out: Buffer) -> bool:
    stores = [k for k, a in enumerate(accesses) if isinstance(a.statement, Store) and a.statement.buffer == out.name]
    if len(stores) != 1:
        return False
    store = accesses[stores[0]]
    if store.statement.index != out.axes or set(store.axes) != set(out.axes):
        return False
    outer = {a for a, deep in zip(store.axes, store.deep, strict=True) if deep}
    for k, read in enumerate(accesses):
        s = read.statement
        if not isinstance(s, Load) or s.buffer != b.name:
            continue
        if k > stores[0] or not read.loops:
            return False
        same = [x == y for x, y in zip(read.loops, store.loops, strict=False)]
        shared = same.index(False) if False in same else len(same)
        if shared and any(dict(zip(b.axes, s.index, strict=True))[a] != a for a in {*outer, *store.axes[:shared]}):
            return False
    return True
