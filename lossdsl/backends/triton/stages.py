"""A KernelProgram as stages: what one launch computes for every row, and what passes from launch to launch.

A stage is a loop over rows with its statements and sweeps; or the statements over one axis that stand outside of loops
(class-wise ones: each index is a row then); or what is one number. Numbers are computed again by each stage that wants
them. Values along an axis pass through scratch memory, and so do reductions over the rows, which are finished between
two launches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from lossdsl.backends.api import (
    Buffer,
    KernelProgram,
    Let,
    Load,
    Loop,
    NotSupportedError,
    Operand,
    Reduce,
    Stmt,
    Store,
    Value,
)

KNOWN = frozenset({"sum", "count", "max", "min", "prod", "logsumexp", "argmax", "ties"})
TOTALS = frozenset({"sum", "count"})  # over all rows at once


@dataclass(frozen=True, slots=True)
class Guard:
    """From here on, a row is only there where the value holds."""

    name: str


@dataclass(frozen=True, slots=True)
class Sweep:
    """One pass over an axis for each row."""

    axis: str
    body: tuple[Let | Load | Reduce | Store, ...]

    @property
    def reductions(self) -> tuple[Reduce, ...]:
        """Those along the axis, a row's part of a total among them."""
        return tuple(s for s in self.body if isinstance(s, Reduce))


Item = Let | Load | Store | Reduce | Guard | Sweep


@dataclass(frozen=True, slots=True)
class Total:
    """A sum over all rows: `part` holds a row's share (or, along `axes`, a share an entry); `value` is the result."""

    value: Value
    part: Buffer
    axes: tuple[str, ...]  # that are summed


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
        """The axes that it sweeps over."""
        return tuple(dict.fromkeys(s.axis for s in self.sweeps))


@dataclass(slots=True)
class _Open:
    """A stage as it is filled."""

    rows: tuple[str, ...]
    items: list[Item] = field(default_factory=list)
    totals: list[tuple[Reduce, str | None]] = field(default_factory=list)  # and the sweep's axis, if it lies in one
    is_loop: bool = False


def stages_of(program: KernelProgram) -> tuple[Stage, ...]:
    """The launches of a program, in order; NotSupportedError for what is no row-wise computation."""
    opened: list[_Open] = []
    numbers: dict[str, Let | Load] = {}  # statements that are one number
    stores: list[Store] = []  # of one number
    totals: set[str] = set()  # names that the open stage gives when it has ended
    for s in program.body:
        axes = _axes_of(s)
        if isinstance(s, Loop):
            opened.append(_loop(s))
            totals = {r.values[0].name for r, _ in opened[-1].totals}
        elif isinstance(s, Store) and not s.index:
            stores.append(s)
        elif isinstance(s, Let | Load) and not axes:
            numbers[s.value.name] = s
        elif isinstance(s, Let | Load | Reduce | Store) and len(axes) == 1:
            waits = totals.intersection(_needs(s, numbers))
            if isinstance(s, Reduce) and s.reduction not in TOTALS and s.reduction not in KNOWN:
                raise NotSupportedError(f"the reduction {s.reduction!r} over {s.axes[0]} outside of rows")
            if not opened or opened[-1].is_loop or opened[-1].rows != axes or waits:
                opened.append(_Open(axes))
                totals = set()
            if isinstance(s, Reduce) and s.reduction not in TOTALS:
                opened.append(_Open((), [Sweep(s.axes[0], (s,)), *_results(s)]))
                for v in s.values:
                    numbers[v.name] = Load(v, f"{v.name}@one", ())
                totals = set()
                continue
            if isinstance(s, Reduce):
                opened[-1].totals.append((s, None))
                totals.add(s.values[0].name)
            opened[-1].items.append(s)
        else:
            raise NotSupportedError(_said(s))
    if stores:
        opened.append(_Open((), list(stores)))
    return _Linker(program, numbers).link(opened)


def _results(s: Reduce) -> list[Store]:
    """What keeps the results of a reduction that is one number, for later stages."""
    return [Store(f"{v.name}@one", (), v.name) for v in s.values]


def _said(s: Stmt) -> str:
    match s:
        case Let() | Load():
            return f"{s.value.name}, which has the axes {', '.join(s.value.axes)} and lies in no loop"
        case Reduce():
            return f"the reduction {s.reduction!r} of whole arrays"
        case Store():
            return f"the store of {s.buffer} outside of a loop"
    return {"Pick": "a pick from a computed value", "Scatter": "a scatter"}.get(
        type(s).__name__, f"the island {getattr(s, 'op', type(s).__name__)!r}"
    )


