"""The plain printer: any nest of loops as it stands, with states of reductions as structs. Right everywhere; the
layouts of `rows.py` are quicker where they apply."""

from __future__ import annotations

from collections.abc import Sequence

from lossdsl.backends.api import Let, Load, Loop, NotSupportedError, Pick, Reduce, Scatter, Stmt, Store
from lossdsl_cpu.cxx import ARRAYS, TYPES, Term, constant, expression, identifier, real
from lossdsl_cpu.reducing import conclude, declare, first, outer_reductions, reduction, update
from lossdsl_cpu.scope import Array, Nest, at, count, element, extent, flat, loaded, picked, room, subtree, with_loops


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
        cell = ARRAYS[s.value.dtype]
        nest.say(f"{cell} *{name} = arena.raw<{cell}>({room(free)});")
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
        return picked(nest, s)
    if s.op == "index":
        return at(str(s.attrs[0]))
    if s.op == "size":
        return f"k.{extent(str(s.attrs[0]))}"
    return expression(s.op, s.args, nest.terms(s.args), s.value.dtype)


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
        start = len(nest.lines)
        nest.open(f"for (long b = 0; b < {blocks}; ++b)")
        nest.open(f"for (long {i} = {n} * b / {blocks}; {i} < {n} * (b + 1) / {blocks}; ++{i})")
        for r in reductions:
            state, axes_of = nest.states[first(r).name]
            own = f"(*({state} + b))" if not axes_of else f"({state} + b * {count(axes_of)})"
            nest.states[first(r).name] = (own, axes_of)
    else:
        for r in reductions:
            declare(nest, r, free[first(r).name], "")
        maxima_first(nest, s, free)
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
        if any("Arena arena;" in line for line in nest.lines[start:]):
            nest.lines[start] = nest.lines[start].replace(" {", " try {")
            nest.lines[-1] += " catch (const Refusal &x) { status.note(x.status); }"
            nest.say("if (status) return;")
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


def maxima_first(nest: Nest, s: Loop, free: dict[str, tuple[str, ...]]) -> None:
    """A loop ahead of this one, in which its log-sum-exps that go along with other sums see their maxima: a term added
    before would be relative to an earlier one, and rounded otherwise than e^(z - m) is elsewhere."""
    own = [x for x in (*s.head, *s.body) if isinstance(x, Let | Load | Pick)]
    other = {v.name for x in subtree(s.body) if isinstance(x, Reduce) for v in x.values}
    other |= {x.value.name for x in subtree(s.body) if isinstance(x, Scatter)}
    other |= {x.value.name for x in own if any(a not in (*nest.bound, s.axis) for a in x.value.axes)}
    for r in s.body if s.guard is None else ():
        if not isinstance(r, Reduce) or r.reduction != "logsumexp" or free.get(first(r).name) != () or len(r.axes) > 1:
            continue
        wanted = {r.args[0], r.where}
        for x in reversed(own):
            if x.value.name in wanted:
                wanted |= {*x.args} if isinstance(x, Let) else {*x.index, *([x.source] if isinstance(x, Pick) else ())}
        if wanted & other:  # there is no maximum before this loop has made what it is of
            continue
        state = nest.states[first(r).name][0]
        nest.open(f"for (long {at(s.axis)} = 0; {at(s.axis)} < k.{extent(s.axis)}; ++{at(s.axis)})")
        nest.bound.append(s.axis)
        outer = dict(nest.names), dict(nest.arrays)
        block(nest, [x for x in own if x.value.name in wanted])
        update(nest, r, state, (), "see")
        nest.names, nest.arrays = outer
        nest.bound.pop()
        nest.close()


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
