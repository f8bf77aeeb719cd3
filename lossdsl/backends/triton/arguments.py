"""What kernels of a stage are given: tensors with their strides, and sizes."""

from __future__ import annotations

from collections.abc import Sequence

from lossdsl.backends.api import STEPS, Buffer, Let, Load, Operand, Store
from lossdsl.backends.triton.layout import wrapped
from lossdsl.backends.triton.spell import NUMBERS, identifier
from lossdsl.backends.triton.stages import Item, Stage, Sweep

SIGNED = frozenset({"mul", "mulz", "div", "neg", "abs", "select", "sign", "relu"})  # by whose arguments its is


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


def decorator(stage: Stage, arguments: Sequence[str]) -> str:
    """What makes a function of these arguments a kernel. Whole numbers of the call and extents stay arguments: of its
    own accord Triton takes a 1 for a constant, which has no type, and compiles others by what divides them."""
    numbers = {identifier(b.name) for b in stage.buffers if not b.axes and b.dtype != "real"}
    kept = [f'"{a}"' for a in arguments if a in numbers or a.startswith("n_")]
    return (
        "\n".join(wrapped("@triton.jit(do_not_specialize=", [f"[{', '.join(kept)}]"], ")")) if kept else "@triton.jit"
    )


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


def exact_quotients(stage: Stage) -> frozenset[str]:
    """Quotients that a step is made of, be it by way of sums and products: the nearest number decides there, and a
    device's own division of entries is off by a unit or two in the last place. Whether one is 0, or a product with it
    is, it says rightly; not so of a sum."""
    made = {s.value.name: s for s in stage.statements if isinstance(s, Let)}
    todo = [(x, 0 in s.args) for s in made.values() if s.op in STEPS for x in s.args]
    seen: set[tuple[Operand, bool]] = set()
    while todo:
        one = todo.pop()
        name, by_sign = one
        s = made.get(name) if isinstance(name, str) else None
        if one in seen or s is None:
            continue
        seen.add(one)
        if s.op == "div" or s.op in NUMBERS or s.op == "select":
            todo += [(x, by_sign and s.op in SIGNED) for x in s.args]
    return frozenset(str(name) for name, by_sign in seen if not by_sign and made[str(name)].op == "div")


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
