"""Programs that multiply matrices and go over them, as stages that hold a tile of each matrix at a time.

Such a program computes products of factors into scratch buffers, runs a sweep over them, and multiplies the cotangents
that this has stored by the factors again. Its stages are those of the sweep, with the matrices as arguments: a kernel
multiplies a tile where the stage reads one, and adds what its cotangent gives to the factors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lossdsl.backends.api import Buffer, Island, KernelProgram, Let, Load, NotSupportedError, Pick, Reduce, Store, Value
from lossdsl.backends.triton.picking import with_picks
from lossdsl.backends.triton.separating import Product, Side, by_results, needed_for, separated
from lossdsl.backends.triton.stages import Guard, Item, Plain, Stage, Sweep, operands
from lossdsl.backends.triton.staging import stages_of


@dataclass(frozen=True, slots=True)
class Tiled:
    """A stage whose rows meet tiles of matrices: `own` are the factors along its rows, `other` those along its sweeps,
    by matrix. `flipped` gives the cotangents of the others: the same sweep with rows and columns exchanged; it loads
    what `saved` names of the rows."""

    stage: Stage
    products: tuple[Product, ...]
    own: tuple[Side, ...]
    other: tuple[Side, ...]
    flipped: Stage | None
    saved: tuple[Buffer, ...]

    @property
    def times(self) -> int:
        """How often the kernel of the rows multiplies a matrix."""
        matrices = {p.matrix for p in self.products}
        return sum(any(isinstance(s, Load) and s.buffer in matrices for s in w.body) for w in self.stage.sweeps)


def multiplies(program: KernelProgram) -> bool:
    """Whether a program is one of these."""
    scratch = {b.name for b in program.buffers if b.role == "scratch"}
    stores = {s.value for s in program.body if isinstance(s, Store) and s.buffer in scratch and s.index}
    return any(isinstance(s, Island) and s.op == "contract" for s in program.body) and bool(stores)


def tiled(program: KernelProgram) -> tuple[tuple[Product, ...], tuple[Tiled | Stage, ...]]:
    """The products of a program and its stages; NotSupportedError where a stage would need a matrix as a whole."""
    products, sweep = separated(program)
    if any(len(side.axes) != 1 for p in products for side in (p.left, p.right)):
        raise NotSupportedError("a matrix with more than two axes")
    both = [{*p.left.axes, *p.right.axes} for p in products]
    found: list[Tiled | Stage] = []
    for part in by_results(sweep, {a for p in products for a in p.left.axes}):
        for stage in stages_of(part):
            if any(b.role == "scratch" and any(axes <= set(b.axes) for axes in both) for b in stage.buffers):
                raise NotSupportedError("a launch that passes a matrix on to another")
            found.append(_tiled(stage, products))
    return products, tuple(found)


def _tiled(stage: Stage, products: Sequence[Product]) -> Tiled | Stage:
    """A stage of the sweep with the factors that its rows and its sweeps go along; as it is where it sees no matrix."""
    read = {s.buffer for s in stage.statements if isinstance(s, Load | Store)}
    here = tuple(p for p in products if p.matrix in read or p.cotangent in read)
    if not here:
        return stage
    if len(stage.rows) != 1 or len(stage.axes) > 1:
        raise NotSupportedError("a launch along several axes of a matrix")
    for s in stage.statements:
        if isinstance(s, Island | Pick):
            raise NotSupportedError(f"the island {getattr(s, 'op', 'pick')!r} in a row of a matrix")
    (row,) = stage.rows
    turned = [p.left.axes != (row,) for p in here]
    own = tuple(p.right if t else p.left for p, t in zip(here, turned, strict=True))
    other = tuple(p.left if t else p.right for p, t in zip(here, turned, strict=True))
    if any(side.axes != (row,) for side in own) or (stage.axes and any(o.axes != stage.axes for o in other)):
        raise NotSupportedError("a launch across a matrix")
    if any(p.bias and p.bias.axes == stage.rows and p.cotangent in read for p in here):
        raise NotSupportedError("a launch along the columns that gives the cotangent of a bias")
    stage = with_picks(_guarded(stage, here), here, other[0].axes[0])
    flipped, saved = _flipped(stage, here)
    if saved:
        at = next(i for i, s in enumerate(stage.items) if isinstance(s, Sweep) and _stores(s, here))
        keep = [Store(b.name, b.axes, b.name.removesuffix("@saved")) for b in saved]
        items = (*stage.items[:at], *keep, *stage.items[at:])
        stage = replace(stage, items=items, buffers=(*stage.buffers, *saved))
    return Tiled(stage, here, own, other, flipped, saved)


def _stores(sweep: Sweep, products: Sequence[Product]) -> bool:
    cotangents = {p.cotangent for p in products}
    return any(isinstance(s, Store) and s.buffer in cotangents for s in sweep.body)


def _guarded(stage: Stage, products: Sequence[Product]) -> Stage:
    """With the guard of a row said by the stores of cotangents, which a kernel by columns has no guard for."""
    cotangents = {p.cotangent for p in products}
    guards: list[str] = []
    items: list[Item] = []
    for item in stage.items:
        if isinstance(item, Guard):
            guards.append(item.name)
        if not isinstance(item, Sweep) or not guards:
            items.append(item)
            continue
        body: list[Plain] = []
        for s in item.body:
            if isinstance(s, Store) and s.buffer in cotangents:
                for guard in guards:
                    if s.where is None:
                        s = replace(s, where=guard)
                        continue
                    name = f"{s.buffer}@{guard}"
                    body.append(Let(Value(name, (*stage.rows, item.axis), "bool"), "and", (s.where, guard)))
                    s = replace(s, where=name)
            body.append(s)
        items.append(Sweep(item.axis, tuple(body)))
    return replace(stage, items=tuple(items))


def _flipped(stage: Stage, products: Sequence[Product]) -> tuple[Stage | None, tuple[Buffer, ...]]:
    """The sweep that stores cotangents, less its results along rows; and what it needs of them, which is kept."""
    storing = [s for s in stage.sweeps if _stores(s, products)]
    if not storing:
        return None, ()
    if len(storing) > 1:
        raise NotSupportedError("two sweeps that store the cotangent of a matrix")
    cotangents = {p.cotangent for p in products}
    (sweep,) = storing
    body = [s for s in needed_for(sweep.body, cotangents) if isinstance(s, Let | Load | Store | Reduce)]
    if any(isinstance(s, Reduce) for s in body):
        raise NotSupportedError("a reduction beneath the cotangent of a matrix")
    made = {s.value.name for s in body if isinstance(s, Let | Load)}
    needed = dict.fromkeys(x for s in body for x in operands(s) if isinstance(x, str) and x not in made)
    scalars = {s.value.name for s in stage.scalars}
    rows: list[Item] = []
    saved: list[Buffer] = []
    written = {b.name for b in stage.buffers if b.role == "out"}
    for name in needed:
        if name in scalars or name in (*stage.rows, *stage.axes):
            continue
        plain, value = _of_row(stage, name)
        if isinstance(plain, Load) and plain.index == stage.rows and plain.buffer not in written:
            rows.append(plain)
            continue
        saved.append(Buffer(f"{name}@saved", stage.rows, value.dtype, "scratch"))
        rows.append(Load(value, saved[-1].name, stage.rows))
    items = (*rows, Sweep(sweep.axis, tuple(body)))
    read = {s.buffer for s in (*rows, *body, *stage.scalars) if isinstance(s, Load)}
    buffers = tuple(b for b in (*stage.buffers, *saved) if b.name in read | cotangents)
    return Stage(f"{stage.name}_other", stage.rows, items, buffers, stage.scalars), tuple(saved)


def _of_row(stage: Stage, name: str) -> tuple[Item, Value]:
    """The statement of a row that gives a value."""
    for item in stage.items:
        for s in item.body if isinstance(item, Sweep) else (item,):
            if isinstance(s, Reduce):
                for v in s.values:
                    if v.name == name:
                        return s, v
            elif isinstance(s, Let | Load) and s.value.name == name:
                return s, s.value
    raise NotSupportedError(f"{name}, which a row of a matrix needs of somewhere else")
