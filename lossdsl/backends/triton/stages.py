"""A KernelProgram as stages: what one launch computes for every row, and what passes from launch to launch.

A stage is a loop over rows with its statements and sweeps; or the statements over one axis that stand outside of loops
(class-wise ones: each index is a row then); or what is one number. Numbers are computed again by each stage that wants
them. Values along an axis pass through scratch memory, and so do reductions over the rows, which are finished between
two launches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lossdsl.backends.api import Buffer, Island, Let, Load, Operand, Pick, Reduce, Stmt, Store, Value

KNOWN = frozenset({"sum", "count", "max", "min", "prod", "logsumexp", "argmax", "ties"})
TOTALS = frozenset({"sum", "count"})  # over all rows at once


@dataclass(frozen=True, slots=True)
class Guard:
    """From here on, a row is only there where the value holds."""

    name: str


Plain = Let | Load | Reduce | Store | Island | Pick


@dataclass(frozen=True, slots=True)
class Sweep:
    """One pass over an axis for each row."""

    axis: str
    body: tuple[Plain, ...]

    @property
    def reductions(self) -> tuple[Reduce, ...]:
        """Those along the axis, a row's part of a total among them."""
        return tuple(s for s in self.body if isinstance(s, Reduce))


Item = Plain | Guard | Sweep


@dataclass(frozen=True, slots=True)
class Total:
    """A sum over all rows: `part` holds a row's share (or, along `axes`, a share an entry); `value` is the result."""

    value: Value
    part: Buffer
    axes: tuple[str, ...]  # that are summed, of those of the part


@dataclass(frozen=True, slots=True)
class Stage:
    """One launch.

    name      of the kernel
    rows      the axes of its rows, from the outermost; none for a stage that is one number
    items     statements of a row, in order, sweeps among them
    buffers   tensors that it reads or writes, in the order of the kernel's arguments
    scalars   statements that are one number, before all rows
    totals    what is summed when it has ended
    """

    name: str
    rows: tuple[str, ...]
    items: tuple[Item, ...]
    buffers: tuple[Buffer, ...]
    scalars: tuple[Let | Load, ...] = ()
    totals: tuple[Total, ...] = ()

    @property
    def sweeps(self) -> tuple[Sweep, ...]:
        return tuple(s for s in self.items if isinstance(s, Sweep))

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes that it sweeps over, in the order of first use."""
        found = dict.fromkeys(s.axis for s in self.sweeps)
        for s in self.statements:
            if isinstance(s, Island) and s.op == "order":  # ranks lie along an axis of their own
                found[str(s.attrs[1])] = None
            elif isinstance(s, Pick):
                found.update((a, None) for a in s.value.axes if a not in self.rows)
        return tuple(found)

    @property
    def statements(self) -> list[Plain]:
        """All of them, those of sweeps and of roots included."""
        return [*self.scalars, *flattened(self.items)]

    @property
    def whole(self) -> bool:
        """Whether its rows have to be on chip as a whole. A root needs sums over its row alone."""
        return any(isinstance(s, Pick) or (isinstance(s, Island) and s.op != "root") for s in self.statements)


@dataclass(frozen=True, slots=True)
class Between:
    """An order or a sum so far of rows too long for a program: computed of whole tensors, between two launches.

    what       "order" or "cumsum"
    result     where it is kept for later launches
    given      what the launches before have put down: keys and, if any may be absent, which are present; the addends
    axis       of `given` that it runs along
    backwards  from the largest key, or from the end
    ranks      the axis of an order's places, in the result instead of `axis`; else `axis`
    """

    what: str
    result: Buffer
    given: tuple[Buffer, ...]
    axis: str
    backwards: bool
    ranks: str


def flattened(items: Iterable[Item]) -> list[Plain]:
    """The statements of items, those within sweeps and roots included."""
    found: list[Plain] = []
    for item in items:
        if isinstance(item, Sweep):
            found += flattened(item.body)
        elif isinstance(item, Island):
            found += [*(s for s in item.body if isinstance(s, Let | Load | Reduce)), item]
        elif not isinstance(item, Guard):
            found.append(item)
    return found


def operands(s: Stmt) -> tuple[Operand, ...]:
    """The names and constants that a statement reads; axes that a load, pick or store indexes by among them."""
    match s:
        case Let():
            return s.args
        case Load():
            return s.index
        case Reduce():
            return (*s.args, *(() if s.where is None else (s.where,)))
        case Store():
            return (s.value, *s.index, *(() if s.where is None else (s.where,)))
        case Pick():
            return (s.source, *s.index)
        case Island():
            return (*s.args, *(x for t in s.body for x in operands(t)))
    return ()


def used_buffers(known: Iterable[Buffer], items: Sequence[Item], scalars: Sequence[Let | Load]) -> tuple[Buffer, ...]:
    """Those of the known buffers that statements load or store."""
    used = {s.buffer for s in (*flattened(items), *scalars) if isinstance(s, Load | Store)}
    return tuple(b for b in known if b.name in used)
