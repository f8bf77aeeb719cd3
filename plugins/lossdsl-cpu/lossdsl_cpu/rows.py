"""What a loop over rows holds: statements of a row, sweeps over an axis, and which values a later sweep may take over.

A value's key says how it is computed, so that two sweeps that compute the same are seen to. One that costs a
transcendental is kept while the row is on chip; exp(x - m) of a log-sum-exp over x is kept from the sweep that sums it,
relative to the maximum of the time, and rescaled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from lossdsl.backends.api import STEPS, KernelProgram, Let, Load, Loop, Numbering, Operand, Pick, Reduce, Stmt, Store
from lossdsl_cpu.cxx import COSTLY
from lossdsl_cpu.fold import Fold, fold

PASSES = {"logsumexp", "ties", "argmax"}  # need the maximum before they can add anything
TOTALS = {"sum", "count", "logsumexp"}  # over all rows at once
KNOWN = {"sum", "count", "max", "min", "prod", *PASSES}


@dataclass(slots=True)
class Sweep:
    """One pass over an axis for each row.

    live      statements that are printed, in order: what stores and reductions need and isn't taken over
    kept      element values that a later sweep takes over: their names
    exps      first results of log-sum-exps whose exponentials a later sweep takes over
    taken     name -> name of the kept value of an earlier sweep
    scaled    name -> first result of the log-sum-exp whose kept exponentials it is
    folds     name -> the same times row values, where it is that
    decides   names that a step is made of: they are computed as anywhere else, lest an entry differ from itself
    tilts     first result of a log-sum-exp -> the result of a later sweep's sum of exp(x - m)·(x - m), which it carries
    """

    axis: str
    body: tuple[Stmt, ...]
    live: list[Let | Load] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    exps: list[str] = field(default_factory=list)
    taken: dict[str, str] = field(default_factory=dict)
    scaled: dict[str, str] = field(default_factory=dict)
    folds: dict[str, Fold] = field(default_factory=dict)
    decides: frozenset[str] = frozenset()
    tilts: dict[str, str] = field(default_factory=dict)

    def total(self, r: Reduce) -> bool:
        """Whether a reduction of this sweep goes over the rows, too."""
        return self.axis in r.axes and len(r.axes) > 1

    def column(self, r: Reduce) -> bool:
        """Whether it goes over the rows alone, so that each element of the axis has a result."""
        return self.axis not in r.axes

    @property
    def reductions(self) -> list[Reduce]:
        return [s for s in self.body if isinstance(s, Reduce)]

    @property
    def stores(self) -> list[Store]:
        return [s for s in self.body if isinstance(s, Store)]


@dataclass(slots=True)
class Rows:
    """A loop over rows: its axes from the outermost, the guard, and its statements, sweeps among them."""

    axes: tuple[str, ...]
    head: list[Let | Load | Store]
    guard: str | None
    items: list[Let | Load | Pick | Store | Reduce | Sweep]

    @property
    def totals(self) -> list[Reduce]:
        """The reductions over all rows, which have their values after the loop."""
        own = [s for s in self.items if isinstance(s, Reduce)]
        return own + [r for s in self.sweeps for r in s.reductions if s.total(r)]

    @property
    def columns(self) -> list[tuple[Sweep, Reduce]]:
        """The reductions over all rows for each element of a sweep's axis."""
        return [(s, r) for s in self.sweeps for r in s.reductions if s.column(r)]

    @property
    def sweeps(self) -> list[Sweep]:
        return [s for s in self.items if isinstance(s, Sweep)]


def extreme(r: Reduce) -> bool:
    """Whether a reduction is the largest or smallest of real numbers."""
    return r.reduction in ("max", "min") and r.values[0].dtype == "real"


