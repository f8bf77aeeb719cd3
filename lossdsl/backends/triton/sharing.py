"""Statements of a stage made ready for printing: what is computed alike is computed once, what nobody needs is gone.

In a kernel that has a whole row on chip, sweeps share everything, and exp(x - m) of a log-sum-exp over x is the
exponential that this has summed. In one that goes over a row in blocks, a sweep shares with itself and with its row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from lossdsl.backends.api import Island, Let, Load, Operand, Pick, Reduce, Stmt, Store
from lossdsl.backends.triton.stages import Guard, Item, Plain, Stage, Sweep, flattened, operands

Key = tuple[object, ...]


def exponential(m: str) -> str:
    """The name of e^(x - m), for a log-sum-exp with the maximum m."""
    return f"{m}@exp"


@dataclass(slots=True)
class _Sharing:
    fixed: frozenset[str]  # buffers that nothing writes
    on_chip: bool
    known: dict[Key, str] = field(default_factory=dict)  # by how it is computed: a name that is in scope
    alias: dict[str, str] = field(default_factory=dict)
    made_of: dict[str, Key] = field(default_factory=dict)
    sums: dict[str, str] = field(default_factory=dict)  # by the first result of a log-sum-exp: its operand

    def name(self, x: Operand) -> Operand:
        return self.alias.get(x, x) if isinstance(x, str) else x

    def renamed(self, s: Plain) -> Plain:
        match s:
            case Let():
                return replace(s, args=tuple(map(self.name, s.args)))
            case Load():
                return replace(s, index=tuple(str(self.name(i)) for i in s.index))
            case Reduce():
                where = None if s.where is None else self.name(s.where)
                return replace(s, args=tuple(map(self.name, s.args)), where=where)
            case Store():
                where = None if s.where is None else self.name(s.where)
                index = tuple(str(self.name(i)) for i in s.index)
                return replace(s, value=self.name(s.value), where=where, index=index)
            case Pick():
                index = tuple(str(self.name(i)) for i in s.index)
                return replace(s, source=str(self.name(s.source)), index=index)
            case Island():
                body = tuple(self.inner(t) for t in s.body)
                return replace(s, args=tuple(map(self.name, s.args)), body=body)

    def inner(self, s: Stmt) -> Stmt:
        """A statement of a root's function, which shares only what stands before it."""
        return self.renamed(s) if isinstance(s, Let | Load | Reduce) else s

    def take(self, s: Plain) -> Plain | None:
        """The statement under the names that are kept, or None if its value is there already."""
        s = self.renamed(s)
        if isinstance(s, Reduce):
            if s.reduction == "logsumexp" and s.where is None and isinstance(s.args[0], str):
                self.sums[s.values[0].name] = s.args[0]
            return s
        if isinstance(s, Store | Island | Pick):
            return s
        key: Key
        if isinstance(s, Let):
            key = (s.op, s.attrs, *((type(a), a) for a in s.args), s.value.dtype)
            found = self.exponential(s) if self.on_chip and s.op == "exp" else None
        else:
            key = ("load", s.buffer, *s.index, s.value.dtype, *(() if s.buffer in self.fixed else (s.value.name,)))
            found = None
        found = found or self.known.get(key)
        if found is not None:
            self.alias[s.value.name] = found
            return None
        self.known[key] = s.value.name
        self.made_of[s.value.name] = key
        return s

    def exponential(self, s: Let) -> str | None:
        """The exponential of a log-sum-exp, if this is one."""
        inner = self.made_of.get(s.args[0]) if isinstance(s.args[0], str) else None
        if inner is None or inner[0] != "sub":
            return None
        operands_of = [part[1] for part in inner[2:4] if isinstance(part, tuple)]
        x, m = operands_of
        return exponential(str(m)) if self.sums.get(str(m)) == x else None


def shared(stage: Stage, on_chip: bool) -> tuple[Item, ...]:
    """The items of a stage, for a kernel that has its rows on chip or for one that has not."""
    fixed = frozenset(b.name for b in stage.buffers if b.role in ("in", "param") or b.name.endswith(("@kept", "@sum")))
    state = _Sharing(fixed, on_chip)
    for s in stage.scalars:
        state.take(s)
    items: list[Item] = []
    for item in stage.items if on_chip else _with_arguments(stage.items):
        if isinstance(item, Guard):
            items.append(Guard(str(state.name(item.name))))
        elif isinstance(item, Sweep):
            before = dict(state.known)
            body = tuple(t for s in item.body if (t := state.take(s)) is not None)
            if not on_chip:
                state.known = before
            items.append(Sweep(item.axis, body))
        elif (plain := state.take(item)) is not None:
            items.append(plain)
    return _live(items)


def _with_arguments(items: Sequence[Item]) -> Iterator[Item]:
    """The items with what a root's function needs of each entry in its body: there is no sweep before that holds it."""
    held: Sweep | None = None
    for item in items:
        if isinstance(item, Island) and held is not None:
            yield replace(item, body=(*(s for s in held.body if isinstance(s, Let | Load)), *item.body))
            held = None
            continue
        if held is not None:
            yield held
        held = item if isinstance(item, Sweep) and all(isinstance(s, Let | Load) for s in item.body) else None
        if held is None:
            yield item
    if held is not None:
        yield held


def _live(items: Sequence[Item]) -> tuple[Item, ...]:
    """Without what neither a store nor a guard needs."""
    needed: set[str] = set()

    def wanted(s: Plain) -> bool:
        if isinstance(s, Store):
            return True
        values = s.values if isinstance(s, Reduce | Island) else (s.value,)
        names = {v.name for v in values}
        if isinstance(s, Reduce) and s.reduction == "logsumexp":
            names.add(exponential(s.values[0].name))
        return not names.isdisjoint(needed)

    kept: list[Item] = []
    for item in reversed(items):
        if isinstance(item, Guard):
            needed.add(item.name)
            kept.append(item)
            continue
        body: list[Plain] = []
        for s in reversed(item.body if isinstance(item, Sweep) else (item,)):
            if wanted(s):
                needed.update(x for x in operands(s) if isinstance(x, str))
                body.append(s)
        if isinstance(item, Sweep):
            if body:
                kept.append(Sweep(item.axis, tuple(reversed(body))))
        else:
            kept += body
    return tuple(reversed(kept))


def tiles(items: Sequence[Item]) -> int:
    """How many values of an element are alive at once, at most: what a block costs in registers."""
    flat = flattened(s for s in items if isinstance(s, Sweep | Island))
    last: dict[str, int] = {}
    for at, s in enumerate(flat):
        last.update((x, at) for x in operands(s) if isinstance(x, str))
        if isinstance(s, Reduce):
            name = exponential(s.values[0].name)
            last[name] = max((i for i, t in enumerate(flat) if name in operands(t)), default=-1)
    alive: dict[str, int] = {}
    most = 1
    for at, s in enumerate(flat):
        if isinstance(s, Let | Load) and s.op != "index" if isinstance(s, Let) else isinstance(s, Load):
            alive[s.value.name] = last.get(s.value.name, at)  # type: ignore[union-attr]
        elif isinstance(s, Island | Pick):
            values = s.values if isinstance(s, Island) else (s.value,)
            alive |= {v.name: last.get(v.name, at) for v in values}
        elif isinstance(s, Reduce) and last.get(exponential(s.values[0].name), -1) >= 0:
            alive[exponential(s.values[0].name)] = last[exponential(s.values[0].name)]
        most = max(most, len(alive))
        alive = {n: end for n, end in alive.items() if end > at}
    return most
