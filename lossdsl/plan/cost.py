"""What running a KernelProgram costs, counted by walking its loops: what `explain` shows.

A loop that stands in no other is a phase: what it loads of a buffer comes from memory once, however many sweeps of the
inner loops read it (a row stays on chip), and never more than the buffer holds. So it is with transcendentals: those
that are computed alike count once a phase, and so do the exponentials that a log-sum-exp has computed. A statement
outside all loops reads its arguments from memory and writes its value there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from lossdsl.check.types import base_axis
from lossdsl.plan.kernel import (
    Buffer,
    Cost,
    Island,
    KernelProgram,
    Let,
    Load,
    Loop,
    Pick,
    Reduce,
    Scatter,
    Stmt,
    Store,
    Value,
)
from lossdsl.plan.numbering import Numbering

SIZE = 1024  # of an axis, where the caller gives none
BYTES = {"real": 4, "int": 8, "bool": 1}
ROOT_STEPS = 32  # how often a root's function is evaluated
# Operations that cost an addition or so; every other primitive counts as a transcendental.
_CHEAP = (
    "abs add and clip const div eq floor ge gt index isfinite le lt maximum minimum mod mul mulz ne neg "
    "not or relu round select sign size sqrt sub sub_error "
)
ARITHMETIC = frozenset(_CHEAP.split())
PRODUCTS = (2, 3, 4, -1)  # exponents of powers that are products


@dataclass(slots=True)
class _Count:
    program: KernelProgram
    sizes: Mapping[str, int]
    big: frozenset[str] = frozenset()
    sweeps: int = 0
    exps: float = 0.0
    reads: float = 0.0
    writes: float = 0.0
    bytes: float = 0.0
    numbers: Numbering | None = None  # of the phase
    computed: set[int] = field(default_factory=set)  # what it has computed
    outside: dict[str, Value] = field(default_factory=dict)  # values that lie in memory
    views: set[str] = field(default_factory=set)  # those that are buffers as they are

    def elements(self, axes: Sequence[str]) -> float:
        return float(prod(self.sizes.get(a, self.sizes.get(base_axis(a), SIZE)) for a in axes))

    def read(self, elements: float, dtype: str) -> None:
        self.reads += elements
        self.bytes += elements * BYTES[dtype]

    def write(self, elements: float, dtype: str) -> None:
        self.writes += elements
        self.bytes += elements * BYTES[dtype]


def count(program: KernelProgram, sizes: Mapping[str, int] | None = None) -> Cost:
    """The cost per element of the largest input; axes without a size count as 1024."""
    c = _Count(program, dict(sizes or {}))
    inputs = [b for b in program.buffers if b.role == "in"]
    largest: Buffer | None = max(inputs, key=lambda b: c.elements(b.axes), default=None)
    c.big = frozenset(largest.axes if largest else ())
    lasting = _lasting(program)
    fixed = frozenset(b.name for b in program.buffers if b.role in ("in", "param"))
    for s in program.body:
        if isinstance(s, Loop):
            _phase(c, s, lasting)
            c.numbers, c.computed = Numbering(fixed, lambda op: op not in ARITHMETIC), set()
        else:
            _whole(c, s)
            c.numbers = None
        _work(c, s, (), 1)
    n = max(c.elements(largest.axes), 1.0) if largest else 1.0
    return Cost(c.sweeps, c.reads / n, c.writes / n, c.exps / n, c.bytes / n)


def statements(body: Sequence[Stmt]) -> list[Stmt]:
    """Every statement, those in loops included, in order; loops themselves are left out."""
    found: list[Stmt] = []
    for s in body:
        found += statements((*s.head, *s.body)) if isinstance(s, Loop) else [s]
    return found


def values_of(s: Stmt) -> tuple[Value, ...]:
    """The values that a statement defines."""
    match s:
        case Reduce() | Island():
            return s.values
        case Let() | Load() | Scatter() | Pick():
            return (s.value,)
    return ()


def operands_of(s: Stmt) -> tuple[str, ...]:
    """The names of the values that a statement reads."""
    match s:
        case Let():
            names = s.args
        case Load():
            names = s.index
        case Reduce():
            names = (*s.args, *(() if s.where is None else (s.where,)))
        case Scatter():
            names = (s.arg, s.index)
        case Island():
            names = s.args
        case Pick():
            names = (s.source, *s.index)
        case Store():
            names = (s.value, *(() if s.where is None else (s.where,)))
        case _:
            names = ()
    return tuple(n for n in names if isinstance(n, str))


def _lasting(program: KernelProgram) -> set[str]:
    """The buffers that lie in memory: all but scratch that one phase both stores and loads."""
    names = {b.name for b in program.buffers if b.role != "scratch"}
    seen: dict[str, set[int]] = {}
    for phase, s in enumerate(program.body):
        for t in statements((s,)):
            if isinstance(t, Load | Store):
                seen.setdefault(t.buffer, set()).add(phase)
    return names | {name for name, phases in seen.items() if len(phases) > 1}


def _phase(c: _Count, loop: Loop, lasting: set[str]) -> None:
    """Memory traffic of an outermost loop."""
    loaded: dict[str, dict[tuple[str, ...], float]] = {}
    brought: set[str] = set()
    inside = statements((*loop.head, *loop.body))
    here = {v.name for s in inside for v in values_of(s)}
    buffers = {b.name: b for b in c.program.buffers}
    for s in inside:
        if isinstance(s, Load) and s.buffer in lasting:
            loaded.setdefault(s.buffer, {})[s.index] = c.elements(s.value.axes)
        if isinstance(s, Store) and s.buffer in lasting:
            c.write(c.elements(s.index), buffers[s.buffer].dtype)
        brought |= {n for n in operands_of(s) if n in c.outside and n not in here}
    for name, patterns in loaded.items():
        c.read(min(sum(patterns.values()), c.elements(buffers[name].axes)), buffers[name].dtype)
    for name in brought:
        c.read(c.elements(c.outside[name].axes), c.outside[name].dtype)
    for v in _published(loop):
        c.outside[v.name] = v
        if v.axes:
            c.write(c.elements(v.axes), v.dtype)


def _published(loop: Loop) -> list[Value]:
    """Values reduced over the loop's own axis: they are there when it has ended."""
    inside = statements((*loop.head, *loop.body))
    return [v for s in inside if isinstance(s, Reduce | Scatter) and loop.axis in s.axes for v in values_of(s)]


