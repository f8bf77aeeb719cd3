"""What passes from launch to launch of a program's row loops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from lossdsl.backends.api import Buffer, KernelProgram, Let, Load, Reduce, Stmt, Store, Value
from lossdsl.backends.triton.stages import Guard, Item, Plain, Stage, Sweep, Total, operands, used_buffers


@dataclass(slots=True)
class Opened:
    """A stage as it is filled."""

    rows: tuple[str, ...]
    items: list[Item] = field(default_factory=list)
    totals: list[tuple[Reduce, str | None]] = field(default_factory=list)  # and the sweep's axis, if it lies in one
    is_loop: bool = False


def linked(program: KernelProgram, numbers: dict[str, Let | Load], opened: Sequence[Opened]) -> tuple[Stage, ...]:
    """The launches, each with its buffers and with loads for what earlier ones have computed."""
    return _Linker(program, numbers).link(opened)


@dataclass(slots=True)
class _Linker:
    """Gives each stage its buffers, and loads for what earlier ones have computed."""

    program: KernelProgram
    numbers: dict[str, Let | Load]
    made: dict[str, tuple[int, Value]] = field(default_factory=dict)  # values along an axis: stage
    again: dict[str, Let | Load] = field(default_factory=dict)  # those that cost nothing to compute again
    sums: dict[str, Buffer] = field(default_factory=dict)  # results of totals
    scratch: dict[str, Buffer] = field(default_factory=dict)

    def link(self, opened: Sequence[Opened]) -> tuple[Stage, ...]:
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

    def foreign(self, at: int, stage: Opened) -> Iterator[str]:
        """Names of values along an axis that this stage needs from earlier ones."""
        for s in stage.items:
            for x in s.body if isinstance(s, Sweep) else () if isinstance(s, Guard) else (s,):
                for name in operands(x):
                    if isinstance(name, str) and name in self.made and self.made[name][0] != at:
                        yield name

    def stage(self, name: str, at: int, stage: Opened) -> Stage | None:
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

    def total(self, r: Reduce, axis: str | None, stage: Opened) -> Total:
        v = r.values[0]
        along = axis is not None and axis not in r.axes
        part = Buffer(f"{v.name}@part", (*stage.rows, axis) if along and axis else stage.rows, "real", "scratch")
        return Total(v, part, stage.rows)

    def finish(self, s: Plain, axis: str | None, parts: dict[str, Total], stage: Opened) -> Iterator[Plain]:
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
        """The statements of one number that these need, in order; not what they themselves reduce to one."""
        bodies = [s.body if isinstance(s, Sweep) else (s,) for s in items if not isinstance(s, Guard)]
        own = {v.name for body in bodies for s in body if isinstance(s, Reduce) for v in s.values}
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
            if name in wanted or name in own:
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
        known = (*self.program.buffers, *self.scratch.values(), *self.sums.values(), *parts)
        return used_buffers(known, items, scalars)


def _stores(sweep: Sweep) -> bool:
    return any(isinstance(s, Store) for s in sweep.body)
