"""Entries of a matrix at an index of a row, taken out of the tiles while these go by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from lossdsl.backends.api import Let, Load, NotSupportedError, Reduce, Value
from lossdsl.backends.triton.separating import Product
from lossdsl.backends.triton.stages import Guard, Item, Stage, Sweep, operands


def with_picks(stage: Stage, products: Sequence[Product], column: str) -> Stage:
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
