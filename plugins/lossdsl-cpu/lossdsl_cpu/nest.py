"""The plain printer: any nest of loops as it stands, with states of reductions as structs. Right everywhere; the
layouts of `rows.py` are quicker where they apply."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from lossdsl.backends.api import (
    Buffer,
    KernelProgram,
    Let,
    Load,
    Loop,
    NotSupportedError,
    Operand,
    Pick,
    Reduce,
    Scatter,
    Stmt,
    Store,
    Value,
)
from lossdsl_cpu.cxx import TYPES, Term, constant, expression, identifier, operand, real

STATES = {"sum": "Sum", "prod": "Prod", "max": "Max", "min": "Min", "count": "Sum", "argmax": "Argmax"}
STATES |= {"logsumexp": "Lse", "ties": "Ties"}
ARRAYS = {"bool": "int"}  # a loop that reads an array of bools isn't vectorised


@dataclass(frozen=True, slots=True)
class Array:
    """A value kept in memory over axes that no loop binds."""

    text: str
    axes: tuple[str, ...]
    dtype: str


@dataclass(slots=True)
class Nest:
    """The state of printing one program: lines so far, what is bound and named."""

    program: KernelProgram
    lines: list[str] = field(default_factory=list)
    depth: int = 1
    names: dict[str, Term] = field(default_factory=dict)
    arrays: dict[str, Array] = field(default_factory=dict)
    bound: list[str] = field(default_factory=list)
    states: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)  # first result -> state, free axes
    rows: Callable[[Nest, Loop], bool] = lambda nest, loop: False  # prints an outermost loop in a quicker layout

    def say(self, line: str) -> None:
        self.lines.append("  " * self.depth + line)

    def open(self, line: str) -> None:
        self.say(line + " {")
        self.depth += 1

    def begin(self) -> None:
        self.say("{")
        self.depth += 1

    def close(self) -> None:
        self.depth -= 1
        self.say("}")

    def buffer(self, name: str) -> Buffer:
        return next(b for b in self.program.buffers if b.name == name)

    def term(self, x: Operand, dtype: str = "number") -> Term:
        """An operand here; an array's entry by the indices of the loops around."""
        if isinstance(x, str) and x in self.arrays:
            a = self.arrays[x]
            return Term(f"{a.text}[{flat(a.axes)}]", a.dtype)
        return operand(x, self.names, dtype)

    def terms(self, args: Sequence[Operand]) -> dict[str, Term]:
        return {a: self.term(a) for a in args if isinstance(a, str)}


def extent(axis: str) -> str:
    """The field of `Call` with an axis' size."""
    return f"n_{identifier(axis)}"


def at(axis: str) -> str:
    """The variable of an axis' loop."""
    return f"i_{identifier(axis)}"


def flat(axes: Sequence[str], index: dict[str, str] | None = None) -> str:
    """The place in a contiguous array over axes."""
    text = ""
    for axis in axes:
        here = (index or {}).get(axis, at(axis))
        text = (
            f"({text}) * k.{extent(axis)} + {here}"
            if "+" in text
            else f"{text} * k.{extent(axis)} + {here}"
            if text
            else here
        )
    return text or "0"


def count(axes: Sequence[str]) -> str:
    return " * ".join(f"k.{extent(a)}" for a in axes) or "1"


def element(nest: Nest, b: Buffer, index: Sequence[str]) -> str:
    """A pointer to an element of a buffer."""
    name = identifier(b.name)
    text = f"k.{name}"
    for axis, i in zip(b.axes, index, strict=True):
        here = at(i) if i in nest.program.axes else nest.term(i).text
        text += f" + {here} * k.{name}_{identifier(axis)}"
    return text


def loaded(b: Buffer, pointer: str) -> str:
    """The value at a pointer into an in, param or scratch buffer, in the arithmetic's type."""
    if b.dtype == "real":
        return f"(R)as_float(*({pointer}))"
    return f"({TYPES[b.dtype]})*({pointer})"


def subtree(body: Sequence[Stmt]) -> Iterator[Stmt]:
    """Every statement in a body, those of loops included."""
    for s in body:
        yield s
        if isinstance(s, Loop):
            yield from subtree(s.head)
            yield from subtree(s.body)