def _axes_of(s: Stmt) -> tuple[str, ...]:
    """The axes of a statement outside of loops, those that it reduces among them."""
    match s:
        case Let() | Load():
            return s.value.axes
        case Reduce():
            return tuple(dict.fromkeys((*s.axes, *s.values[0].axes)))
        case Store():
            return s.index
    return ()


def _needs(s: Let | Load | Reduce | Store, numbers: dict[str, Let | Load]) -> set[str]:
    """The names that a statement needs, through statements that are one number."""
    found: set[str] = set()
    todo = [x for x in operands(s) if isinstance(x, str)]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            if name in numbers:
                todo += [x for x in operands(numbers[name]) if isinstance(x, str)]
    return found


def operands(s: Let | Load | Reduce | Store) -> tuple[Operand, ...]:
    """The names and constants that a statement reads; axes that a load or store indexes by among them."""
    match s:
        case Let():
            return s.args
        case Load():
            return s.index
        case Reduce():
            return (*s.args, *(() if s.where is None else (s.where,)))
        case Store():
            return (s.value, *s.index, *(() if s.where is None else (s.where,)))


# --- loops ------------------------------------------------------------------------------------------------------------


def _loop(loop: Loop) -> _Open:
    rows, items = [loop.axis], list[Item](_plain(loop.head, (loop.axis,)))
    guard, body = loop.guard, loop.body
    while guard is None and _is_rows(body):
        inner = body[-1]
        assert isinstance(inner, Loop)
        rows.append(inner.axis)
        items += _plain((*body[:-1], *inner.head), rows)
        guard, body = inner.guard, inner.body
    found = _Open(tuple(rows), items, is_loop=True)
    if guard is not None:
        found.items.append(Guard(guard))
    for s in body:
        if isinstance(s, Loop):
            found.items.append(_sweep(s, found))
        else:
            (plain,) = _plain((s,), rows)
            if isinstance(plain, Reduce):
                found.totals.append((plain, None))
            found.items.append(plain)
    return found


def _is_rows(body: Sequence[Stmt]) -> bool:
    """Whether a body is row statements and then one loop over rows as well: one that holds sweeps, or stores alone."""
    if not body or not isinstance(body[-1], Loop) or any(not isinstance(s, Let | Load) for s in body[:-1]):
        return False
    inner = body[-1].body
    if any(isinstance(s, Reduce) and body[-1].axis in s.axes for s in walk(inner)):
        return False
    return any(isinstance(s, Loop) for s in inner)


def walk(body: Sequence[Stmt]) -> Iterator[Stmt]:
    """Every statement of a body, those of loops included."""
    for s in body:
        yield s
        if isinstance(s, Loop):
            yield from walk(s.head)
            yield from walk(s.body)


def _plain(body: Sequence[Stmt], rows: Sequence[str]) -> list[Let | Load | Store | Reduce]:
    """Statements of a row; NotSupportedError for others."""
    found: list[Let | Load | Store | Reduce] = []
    for s in body:
        if not isinstance(s, Let | Load | Store | Reduce):
            raise NotSupportedError(_said(s))
        if isinstance(s, Reduce) and (set(s.axes) != set(rows) or s.reduction not in TOTALS):
            raise NotSupportedError(f"the reduction {s.reduction!r} over {', '.join(s.axes)} within a row")
        if isinstance(s, Let | Load) and not set(s.value.axes).issubset(rows):
            raise NotSupportedError(f"{s.value.name}, which is an array in each row")
        if isinstance(s, Store) and not set(s.index).issubset(rows):
            raise NotSupportedError(f"the store of {s.buffer} within a row")
        found.append(s)
    return found


