"""The statements of a launch whose operations are placed: row by row, one axis at a time within a row."""

from __future__ import annotations

from collections.abc import Sequence

from lossdsl.backends.api import (
    Buffer,
    Island,
    Let,
    Load,
    NotSupportedError,
    Operand,
    Pick,
    Reduce,
    Store,
    Value,
)
from lossdsl.backends.flat import Argument, Op, Ref, Stored
from lossdsl.backends.triton.placing import Placing
from lossdsl.backends.triton.stages import Item, Stage, Sweep, Total, used_buffers


class Writing:
    """The statements of one launch."""

    def __init__(self, placed: Placing, at: int) -> None:
        self.placed = placed
        self.flat = placed.flat
        self.at = at
        self.group = placed.groups[at]
        self.rows = frozenset(self.group.rows)
        self.items: list[Item] = []
        self.scalars: list[Let | Load] = []
        self.there: set[Ref] = set()  # values of the row, and numbers
        self.sweep: list[Let | Load | Reduce | Store | Island | Pick] | None = None
        self.swept: set[Ref] = set()
        self.parts: list[Total] = []
        self.levels: dict[int, int] = {}
        self.late: dict[int, Store] = {}

    def stage(self) -> Stage:
        kind = self.placed.program.name.rpartition(".")[2]
        one = len(self.placed.groups) == 1
        work: list[tuple[int, str | None, int | Stored]] = []
        work += [(self.level(i), column, i) for i, column in self.group.anchors]
        work += [(self.level_of_store(s), column, s) for s, column in self.group.stores]
        for level in range(1 + max(level for level, _, _ in work)):
            here: dict[str | None, list[int | Stored]] = {}
            for at, column, x in work:
                if at == level:
                    alone = isinstance(x, int) and self.flat.ops[x].what == "root"
                    here.setdefault(None if alone else column, []).append(x)
            for x in here.pop(None, []):
                self.anchor(x, None)
            for column, xs in here.items():
                self.swept, self.sweep = set(), []
                before = self.items
                self.items = []
                for x in xs:
                    self.anchor(x, column)
                body, self.sweep = self.sweep, None
                before += self.items  # values of the row come first
                self.items = before
                assert column is not None
                self.items.append(Sweep(column, tuple(body)))
                for x in xs:
                    if isinstance(x, int):
                        self.after(x)
        items = tuple(self.items)
        name = kind if one else f"{kind}_{self.at}"
        if self.placed.long:
            name = f"{kind}_long_{self.at}"
        return Stage(name, self.group.rows, items, self.buffers(items), tuple(self.scalars), tuple(self.parts))

    def level(self, i: int) -> int:
        """How many anchors of this launch stand behind one another before this one."""
        if i not in self.levels:
            here = [d for d in self.placed.behind(i) if d >= 0 and self.placed.group_of[d] == self.at]
            self.levels[i] = max((self.level(d) + 1 for d in here), default=0)
        return self.levels[i]

    def level_of_store(self, s: Stored) -> int:
        found = 0
        for x in (s.value, s.where):
            if isinstance(x, Ref):
                behind = {x.op} if self.placed.is_anchor(x.op) else self.placed.behind(x.op)
                here = [d for d in behind if d >= 0 and self.placed.group_of[d] == self.at]
                found = max([found, *(self.level(d) + 1 for d in here)])
        return found

    # --- values -------------------------------------------------------------------------------------------------------

    def operand(self, x: Argument) -> Operand:
        if not isinstance(x, Ref):
            return x
        self.need(x)
        return self.placed.names[x]

    def need(self, ref: Ref) -> None:
        """Write what a value takes, where it is not there yet."""
        if ref in self.there or ref in self.swept:
            return
        placed, op = self.placed, self.flat.ops[ref.op]
        if placed.is_anchor(ref.op):
            if placed.group_of[ref.op] == self.at and ref.op not in placed.totals:
                return  # its own sweep has written it
            v = placed.value(ref)
            if ref.op in placed.totals:
                self.write(ref, Load(v, f"{v.name}@sum", v.axes))
            else:
                self.write(ref, Load(v, placed.kept[ref].name, v.axes))
            return
        args = op.args[1:] if ref.op in placed.loaded else op.args
        for a in args:
            if isinstance(a, Ref):
                self.need(a)
        self.write(ref, placed.loaded.get(ref.op) or self.plain(ref, op))

    def plain(self, ref: Ref, op: Op) -> Let | Load:
        v = self.placed.value(ref)
        names = self.placed.names
        if op.what == "let":
            args = tuple(names[a] if isinstance(a, Ref) else a for a in op.args)
            return Let(v, op.name, args, op.attrs, op.origin)
        rest = iter(op.args)
        places = op.attrs[0]
        assert isinstance(places, tuple)
        return Load(v, op.name, tuple(str(p) if p else names[next(rest)] for p in places), op.origin)  # type: ignore[index]

    def write(self, ref: Ref, s: Let | Load) -> None:
        axes = frozenset(s.value.axes)
        own = any(d >= 0 and self.placed.group_of[d] == self.at for d in self.placed.behind(ref.op))
        if not axes and not own:
            self.scalars.append(s)
            self.there.add(ref)
        elif axes <= self.rows:
            self.items.append(s)
            self.there.add(ref)
        elif self.sweep is None:
            raise NotSupportedError(f"{s.value.name}, which is an array in each row")
        else:
            self.sweep.append(s)
            self.swept.add(ref)

    # --- anchors ------------------------------------------------------------------------------------------------------

    def anchor(self, x: int | Stored, column: str | None) -> None:
        if isinstance(x, Stored):
            where = None if x.where is None else self.operand(x.where)
            self.emit(Store(x.buffer.name, x.index, self.operand(x.value), where, x.otherwise, x.origin))
            return
        op = self.flat.ops[x]
        values = tuple(self.placed.value(Ref(x, j)) for j in range(len(op.values)))
        if op.what == "root":
            self.root(x, op, values)
            self.after(x)
            return
        args = [self.operand(a) for a in op.args]
        if op.what == "reduce":
            where = args.pop() if op.masked else None
            self.reduce(x, Reduce(values, op.name, tuple(op.attrs[0]), tuple(args), where, op.origin), column)  # type: ignore[arg-type]
        elif op.what == "scatter":
            self.reduce(x, self.scattered(x, op, args, values), column)
        elif op.what == "pick":
            axes, places = op.attrs
            assert isinstance(axes, tuple)
            assert isinstance(places, tuple)
            index = self.placed.places(op.args[1:], axes, places)
            self.emit(Pick(values[0], str(args[0]), axes, tuple(index[str(a)] for a in axes), op.origin))
        else:
            self.emit(Island(values, op.name, tuple(args), op.attrs, origin=op.origin))
        if column is None:
            self.after(x)

    def emit(self, s: Let | Load | Reduce | Store | Island | Pick) -> None:
        (self.items if self.sweep is None else self.sweep).append(s)

    def scattered(self, x: int, op: Op, args: Sequence[Operand], values: tuple[Value, ...]) -> Reduce:
        """A scatter as a sum over the entries whose index is this one's own."""
        axis = str(op.attrs[0])
        over = tuple(op.attrs[1])  # type: ignore[arg-type]
        own = Value(f"own@{x}", (axis,), "int")
        same = Value(f"same@{x}", self.placed.ordered(self.placed.axes(op.args[1]) | {axis}), "bool")
        here = self.items if axis in self.rows else self.sweep
        assert here is not None
        here.append(Let(own, "index", (), (axis,)))
        self.emit(Let(same, "eq", (args[1], own.name)))
        return Reduce(values, "sum", over, (args[0],), same.name, op.origin)

    def reduce(self, x: int, s: Reduce, column: str | None) -> None:
        """A reduction within the row; of one over rows what this row adds to it."""
        if x not in self.placed.totals:
            self.emit(s)
            return
        v = s.values[0]
        axes = self.placed.totals[x]
        part = Buffer(f"{v.name}@part", axes, "real", "scratch")
        over = tuple(a for a in axes if a in s.axes)
        self.parts.append(Total(v, part, over))
        if column is not None and column in s.axes:
            row = Value(f"{v.name}@row", self.group.rows, "real")
            self.emit(Reduce((row,), s.reduction, (column,), s.args, s.where, s.origin))
            self.late[x] = Store(part.name, part.axes, row.name)  # after the sweep
            return
        if s.reduction == "count":
            share = Value(f"{v.name}@share", axes)
            count = s.args[0]
            if s.where is not None:
                both = Value(f"{v.name}@both", axes, "bool")
                self.emit(Let(both, "and", (count, s.where)))
                count = both.name
            self.emit(Let(share, "select", (count, 1, 0)))
            self.emit(Store(part.name, part.axes, share.name))
        else:
            self.emit(Store(part.name, part.axes, s.args[0], s.where))

    def root(self, x: int, op: Op, values: tuple[Value, ...]) -> None:
        """The zero of a function of a row: what that needs of the row's entries is computed before."""
        start, end = (int(a) for a in op.attrs)  # type: ignore[arg-type]
        reduced = self.placed.reduced(op)
        column = next(iter(reduced), None)
        self.sweep, self.swept = [], set()
        for a in self.placed.arguments(x):
            self.need(a)
        before, self.sweep = self.sweep, None
        if before:
            assert column is not None
            self.items.append(Sweep(column, tuple(before)))
        names = self.placed.names
        body: list[Let | Load | Reduce] = []
        for j in range(start + 1, end):
            inner = self.flat.ops[j]
            if inner.what == "reduce":
                args = [names[a] if isinstance(a, Ref) else a for a in inner.args]
                where = args.pop() if inner.masked else None
                over = tuple(inner.attrs[0])  # type: ignore[arg-type]
                made = tuple(self.placed.value(Ref(j, k)) for k in range(len(inner.values)))
                body.append(Reduce(made, inner.name, over, tuple(args), where))
            elif inner.what in ("let", "load"):
                body.append(self.plain(Ref(j), inner))
            else:
                raise NotSupportedError(f"a {inner.what} within the function of a root")
        given = tuple(names[a] if isinstance(a, Ref) else a for a in op.args)
        bound = (self.placed.value(Ref(start)),)
        attrs = (column or "",)
        self.items.append(Island(values, "root", given, attrs, tuple(body), bound, op.origin))

    def after(self, x: int) -> None:
        """Keep what later launches need, once it is there."""
        op = self.flat.ops[x]
        if x in self.late:
            self.items.append(self.late.pop(x))
        for j in range(len(op.values)):
            buffer = self.placed.kept.get(Ref(x, j))
            if buffer is None or x in self.placed.totals:
                continue
            store = Store(buffer.name, buffer.axes, self.placed.names[Ref(x, j)])
            columns = frozenset(buffer.axes) - self.rows
            self.items.append(Sweep(next(iter(columns)), (store,)) if columns else store)

    def buffers(self, items: Sequence[Item]) -> tuple[Buffer, ...]:
        placed = self.placed
        sums = [
            Buffer(f"{placed.names[Ref(i)]}@sum", placed.value(Ref(i)).axes, "real", "scratch") for i in placed.totals
        ]
        parts = [t.part for t in self.parts]
        known = (*placed.program.buffers, *placed.kept.values(), *placed.arrays, *sums, *parts)
        return used_buffers(known, items, self.scalars)