def block(nest: Nest, body: Sequence[Stmt]) -> None:
    """Print statements within the loops that are open."""
    for s in body:
        match s:
            case Loop():
                loop(nest, s)
            case Let() | Load() | Pick():
                define(nest, s)
            case Reduce() | Scatter():
                reduction(nest, s)
            case Store():
                store(nest, s)
            case _:
                raise NotSupportedError(f"the island {s.op!r}")


def define(nest: Nest, s: Let | Load | Pick) -> None:
    free = [a for a in s.value.axes if a not in nest.bound]
    name, kind = identifier(s.value.name), TYPES[s.value.dtype]
    if free:
        kind = ARRAYS.get(s.value.dtype, kind)
        nest.say(f"{kind} *{name} = arena.raw<{kind}>({count(free)});")
        with_loops(nest, free, lambda: nest.say(f"{name}[{flat(free)}] = {right(nest, s)};"))
        nest.arrays[s.value.name] = Array(name, tuple(free), s.value.dtype)
        return
    nest.say(f"const {kind} {name} = {right(nest, s)};")
    nest.names[s.value.name] = Term(name, s.value.dtype)


def right(nest: Nest, s: Let | Load | Pick) -> str:
    """The right side of a definition."""
    if isinstance(s, Load):
        b = nest.buffer(s.buffer)
        text = loaded(b, element(nest, b, s.index))
        return f"(R)({text})" if s.value.dtype == "real" and b.dtype != "real" else text
    if isinstance(s, Pick):
        a = nest.arrays.get(s.source)
        if a is None or any(x not in a.axes for x in s.axes):
            raise NotSupportedError(f"a pick from {s.source!r} within the loop that computes it")
        index = {
            x: at(i) if i in nest.program.axes else nest.term(i).text for x, i in zip(s.axes, s.index, strict=True)
        }
        return f"{a.text}[{flat(a.axes, index)}]"
    if s.op == "index":
        return at(str(s.attrs[0]))
    if s.op == "size":
        return f"k.{extent(str(s.attrs[0]))}"
    return expression(s.op, s.args, nest.terms(s.args), s.value.dtype)


def with_loops(nest: Nest, axes: Sequence[str], body: object) -> None:
    """Loops over axes around what `body` prints."""
    assert callable(body)
    for axis in axes:
        nest.open(f"for (long {at(axis)} = 0; {at(axis)} < k.{extent(axis)}; ++{at(axis)})")
        nest.bound.append(axis)
    body()
    for _ in axes:
        nest.close()
        nest.bound.pop()


def state_type(s: Reduce | Scatter, dtypes: str) -> str:
    """The struct of a reduction's state."""
    if isinstance(s, Scatter):
        return f"Sum<{TYPES[s.value.dtype]}>"
    if s.reduction not in STATES or (s.reduction == "logsumexp" and len(s.values) != 2):
        raise NotSupportedError(f"the reduction {s.reduction!r}")
    kind = {"argmax": "R", "count": "long", "logsumexp": "R", "ties": "R"}.get(s.reduction, TYPES[dtypes])
    if s.reduction in ("sum", "max", "min", "prod") and kind == "bool":
        kind = "long"
    if s.reduction == "prod" and kind == "long":
        raise NotSupportedError("a product of whole numbers")
    return f"{STATES[s.reduction]}<{kind}>"


def results(s: Reduce | Scatter) -> tuple[tuple[Value, str], ...]:
    """Each value of a reduction with the expression that gives it from the state."""
    if isinstance(s, Scatter):
        return ((s.value, "result()"),)
    if s.reduction == "logsumexp":
        return ((s.values[0], "top()"), (s.values[1], "others()"))
    if s.reduction == "ties":
        return tuple(zip(s.values, ("v", "n"), strict=True))
    return ((s.values[0], "result()"),)


def first(s: Reduce | Scatter) -> Value:
    return s.value if isinstance(s, Scatter) else s.values[0]


