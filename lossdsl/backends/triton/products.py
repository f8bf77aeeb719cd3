"""Programs that multiply matrices and go over them, as stages that hold a tile of each matrix at a time.

Such a program computes products of factors into scratch buffers, runs a sweep over them, and multiplies the cotangents
that this has stored by the factors again. Its stages are those of the sweep, with the matrices as arguments: a kernel
multiplies a tile where the stage reads one, and adds what its cotangent gives to the factors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lossdsl.backends.api import (
    Buffer,
    Island,
    KernelProgram,
    Let,
    Load,
    Loop,
    NotSupportedError,
    Pick,
    Reduce,
    Scatter,
    Stmt,
    Store,
    Value,
)
from lossdsl.backends.triton.stages import Guard, Item, Plain, Stage, Sweep, operands
from lossdsl.backends.triton.staging import stages_of


@dataclass(frozen=True, slots=True)
class Side:
    """A factor: its buffer, the axes of the matrix that it has, and the buffer of its cotangent ("" for none)."""

    buffer: str
    axes: tuple[str, ...]
    cotangent: str = ""


@dataclass(frozen=True, slots=True)
class Product:
    """matrix = left · right (+ bias along the axes of the right one), summed over the axis `over`; `cotangent` is the
    scratch buffer that the sweep stores."""

    matrix: str
    over: str
    left: Side
    right: Side
    bias: Side | None = None
    cotangent: str = ""


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
    for part in _parts(sweep, {a for p in products for a in p.left.axes}):
        for stage in stages_of(part):
            if any(b.role == "scratch" and any(axes <= set(b.axes) for axes in both) for b in stage.buffers):
                raise NotSupportedError("a launch that passes a matrix on to another")
            found.append(_tiled(stage, products))
    return products, tuple(found)


# --- products apart from the sweep ------------------------------------------------------------------------------------


def separated(program: KernelProgram) -> tuple[tuple[Product, ...], KernelProgram]:
    """The products that a program begins and ends with, and the sweep between them, to which matrices are arguments."""
    scratch = {b.name for b in program.buffers if b.role == "scratch"}
    loads = {s.value.name: s for s in program.body if isinstance(s, Load)}
    made = {v.name: s for s in program.body if isinstance(s, Island | Reduce) for v in s.values}
    added = {s.value.name: s for s in program.body if isinstance(s, Let) and s.op == "add"}
    used: set[int] = set()
    products: list[Product] = []
    for s in program.body:
        if not isinstance(s, Store) or s.buffer not in scratch or not isinstance(s.value, str):
            continue
        total = added.get(s.value)
        product = made.get(str(total.args[0]) if total else s.value)
        if not isinstance(product, Island) or product.op != "contract":
            continue
        left, right = (loads[str(a)] for a in product.args)
        (over,) = product.attrs[0] if isinstance(product.attrs[0], tuple) else ()
        bias = loads[str(total.args[1])] if total else None
        sides = [Side(x.buffer, tuple(a for a in x.index if a != over)) for x in (left, right)]
        third = None if bias is None else Side(bias.buffer, bias.index)
        products.append(Product(s.buffer, over, sides[0], sides[1], third))
        used |= {id(x) for x in (left, right, product, bias, total, s) if x is not None}
    known = {p.matrix for p in products}
    for s in program.body:
        if not isinstance(s, Store) or s.buffer in scratch:
            continue
        source = made.get(s.value) if isinstance(s.value, str) else None
        origin = loads.get(str(source.args[0])) if source is not None else None
        if origin is None or origin.buffer not in scratch or source is None:
            continue
        at = next((i for i, p in enumerate(products) if origin.buffer == f"grad_{p.matrix}"), None)
        if at is None:
            continue
        products[at] = _with_cotangent(products[at], origin.buffer, s, source)
        used |= {id(origin), id(source), id(s)}
    roles = {p.matrix: "in" for p in products} | {p.cotangent: "out" for p in products if p.cotangent}
    buffers = tuple(replace(b, role=roles.get(b.name, b.role)) for b in program.buffers)  # type: ignore[arg-type]
    apart = {x.buffer for p in products for x in (p.left, p.right, p.bias) if x}
    apart |= {x.cotangent for p in products for x in (p.left, p.right, p.bias) if x}
    own = tuple(b for b in buffers if b.name not in apart)
    axes = tuple(a for a in program.axes if a not in {p.over for p in products})
    if not known:
        raise NotSupportedError("a matrix product")
    return tuple(products), replace(
        program, axes=axes, buffers=own, body=tuple(s for s in program.body if id(s) not in used)
    )


def _with_cotangent(p: Product, cotangent: str, s: Store, source: Island | Reduce) -> Product:
    p = replace(p, cotangent=cotangent)
    if isinstance(source, Reduce):
        assert p.bias is not None
        return replace(p, bias=replace(p.bias, cotangent=s.buffer))
    if set(s.index) == {*p.left.axes, p.over}:
        return replace(p, left=replace(p.left, cotangent=s.buffer))
    return replace(p, right=replace(p.right, cotangent=s.buffer))


def _parts(sweep: KernelProgram, rows_of: set[str]) -> Iterator[KernelProgram]:
    """The sweep by what its results run along: those of columns are rows of a program of their own."""
    outs = [b for b in sweep.buffers if b.role == "out"]
    columns = [b.name for b in outs if b.axes and not set(b.axes) & rows_of]
    rows = [b.name for b in outs if b.name not in columns]
    for word, names in (("", rows), ("_columns", columns)):
        if names:
            body = _needed(sweep.body, set(names))
            buffers = tuple(b for b in sweep.buffers if b.role != "out" or b.name in names)
            yield replace(sweep, name=sweep.name + word, buffers=buffers, body=body)


def _needed(body: Sequence[Stmt], outs: set[str]) -> tuple[Stmt, ...]:
    """What stores to these buffers need, and to those that it reads again."""
    names: set[str] = set()
    outs = set(outs)
    while True:
        before = len(names), len(outs)
        kept = _pruned(body, outs, names)
        if (len(names), len(outs)) == before:
            return kept


def _pruned(body: Sequence[Stmt], outs: set[str], names: set[str]) -> tuple[Stmt, ...]:
    kept: list[Stmt] = []
    for s in reversed(body):
        if isinstance(s, Loop):
            inner = _pruned(s.body, outs, names)
            if inner:
                if s.guard is not None:
                    names.add(s.guard)
                kept.append(replace(s, body=inner, head=_pruned(s.head, outs, names)))
            continue
        if isinstance(s, Store):
            needed = s.buffer in outs
        elif isinstance(s, Reduce | Island):
            needed = any(v.name in names for v in s.values)
        else:
            needed = s.value.name in names
        if needed:
            names.update(x for x in operands(s) if isinstance(x, str))
            if isinstance(s, Load):
                outs.add(s.buffer)
            if isinstance(s, Scatter):
                names.update(x for x in (s.arg, s.index) if isinstance(x, str))
            kept.append(s)
    return tuple(reversed(kept))


# --- stages -----------------------------------------------------------------------------------------------------------


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
    stage = _with_picks(_guarded(stage, here), here, other[0].axes[0])
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


def _with_picks(stage: Stage, products: Sequence[Product], column: str) -> Stage:
    """With entries of a matrix at a row's index taken out of the tiles, while these go by: so they are what the rest of
    the row is, to the last digit. A row's statements that wait for one stand behind the sweep that brings it."""
    (row,) = stage.rows
    matrices = {p.matrix for p in products}
    items: list[Item] = []
    picks: list[Load] = []
    waiting: list[Item] = []
    late: set[str] = set()

    def bring(sweep: Sweep) -> None:
        extra = [t for load in picks for t in _picking(load, row, column)]
        body = [*sweep.body, *(t for inside, t in extra if inside)]
        items.append(Sweep(sweep.axis, tuple(body)))
        items.extend(t for inside, t in extra if not inside)
        items.extend(waiting)
        picks.clear()
        waiting.clear()
        late.clear()

    for item in _early(stage, matrices):
        if isinstance(item, Sweep):
            needs = {x for s in item.body for x in operands(s)}
            if needs & late:
                bring(Sweep(column, ()))
            bring(item)
            continue
        if isinstance(item, Guard):
            if item.name in late:
                bring(Sweep(column, ()))
            items.append(item)
        elif isinstance(item, Load) and item.buffer in matrices:
            if any(i in late for i in item.index):
                bring(Sweep(column, ()))
            picks.append(item)
            late.add(item.value.name)
        elif set(operands(item)) & late:
            waiting.append(item)
            if isinstance(item, Let | Load):
                late.add(item.value.name)
        else:
            items.append(item)
    if picks:
        bring(Sweep(column, ()))
    return replace(stage, items=tuple(items))