def _whole(c: _Count, s: Stmt) -> None:
    """Memory traffic of a statement outside all loops."""
    for v in values_of(s):
        c.outside[v.name] = v
    buffers = {b.name: b for b in c.program.buffers}
    if isinstance(s, Load) and all(i in c.program.axes for i in s.index):
        return  # the buffer itself
    if isinstance(s, Load):
        c.read(c.elements(s.value.axes), s.value.dtype)
    if isinstance(s, Store) and s.where is None and isinstance(s.value, str) and _covers(c, s):
        return  # the value becomes the buffer
    for name in operands_of(s):
        if name in c.outside:
            c.read(c.elements(c.outside[name].axes), c.outside[name].dtype)
    if isinstance(s, Store):
        c.write(c.elements(s.index), buffers[s.buffer].dtype)
    for v in values_of(s):
        c.write(c.elements(v.axes), v.dtype)


def _covers(c: _Count, s: Store) -> bool:
    return isinstance(s.value, str) and set(c.outside[s.value].axes) == set(s.index)


def _work(c: _Count, s: Stmt, bound: tuple[str, ...], times: int) -> None:
    """Sweeps over the largest input, and transcendentals."""
    if isinstance(s, Loop):
        inner = (*bound, s.axis)
        if not c.big <= set(bound) and c.big <= set(inner):
            c.sweeps += 1
        for t in (*s.head, *s.body):
            _work(c, t, inner, times)
        return
    axes = {a for v in values_of(s) for a in v.axes} | set(bound)
    if isinstance(s, Reduce | Scatter):
        axes |= set(s.axes)
    if isinstance(s, Store):
        axes |= set(s.index)
    view = isinstance(s, Load) and not bound
    if c.big and not c.big <= set(bound) and c.big <= axes and not view and not _returns(c, s):
        c.sweeps += 1
    if isinstance(s, Let | Load) and not _alike(c, s) and isinstance(s, Let) and is_transcendental(s):
        c.exps += times * c.elements(s.value.axes)
    if isinstance(s, Reduce) and s.reduction == "logsumexp":
        c.exps += times * c.elements(tuple({*s.values[0].axes, *s.axes}))
        if c.numbers is not None:
            c.numbers.reduce(s)
    if isinstance(s, Island):
        for t in s.body:
            _work(c, t, bound, times * ROOT_STEPS)


def is_transcendental(s: Let) -> bool:
    """Whether a statement costs more than some products."""
    if s.op == "pow" and not isinstance(s.args[1], str) and s.args[1] in PRODUCTS:
        return False
    return s.op not in ARITHMETIC


def _alike(c: _Count, s: Let | Load) -> bool:
    """Whether this phase has computed the same before."""
    if c.numbers is None:
        return False
    k = c.numbers.define(s)
    again = k in c.computed or c.numbers.exponential(k) is not None
    c.computed.add(k)
    return again


def _returns(c: _Count, s: Stmt) -> bool:
    return isinstance(s, Store) and s.where is None