def update(nest: Nest, s: Reduce | Scatter, state: str, free: tuple[str, ...]) -> None:
    """Add the entry of the indices around to a state."""
    if isinstance(s, Scatter):
        place = flat(free, {s.axis: nest.term(s.index).text})
        value = nest.term(s.arg)
        nest.say(f"{state}[{place}].add({real(value) if s.value.dtype == 'real' else value.text});")
        return
    place = f"{state}[{flat(free)}]" if free else state
    if s.reduction == "count":
        t = nest.term(s.args[0])
        text = "1" if not isinstance(s.args[0], str) else f"{t.text} != 0 ? 1 : 0" if t.dtype != "bool" else t.text
    elif s.reduction == "argmax":
        text = f"{real(nest.term(s.args[0]))}, {at(s.axes[0])}"
    else:
        dtype = first(s).dtype if s.reduction in ("sum", "max", "min", "prod") else "real"
        t = nest.term(s.args[0])
        text = real(t) if dtype == "real" else f"(long){t.text}"
    guard = "" if s.where is None else f"if ({nest.term(s.where, 'bool').text}) "
    nest.say(f"{guard}{place}.add({text});")


def reduction(nest: Nest, s: Reduce | Scatter) -> None:
    """A reduction: its update, where a loop around gave it a state; its own loops where none does."""
    key = first(s).name
    open_axes = [a for a in s.axes if a in nest.bound]
    closed = [a for a in s.axes if a not in nest.bound]
    if open_axes:
        state, free = nest.states[key]
        inner = [
            a
            for a in first(s).axes
            if a in free and a not in nest.bound and not (isinstance(s, Scatter) and a == s.axis)
        ]
        with_loops(nest, [*inner, *closed], lambda: update(nest, s, state, free))
        return
    free = tuple(a for a in first(s).axes if a not in nest.bound)
    declare(nest, s, free, "")
    state = nest.states[key][0]
    inner = [a for a in free if not (isinstance(s, Scatter) and a == s.axis)]
    with_loops(nest, [*inner, *closed], lambda: update(nest, s, state, free))
    conclude(nest, s)


def declare(nest: Nest, s: Reduce | Scatter, free: tuple[str, ...], blocks: str) -> None:
    state = f"{identifier(first(s).name)}_state"
    kind = state_type(s, first(s).dtype)
    if free or blocks:
        many = count(free) if not blocks else f"{blocks} * {count(free)}"
        nest.say(f"{kind} *{state} = arena.get<{kind}>({many});")
    else:
        nest.say(f"{kind} {state};")
    nest.states[first(s).name] = (state, free)


def conclude(nest: Nest, s: Reduce | Scatter) -> None:
    """The values of a reduction whose loops have ended."""
    state, free = nest.states.pop(first(s).name)
    for v, text in results(s):
        name, kind = identifier(v.name), TYPES[v.dtype]
        if free:
            kind = ARRAYS.get(v.dtype, kind)
            nest.say(f"{kind} *{name} = arena.raw<{kind}>({count(free)});")
            place = f"{state}[{flat(free)}]"
            with_loops(
                nest, free, lambda n=name, k=kind, t=text, p=place: nest.say(f"{n}[{flat(free)}] = ({k}){p}.{t};")
            )
            nest.arrays[v.name] = Array(name, free, v.dtype)
        else:
            nest.say(f"const {kind} {name} = ({kind}){state}.{text};")
            nest.names[v.name] = Term(name, v.dtype)


def store(nest: Nest, s: Store) -> None:
    free = [i for i in s.index if i in nest.program.axes and i not in nest.bound]
    with_loops(nest, free, lambda: put(nest, s))


def put(nest: Nest, s: Store, otherwise: bool = False) -> None:
    b = nest.buffer(s.buffer)
    kind = "real" if b.dtype == "real" else b.dtype

    def cast(t: Term) -> str:
        return real(t) if kind == "real" else f"({TYPES[kind]}){t.text}"

    other = cast(constant(s.otherwise, kind))
    if otherwise:
        value = other
    else:
        value = cast(nest.term(s.value, kind))
        if s.where is not None:
            value = f"{nest.term(s.where, 'bool').text} ? {value} : {other}"
    nest.say(f"put({value}, {element(nest, b, s.index)});")


def outer_reductions(nest: Nest, s: Loop) -> list[Reduce | Scatter]:
    """The reductions below a loop that have their values after it: it is the outermost over one of their axes."""
    return [
        r
        for r in subtree((*s.head, *s.body))
        if isinstance(r, Reduce | Scatter) and s.axis in r.axes and not any(a in nest.bound for a in r.axes)
    ]