def _sweep(loop: Loop, found: _Open) -> Sweep:
    axis, body = loop.axis, list[Let | Load | Reduce | Store]()
    guarded = {id(s) for s in loop.body} if loop.guard is not None else set()
    for s in (*loop.head, *loop.body):
        if isinstance(s, Loop):
            raise NotSupportedError(f"a loop over {s.axis} within one over {axis} in a row")
        if not isinstance(s, Let | Load | Reduce | Store):
            raise NotSupportedError(_said(s))
        inside = {*found.rows, axis}
        if isinstance(s, Reduce):
            along = set(s.axes) == {axis}
            total = s.reduction in TOTALS and set(s.axes) in ({*found.rows, axis}, set(found.rows))
            if not (along and s.reduction in KNOWN) and not total:
                raise NotSupportedError(f"the reduction {s.reduction!r} over {', '.join(s.axes)} within a row")
            if not along:
                found.totals.append((s, axis))
        elif isinstance(s, Store):
            if axis not in s.index or not inside.issuperset(s.index):
                raise NotSupportedError(f"the store of {s.buffer} within a row")
        elif not inside.issuperset(s.value.axes):
            raise NotSupportedError(f"{s.value.name}, which is an array in each row")
        if id(s) in guarded and isinstance(s, Reduce | Store) and loop.guard is not None:
            body += _where(s, loop.guard)
        else:
            body.append(s)
    return Sweep(axis, tuple(body))


def _where(s: Reduce | Store, guard: str) -> list[Let | Load | Reduce | Store]:
    """A reduction or store of a guarded loop: it counts where the guard holds."""
    if s.where is None:
        return [replace(s, where=guard)]
    name = f"{s.values[0].name if isinstance(s, Reduce) else s.buffer}@where"
    axes = s.axes if isinstance(s, Reduce) else s.index
    return [Let(Value(name, tuple(axes), "bool"), "and", (s.where, guard)), replace(s, where=name)]


