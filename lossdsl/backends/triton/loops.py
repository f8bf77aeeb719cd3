"""Row loops as stages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from lossdsl.backends.api import KernelProgram, Let, Load, Loop, NotSupportedError, Reduce, Stmt, Store, Value
from lossdsl.backends.triton.linking import Opened, linked
from lossdsl.backends.triton.stages import KNOWN, TOTALS, Guard, Item, Stage, Sweep, operands


def by_loops(program: KernelProgram) -> tuple[Stage, ...]:
    """The launches of a program's row loops, in order; NotSupportedError for what lies in none."""
    opened: list[Opened] = []
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
                opened.append(Opened(axes))
                totals = set()
            if isinstance(s, Reduce) and s.reduction not in TOTALS:
                opened.append(Opened((), [Sweep(s.axes[0], (s,)), *_results(s)]))
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
        opened.append(Opened((), list(stores)))
    return linked(program, numbers, opened)


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


def _loop(loop: Loop) -> Opened:
    rows, items = [loop.axis], list[Item](_plain(loop.head, (loop.axis,)))
    guard, body = loop.guard, loop.body
    while guard is None and _is_rows(body):
        inner = body[-1]
        assert isinstance(inner, Loop)
        rows.append(inner.axis)
        items += _plain((*body[:-1], *inner.head), rows)
        guard, body = inner.guard, inner.body
    found = Opened(tuple(rows), items, is_loop=True)
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


def _sweep(loop: Loop, found: Opened) -> Sweep:
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