def rows_of(program: KernelProgram, loop: Loop, costly: frozenset[str] = frozenset(COSTLY)) -> Rows | None:
    """The loop as rows with sweeps; None where it has another form (deeper nests, sums over rows, picks in sweeps)."""
    axes, head, guard = [loop.axis], list(loop.head), loop.guard
    body: Sequence[Stmt] = loop.body
    while guard is None and _only_loop(program, body, axes):
        inner = body[-1]
        assert isinstance(inner, Loop)
        head += body[:-1]
        axes.append(inner.axis)
        head += inner.head
        guard, body = inner.guard, inner.body
    if guard is None:
        body = (*head, *body)
        head = []
    items: list[Let | Load | Pick | Store | Reduce | Sweep] = []
    for s in body:
        if isinstance(s, Loop):
            if s.guard is not None or not all(_flat(x, s.axis, axes) for x in s.body):
                return None
            items.append(Sweep(s.axis, s.body))
        elif isinstance(s, Let | Load | Pick | Store | Reduce) and _of_row(s, axes):
            items.append(s)
        else:
            return None
    if not all(isinstance(s, Let | Load) and _of_row(s, axes) for s in head):
        return None
    for item in items:
        if isinstance(item, Sweep) and not all(_of_sweep(x, axes, item.axis) for x in item.body):
            return None
    rows = Rows(tuple(axes), [s for s in head if isinstance(s, Let | Load | Store)], guard, items)
    share(program, rows, costly)
    rows.items = [x for x in rows.items if not isinstance(x, Sweep) or x.reductions or x.stores]
    for sweep in rows.sweeps:
        fold(sweep)
    views: dict[str, str] = {}
    for sweep in rows.sweeps:
        for name in viewed(program, rows, sweep):
            if views.setdefault(name, sweep.axis) != sweep.axis:
                return None
    return rows


def viewed(program: KernelProgram, rows: Rows, sweep: Sweep) -> list[str]:
    """The tensors of which a sweep reads or writes each element of each row: seen through a tile's view."""
    found: dict[str, None] = {}
    buffers = {b.name: b for b in program.buffers}
    for s in (*sweep.live, *sweep.stores):
        if isinstance(s, Load | Store) and {rows.axes[-1], sweep.axis}.issubset(s.index):
            b = buffers[s.buffer]
            plain = len(set(s.index)) == len(s.index) and {*rows.axes, sweep.axis}.issuperset(s.index)
            if plain and b.role != "scratch" and b.axes == s.index:
                found[b.name] = None
    return list(found)


def _only_loop(program: KernelProgram, body: Sequence[Stmt], axes: list[str]) -> bool:
    """Whether a body is row statements and then one loop over rows as well: every store in it has that loop's axis."""
    if not body or not isinstance(body[-1], Loop) or any(not isinstance(s, Let | Load) for s in body[:-1]):
        return False
    inner = body[-1]
    outs = [b for b in program.buffers if b.role == "out"]
    deeper = any(isinstance(s, Loop) for s in inner.body)
    flat = all(isinstance(s, Let | Load | Store | Loop) for s in inner.body)
    return flat and deeper and all({*axes, inner.axis}.issubset(b.axes) for b in outs)


def _of_row(s: Stmt, axes: Sequence[str]) -> bool:
    if isinstance(s, Store):
        return all(i in axes for i in s.index)
    if isinstance(s, Reduce):
        return set(s.axes) == set(axes) and s.reduction in TOTALS
    return isinstance(s, Let | Load | Pick) and set(axes).issuperset(s.value.axes)


def _of_sweep(s: Stmt, axes: Sequence[str], axis: str) -> bool:
    match s:
        case Let() | Load():
            return {*axes, axis}.issuperset(s.value.axes)
        case Reduce():
            if axis not in s.axes:
                return s.values[0].axes == (axis,)
            return set(axes).issuperset(s.values[0].axes) and (len(s.axes) == 1 or not s.values[0].axes)
        case Store():
            return axis in s.index and set(s.index).intersection(axes) != set()
    return False


def _flat(s: Stmt, axis: str, axes: Sequence[str]) -> bool:
    if isinstance(s, Reduce):
        if axis not in s.axes:
            return set(s.axes) == set(axes) and (s.reduction in ("sum", "count") or extreme(s))
        if s.axes != (axis,):
            return set(s.axes) == {*axes, axis} and s.reduction in TOTALS
        return s.reduction in KNOWN and (s.reduction != "logsumexp" or len(s.values) == 2)
    return isinstance(s, Let | Load | Store)


