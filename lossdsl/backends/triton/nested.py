"""Reductions over several axes at once as a reduction within a row and one over the rows' results.

A launch goes along one axis within a row. Sums over rows are added up between launches; the largest entry, a product
or a log-sum-exp of a matrix is that of the rows' own: of states of a log-sum-exp as its record merges them,

    M = max mᵢ,    R = Σ (rᵢ if mᵢ = M else (1 + rᵢ) e^(mᵢ - M)) + #{i: mᵢ = M} - 1,

with mᵢ = -inf and rᵢ = -1 for a row of nothing, so that a matrix of nothing is (-inf, -1) again, as a row leaves it:
with 0 for the largest entry.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from lossdsl.backends.api import Value
from lossdsl.backends.flat import Argument, Flat, Op, Ref

NESTED = frozenset({"max", "min", "prod", "logsumexp"})
NOTHING = -math.inf


def nested(flat: Flat) -> Flat:
    """The same operations, with each of these reductions over one axis at a time; refs count anew."""
    made = _Nesting(flat)
    for i, op in enumerate(flat.ops):
        made.take(i, op)
    stores = tuple(replace(s, value=made.moved(s.value), where=made.where(s.where)) for s in flat.stores)
    return replace(flat, ops=tuple(made.ops), stores=stores)


@dataclass(slots=True)
class _Nesting:
    flat: Flat
    ops: list[Op] = field(default_factory=list)
    refs: dict[Ref, Ref] = field(default_factory=dict)  # by what a result was: what it is
    starts: list[int] = field(default_factory=list)  # by the number of an operation: the number of its first

    def moved(self, x: Argument) -> Argument:
        return self.refs[x] if isinstance(x, Ref) else x

    def where(self, x: Argument | None) -> Argument | None:
        return None if x is None else self.moved(x)

    def take(self, i: int, op: Op) -> None:
        self.starts.append(len(self.ops))
        moved = replace(op, args=tuple(map(self.moved, op.args)))
        if op.what == "root":  # its function is a range of operations
            moved = replace(moved, attrs=tuple(self.starts[int(n)] for n in op.attrs))  # type: ignore[arg-type]
        axes = op.attrs[0] if op.what == "reduce" else ()
        if op.name in NESTED and isinstance(axes, tuple) and len(axes) > 1 and len(op.values) < 3:
            found = self.split(moved, tuple(map(str, axes)))
        else:
            found = self.add(moved)
        self.refs |= {Ref(i, j): r for j, r in enumerate(found)}

    def add(self, op: Op) -> tuple[Ref, ...]:
        self.ops.append(op)
        return tuple(Ref(len(self.ops) - 1, j) for j in range(len(op.values)))

    def split(self, op: Op, axes: tuple[str, ...]) -> tuple[Ref, ...]:
        """Along the last axis first, which lies side by side in memory."""
        order = sorted(axes, key=self.flat.program.axes.index)
        values = tuple(replace(v, axes=self.axes((*v.axes, *order[:-1]))) for v in op.values)
        state = self.add(replace(op, attrs=((order[-1],),), values=values))
        for axis in reversed(order[:-1]):
            held = tuple(a for a in values[0].axes if a != axis)
            values = tuple(replace(v, axes=held) for v in op.values)
            if op.name == "logsumexp" and len(values) == 2:
                state = self.merged(op, state, axis, values)
            else:
                state = self.add(replace(op, args=state, attrs=((axis,),), values=values, masked=False))
        return state

    def merged(self, op: Op, state: Sequence[Ref], axis: str, values: Sequence[Value]) -> tuple[Ref, ...]:
        """A log-sum-exp's states along an axis as one."""
        over = ((axis,),)
        m, r = state
        row = self.ops[m.op].values[0]
        held = values[0]
        count = Value(f"{held.name}@ties", held.axes, "int")
        empty = self.let("lt", (r, Fraction(0)), replace(row, name=f"{row.name}@empty", dtype="bool"))
        own = self.let("select", (empty, NOTHING, m), replace(row, name=f"{row.name}@own"))
        top, ties = self.add(Op("reduce", "ties", (own,), over, (replace(held, name=f"{held.name}@top"), count), None))
        same = self.let("eq", (own, top), replace(row, name=f"{row.name}@same", dtype="bool"))
        gap = self.let("sub", (own, top), replace(row, name=f"{row.name}@gap"))
        scale = self.let("exp", (gap,), replace(row, name=f"{row.name}@scale"))
        whole = self.let("add", (r, Fraction(1)), replace(row, name=f"{row.name}@all"))
        scaled = self.let("mul", (whole, scale), replace(row, name=f"{row.name}@scaled"))
        share = self.let("select", (same, r, scaled), replace(row, name=f"{row.name}@share"))
        total = self.add(Op("reduce", "sum", (share,), over, (replace(held, name=f"{held.name}@shares"),), op.origin))
        others = self.let("sub", (ties, Fraction(1)), replace(count, name=f"{held.name}@others"))
        rest = self.let("add", (total[0], others), replace(values[1], name=f"{values[1].name}@rest"))
        none = self.let("eq", (top, NOTHING), replace(held, name=f"{held.name}@none", dtype="bool"))
        largest = self.let("select", (none, Fraction(0), top), replace(held, name=f"{held.name}@largest"))
        return largest, rest

    def let(self, name: str, args: Sequence[Argument], value: Value) -> Ref:
        return self.add(Op("let", name, tuple(args), (), (value,), None))[0]

    def axes(self, axes: Sequence[str]) -> tuple[str, ...]:
        return tuple(a for a in self.flat.program.axes if a in axes)