def loop(nest: Nest, s: Loop) -> None:
    """A loop; an outermost one in parallel, by blocks of rows whose states are merged in order."""
    outermost = not nest.bound
    if outermost:
        rows = nest.rows(nest, s)
        if rows:
            return
    reductions = outer_reductions(nest, s)
    i, n = at(s.axis), f"k.{extent(s.axis)}"
    free = {first(r).name: tuple(a for a in first(r).axes if a not in nest.bound) for r in reductions}
    if outermost:
        size = " + ".join([count(f) for f in free.values()] or ["0"])
        blocks = f"blocks_{len(nest.lines)}"
        nest.say(f"const long {blocks} = block_count({n}, {size});")
        for r in reductions:
            declare(nest, r, free[first(r).name], blocks)
        axes = {s.axis, *(x.axis for x in subtree(s.body) if isinstance(x, Loop))}
        work = count([a for a in nest.program.axes if a in axes])
        nest.say(f"#pragma omp parallel for schedule(static) if ({work} > 16384)")
        nest.open(f"for (long b = 0; b < {blocks}; ++b)")
        nest.open(f"for (long {i} = {n} * b / {blocks}; {i} < {n} * (b + 1) / {blocks}; ++{i})")
        for r in reductions:
            state, axes_of = nest.states[first(r).name]
            own = f"(*({state} + b))" if not axes_of else f"({state} + b * {count(axes_of)})"
            nest.states[first(r).name] = (own, axes_of)
    else:
        for r in reductions:
            declare(nest, r, free[first(r).name], "")
        nest.open(f"for (long {i} = 0; {i} < {n}; ++{i})")
    if any(unbound_arrays([*nest.bound, s.axis], x) for x in (*s.head, *s.body)):
        nest.say("Arena arena;")
    nest.bound.append(s.axis)
    outer = dict(nest.names), dict(nest.arrays)
    block(nest, s.head)
    if s.guard is not None:
        nest.open(f"if ({nest.term(s.guard).text})")
        block(nest, s.body)
        nest.close()
        if any(isinstance(x, Store) for x in subtree(s.body)):
            nest.lines[-1] += " else {"
            nest.depth += 1
            elsewhere(nest, s.body)
            nest.close()
    else:
        block(nest, s.body)
    nest.names, nest.arrays = outer
    nest.bound.pop()
    nest.close()
    if outermost:
        nest.close()
        for r in reductions:
            state, axes_of = nest.states[first(r).name]
            plain = state.removeprefix("(*(").removeprefix("(").split(" +")[0]
            many = count(axes_of)
            nest.open(f"for (long b = 1; b < {blocks}; ++b)")
            nest.say(f"for (long j = 0; j < {many}; ++j) {plain}[j].merge({plain}[b * {many} + j]);")
            nest.close()
            nest.states[first(r).name] = (plain if axes_of else f"{plain}[0]", axes_of)
    for r in reductions:
        conclude(nest, r)


def unbound_arrays(bound: Sequence[str], s: Stmt) -> bool:
    """Whether a statement of this block needs memory of its own."""
    if isinstance(s, Loop):
        inner = [*bound, s.axis]
        return any(
            isinstance(r, Reduce | Scatter)
            and s.axis in r.axes
            and not any(a in bound for a in r.axes)
            and any(a not in bound for a in first(r).axes)
            for r in subtree((*s.head, *s.body))
            if inner
        )
    if isinstance(s, Reduce | Scatter):
        return not any(a in bound for a in s.axes) and any(a not in bound for a in first(s).axes)
    return isinstance(s, Let | Load | Pick) and any(a not in bound for a in s.value.axes)


def elsewhere(nest: Nest, body: Sequence[Stmt]) -> None:
    """The stores of a body where its guard is false."""
    for s in body:
        if isinstance(s, Store):
            free = [i for i in s.index if i in nest.program.axes and i not in nest.bound]
            with_loops(nest, free, lambda s=s: put(nest, s, otherwise=True))
        elif isinstance(s, Loop) and any(isinstance(x, Store) for x in subtree(s.body)):
            with_loops(nest, [s.axis], lambda s=s: elsewhere(nest, s.body))