# --- what passes from stage to stage ----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Linker:
    """Gives each stage its buffers, and loads for what earlier ones have computed."""

    program: KernelProgram
    numbers: dict[str, Let | Load]
    made: dict[str, tuple[int, Value]] = field(default_factory=dict)  # values along an axis: stage
    again: dict[str, Let | Load] = field(default_factory=dict)  # those that cost nothing to compute again
    sums: dict[str, Buffer] = field(default_factory=dict)  # results of totals
    scratch: dict[str, Buffer] = field(default_factory=dict)

    def link(self, opened: Sequence[_Open]) -> tuple[Stage, ...]:
        for at, stage in enumerate(opened):
            if not stage.is_loop:
                for s in stage.items:
                    if isinstance(s, Let | Load):
                        self.made[s.value.name] = (at, s.value)
                        if isinstance(s, Load) or s.op == "index":
                            self.again[s.value.name] = s
            for r, _ in stage.totals:
                v = r.values[0]
                self.sums[v.name] = Buffer(f"{v.name}@sum", v.axes, "real", "scratch")
            for t in stage.items:
                if isinstance(t, Store) and t.buffer.endswith("@one"):
                    number = self.numbers[t.buffer.removesuffix("@one")]
                    self.scratch[t.buffer] = Buffer(t.buffer, (), number.value.dtype, "scratch")
        wanted = {n for at, stage in enumerate(opened) for n in self.foreign(at, stage) if n not in self.again}
        for name in sorted(wanted):
            value = self.made[name][1]
            self.scratch[name] = Buffer(f"{name}@kept", value.axes, value.dtype, "scratch")
        kind = self.program.name.rpartition(".")[2]
        found = []
        for at, stage in enumerate(opened):
            made = self.stage(kind if len(opened) == 1 else f"{kind}_{at}", at, stage)
            if made is not None:
                found.append(made)
        return tuple(found)

    def foreign(self, at: int, stage: _Open) -> Iterator[str]:
        """Names of values along an axis that this stage needs from earlier ones."""
        for s in stage.items:
            for x in s.body if isinstance(s, Sweep) else () if isinstance(s, Guard) else (s,):
                for name in operands(x):
                    if isinstance(name, str) and name in self.made and self.made[name][0] != at:
                        yield name

    def stage(self, name: str, at: int, stage: _Open) -> Stage | None:
        totals = tuple(self.total(r, axis, stage) for r, axis in stage.totals)
        parts = {t.value.name: t for t in totals}
        items: list[Item] = []
        loaded: set[str] = set()
        for s in stage.items:
            if isinstance(s, Sweep):
                body = [y for x in s.body for y in self.finish(x, s.axis, parts, stage)]
                items += self.loads(at, s.body, stage.rows, loaded)
                items.append(Sweep(s.axis, (*self.loads(at, s.body, (s.axis,), set(loaded)), *body)))
                items += [
                    Store(parts[x.values[0].name].part.name, stage.rows, f"{x.values[0].name}@row")
                    for x in s.reductions
                    if x.values[0].name in parts and s.axis in x.axes
                ]
            elif isinstance(s, Guard):
                items.append(s)
            else:
                items += self.loads(at, (s,), stage.rows, loaded)
                items += self.finish(s, None, parts, stage)
                if isinstance(s, Let | Load) and s.value.name in self.scratch and not stage.is_loop:
                    items.append(Store(self.scratch[s.value.name].name, s.value.axes, s.value.name))
        if not any(isinstance(s, Store) or (isinstance(s, Sweep) and _stores(s)) for s in items):
            return None
        scalars = self.scalars(items)
        return Stage(
            name, stage.rows, tuple(items), self.buffers(items, scalars, [t.part for t in totals]), scalars, totals
        )

    def total(self, r: Reduce, axis: str | None, stage: _Open) -> Total:
        v = r.values[0]
        along = axis is not None and axis not in r.axes
        part = Buffer(f"{v.name}@part", (*stage.rows, axis) if along and axis else stage.rows, "real", "scratch")
        return Total(v, part, stage.rows)

    def finish(
        self, s: Let | Load | Reduce | Store, axis: str | None, parts: dict[str, Total], stage: _Open
    ) -> Iterator[Let | Load | Reduce | Store]:
        """A statement; for a total what a row adds to it, which is kept."""
        if not isinstance(s, Reduce) or s.values[0].name not in parts:
            yield s
            return
        part = parts[s.values[0].name].part
        if axis is not None and axis in s.axes:  # first along the row
            row = Value(f"{s.values[0].name}@row", stage.rows, "real")
            yield replace(s, values=(row,), axes=(axis,))
        elif s.reduction == "count":
            share = Value(f"{part.name}@share", part.axes)
            yield Let(share, "select", (s.args[0] if s.where is None else s.where, 1, 0))
            yield Store(part.name, part.axes, share.name)
        else:
            yield Store(part.name, part.axes, s.args[0], s.where)

    def loads(self, at: int, body: Sequence[Stmt], axes: Sequence[str], loaded: set[str]) -> Iterator[Let | Load]:
        """What a body needs of values along these axes that earlier stages have, and of sums along them."""
        for s in body:
            assert isinstance(s, Let | Load | Reduce | Store)
            for name in operands(s):
                if not isinstance(name, str) or name in loaded:
                    continue
                value = self.made[name][1] if name in self.made and self.made[name][0] != at else None
                if value is not None and set(axes).issuperset(value.axes):
                    loaded.add(name)
                    yield self.again.get(name) or Load(value, self.scratch[name].name, value.axes)
                elif name in self.sums and self.sums[name].axes and set(axes).issuperset(self.sums[name].axes):
                    loaded.add(name)
                    yield Load(Value(name, self.sums[name].axes), self.sums[name].name, self.sums[name].axes)

    def scalars(self, items: Sequence[Item]) -> tuple[Let | Load, ...]:
        """The statements of one number that these need, in order."""
        wanted: dict[str, None] = {}
        todo = [
            x
            for s in items
            for y in (s.body if isinstance(s, Sweep) else () if isinstance(s, Guard) else (s,))
            for x in operands(y)
            if isinstance(x, str)
        ]
        while todo:
            name = todo.pop()
            if name in wanted:
                continue
            if name in self.numbers:
                wanted[name] = None
                todo += [x for x in operands(self.numbers[name]) if isinstance(x, str)]
            elif name in self.sums and not self.sums[name].axes:
                wanted[name] = None
        sums = [Load(Value(n, ()), self.sums[n].name, ()) for n in self.sums if n in wanted]
        return (*sums, *(s for n, s in self.numbers.items() if n in wanted))

    def buffers(
        self, items: Sequence[Item], scalars: Sequence[Let | Load], parts: Sequence[Buffer]
    ) -> tuple[Buffer, ...]:
        used: set[str] = set()
        for s in (*items, *scalars):
            for x in s.body if isinstance(s, Sweep) else (s,):
                if isinstance(x, Load | Store):
                    used.add(x.buffer)
        known = (*self.program.buffers, *self.scratch.values(), *self.sums.values(), *parts)
        return tuple(b for b in known if b.name in used)


def _stores(sweep: Sweep) -> bool:
    return any(isinstance(s, Store) for s in sweep.body)