def _early(stage: Stage, matrices: set[str]) -> list[Item]:
    """A stage's items with entries of matrices, and what their places need, before the sweeps they don't wait for."""
    plain = {s.value.name: s for s in stage.items if isinstance(s, Let | Load)}
    scalars = {s.value.name for s in stage.scalars}

    def ready(name: str) -> bool:
        """Whether a value needs no sweep."""
        s = plain.get(name)
        if name in scalars or name in stage.rows:
            return True
        return s is not None and all(ready(x) for x in operands(s) if isinstance(x, str))

    early: dict[str, Let | Load] = {}

    def take(name: str) -> None:
        s = plain.get(name)
        if s is not None and name not in early:
            for x in operands(s):
                if isinstance(x, str):
                    take(x)
            early[name] = s

    for s in stage.items:
        if isinstance(s, Load) and s.buffer in matrices and all(ready(i) for i in s.index):
            take(s.value.name)
    moved = {id(s) for s in early.values()}
    return [*early.values(), *(s for s in stage.items if id(s) not in moved)]


def _picking(load: Load, row: str, column: str) -> Iterator[tuple[bool, Let | Load | Reduce]]:
    """Statements that give an entry of a matrix's row: within the sweep (True), and after it. NaN for an index that is
    none."""
    places = [i for i in load.index if i != row]
    if len(places) != 1 or places[0] == column:
        raise NotSupportedError(f"{load.value.name}, an entry of another row of a matrix")
    name, (at,) = load.value.name, places
    both, whole = (row, column), tuple(column if i == at else i for i in load.index)
    yield True, Let(Value(f"{name}@place", (column,), "int"), "index", (), (column,))
    yield True, Let(Value(f"{name}@here", both, "bool"), "eq", (f"{name}@place", at))
    yield True, Load(Value(f"{name}@entry", both), load.buffer, whole)
    yield True, Reduce((Value(f"{name}@picked", (row,)),), "sum", (column,), (f"{name}@entry",), f"{name}@here")
    yield False, Let(Value(f"{name}@size", (), "int"), "size", (), (column,))
    yield False, Let(Value(f"{name}@least", (row,), "bool"), "le", (0, at))
    yield False, Let(Value(f"{name}@most", (row,), "bool"), "lt", (at, f"{name}@size"))
    yield False, Let(Value(f"{name}@inside", (row,), "bool"), "and", (f"{name}@least", f"{name}@most"))
    yield False, Let(Value(name, (row,)), "select", (f"{name}@inside", f"{name}@picked", float("nan")))


def _flipped(stage: Stage, products: Sequence[Product]) -> tuple[Stage | None, tuple[Buffer, ...]]:
    """The sweep that stores cotangents, less its results along rows; and what it needs of them, which is kept."""
    storing = [s for s in stage.sweeps if _stores(s, products)]
    if not storing:
        return None, ()
    if len(storing) > 1:
        raise NotSupportedError("two sweeps that store the cotangent of a matrix")
    cotangents = {p.cotangent for p in products}
    (sweep,) = storing
    body = [s for s in _needed(sweep.body, cotangents) if isinstance(s, Let | Load | Store | Reduce)]
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
