"""What kernels of a stage are given: tensors with their strides, and sizes."""

from __future__ import annotations

from collections.abc import Sequence

from lossdsl.backends.api import Buffer, Let, Load, Store
from lossdsl.backends.triton.spell import identifier
from lossdsl.backends.triton.stages import Item, Stage, Sweep


def size(axis: str) -> str:
    return f"n_{identifier(axis)}"


def cols(axis: str) -> str:
    return f"cols_{identifier(axis)}"


def tile_axis(stage: Stage, b: Buffer) -> str | None:
    """The axis of a buffer whose entries a sweep reads or writes side by side; without sweeps, that of the rows."""
    if pointwise(stage):
        rows = [s for s in stage.statements if isinstance(s, Load | Store) and s.buffer == b.name]
        return b.axes[0] if len(b.axes) == 1 and any(s.index == stage.rows for s in rows) else None
    for sweep in stage.sweeps:
        for s in sweep.body:
            if isinstance(s, Load | Store) and s.buffer == b.name:
                along = [sweep.axis, *(a for a in stage.axes if isinstance(s, Load))]
                for axis in along:  # what a pick's places are read along may be a copy of the sweep's
                    if axis in s.index:
                        return b.axes[s.index.index(axis)]
    return None


def pointwise(stage: Stage) -> bool:
    """Whether a row is one entry, so that rows are what lies side by side."""
    return not stage.sweeps and len(stage.rows) == 1


def along(stage: Stage) -> tuple[str, ...]:
    """The axes that tiles run along."""
    return stage.rows if pointwise(stage) else stage.axes


def arguments(stage: Stage) -> list[str]:
    """The arguments that both kernels of a stage have: for each tensor its address and strides, then sizes."""
    found = []
    for b in stage.buffers:
        name = identifier(b.name)
        found.append(name)
        found += [f"{name}_{identifier(a)}" for a in b.axes]
        if tile_axis(stage, b) is not None:
            found.append(f"U_{name}: tl.constexpr")
    return found + [size(a) for a in sizes(stage)]


def sizes(stage: Stage) -> tuple[str, ...]:
    """The axes whose extents a stage's kernels are given."""
    found = dict.fromkeys((*stage.rows, *stage.axes))
    for b in stage.buffers:
        found.update(dict.fromkeys(b.axes))
    for s in stage.statements:
        if isinstance(s, Let) and s.op == "size":
            found[str(s.attrs[0])] = None
    return tuple(found)


def divisors(items: Sequence[Item]) -> frozenset[str]:
    """Values of a row that sweeps divide by and that are 1 plus what is never negative: the sum of a softmax."""
    made = {s.value.name: s for s in items if isinstance(s, Let)}
    used = {t.args[1] for s in items if isinstance(s, Sweep) for t in s.body if isinstance(t, Let) and t.op == "div"}
    found = set()
    for name in used:
        s = made.get(name) if isinstance(name, str) else None
        if s is not None and s.op == "add" and s.args[0] == 1:
            other = made.get(s.args[1]) if isinstance(s.args[1], str) else None
            if other is not None and other.op == "maximum" and other.args[1] == 0:
                found.add(s.value.name)
    return frozenset(found)