@dataclass(slots=True)
class _Sharing:
    """What the sweeps so far have computed."""

    numbers: Numbering
    sums: dict[tuple[str, int], tuple[str, Sweep]] = field(default_factory=dict)  # by axis and key of m: m, sweep
    made: dict[tuple[str, int], tuple[str, Sweep]] = field(default_factory=dict)  # by axis and key: name, sweep

    def need(self, x: Operand | None, item: Sweep, lets: dict[str, Let | Load], wanted: set[str]) -> None:
        """Mark what an operand needs in this sweep, taking over what can be."""
        if not isinstance(x, str) or x not in lets or x in wanted:
            return
        wanted.add(x)
        s, k = lets[x], self.numbers.key(x)
        if x in item.decides:
            for a in s.args if isinstance(s, Let) else s.index:
                self.need(a, item, lets, wanted)
            return
        found = None if self.folded(item.axis, k) else self.made.get((item.axis, k))
        if found is not None and k in self.numbers.costly and item.axis in s.value.axes:
            item.taken[x] = found[0]
            if found[0] not in found[1].kept:
                found[1].kept.append(found[0])
            return
        total = self.exponential(item.axis, k)
        if total is not None:
            item.scaled[x] = total[0]
            if total[0] not in total[1].exps:
                total[1].exps.append(total[0])
            return
        for a in s.args if isinstance(s, Let) else s.index:
            self.need(a, item, lets, wanted)

    def folded(self, axis: str, k: int) -> bool:
        """Whether a key is the exponential of a log-sum-exp times and over row values: as quick to compute from that as
        to take over."""
        if self.numbers.made_of[k][0] not in ("mul", "div"):
            return False
        args = self.numbers.arguments(k)
        along = [x for x in args if axis in self.numbers.axes.get(x, ())]
        if len(along) != 1 or (self.numbers.made_of[k][0] == "div" and along != args[:1]):
            return False
        return self.exponential(axis, along[0]) is not None or self.folded(axis, along[0])

    def exponential(self, axis: str, k: int) -> tuple[str, Sweep] | None:
        """The log-sum-exp (its m, its sweep) along an axis of which a key is the exponential exp(x - m)."""
        m = self.numbers.exponential(k)
        return None if m is None else self.sums.get((axis, m))

    def tilt(self, axis: str, r: Reduce) -> tuple[str, Sweep] | None:
        """The same of which a reduction is the sum of exp(x - m)·(x - m), as `lossdsl.plan.tilted` writes it."""
        if r.reduction != "sum" or r.where is not None or r.axes != (axis,):
            return None
        k = self.numbers.key(r.args[0])
        if self.numbers.made_of[k][0] != "select":
            return None
        condition, zero, product = self.numbers.arguments(k)
        if self.numbers.made_of[condition][0] != "eq" or self.numbers.made_of[product][0] != "mul":
            return None
        e, other = self.numbers.arguments(condition)
        if other != zero or zero != self.numbers.key(Fraction(0)) or e not in self.numbers.arguments(product):
            return None
        gaps = [x for x in self.numbers.arguments(product) if x != e]
        return self.exponential(axis, e) if gaps == self.numbers.arguments(e) else None


def _decides(lets: dict[str, Let | Load]) -> frozenset[str]:
    """What steps are made of. Where a number is compared with 0, its last place doesn't matter."""
    steps = (s for s in lets.values() if isinstance(s, Let) and s.op in STEPS and 0 not in s.args)
    todo = [x for s in steps for x in s.args if isinstance(x, str)]
    found: set[str] = set()
    while todo:
        name = todo.pop()
        if name in lets and name not in found:
            found.add(name)
            s = lets[name]
            todo += [x for x in (s.args if isinstance(s, Let) else s.index) if isinstance(x, str)]
    return frozenset(found)


def share(program: KernelProgram, rows: Rows, costly: frozenset[str]) -> None:
    """Fill what each sweep prints, keeps and takes over."""
    fixed = frozenset(b.name for b in program.buffers if b.role in ("in", "param"))
    sharing = _Sharing(Numbering(fixed, costly.__contains__))
    numbers = sharing.numbers
    for item in (*rows.head, *rows.items):
        if isinstance(item, Let | Load):
            numbers.define(item)
        if not isinstance(item, Sweep):
            continue
        lets = {s.value.name: s for s in item.body if isinstance(s, Let | Load)}
        for s in lets.values():
            numbers.define(s)
        for x in item.reductions:
            if (carried := sharing.tilt(item.axis, x)) is not None and carried[0] not in carried[1].tilts:
                carried[1].tilts[carried[0]] = x.values[0].name
                item.body = tuple(s for s in item.body if s is not x)
        item.decides = _decides(lets)
        wanted: set[str] = set()
        for x in item.reductions:
            for operand in (x.args[0], x.where):
                sharing.need(operand, item, lets, wanted)
        for y in item.stores:
            for operand in (y.value, y.where, *y.index):
                sharing.need(operand, item, lets, wanted)
        item.live = [s for n, s in lets.items() if n in wanted]
        for n in lets:
            ours = n in wanted and n not in item.taken and n not in item.scaled
            if ours and lets[n].value.dtype == "real":
                sharing.made.setdefault((item.axis, numbers.key(n)), (n, item))
        for x in item.reductions:
            numbers.reduce(x)
            if x.reduction == "logsumexp" and x.where is None:
                sharing.sums[(item.axis, numbers.key(x.values[0].name))] = (x.values[0].name, item)
