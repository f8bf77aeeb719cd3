"""Reductions in the plain printer: their states as structs, what an entry adds, the values at the end."""

from __future__ import annotations

from lossdsl.backends.api import Loop, NotSupportedError, Reduce, Scatter, Value
from lossdsl_cpu.cxx import ARRAYS, TYPES, Term, identifier, real
from lossdsl_cpu.scope import Array, Nest, at, flat, room, subtree, with_loops

STATES = {"sum": "Sum", "prod": "Prod", "max": "Max", "min": "Min", "count": "Sum", "argmax": "Argmax"}
STATES |= {"logsumexp": "Lse", "ties": "Ties"}


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


def update(nest: Nest, s: Reduce | Scatter, state: str, free: tuple[str, ...], method: str = "add") -> None:
    """Add the entry of the indices around to a state, or call another method of it."""
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
    nest.say(f"{guard}{place}.{method}({text});")


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
    if isinstance(s, Reduce) and s.reduction == "logsumexp":  # relative to the maximum as each e^(z - m) is: rows of
        with_loops(nest, [*inner, *closed], lambda: update(nest, s, state, free, "see"))  # p - q then sum to 0
    with_loops(nest, [*inner, *closed], lambda: update(nest, s, state, free))
    conclude(nest, s)


def declare(nest: Nest, s: Reduce | Scatter, free: tuple[str, ...], blocks: str) -> None:
    state = f"{identifier(first(s).name)}_state"
    kind = state_type(s, first(s).dtype)
    if free or blocks:
        many = room(free, *([blocks] if blocks else []))
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
            cell = ARRAYS[v.dtype]
            nest.say(f"{cell} *{name} = arena.raw<{cell}>({room(free)});")
            place = f"{state}[{flat(free)}]"
            with_loops(
                nest, free, lambda n=name, k=kind, t=text, p=place: nest.say(f"{n}[{flat(free)}] = ({k}){p}.{t};")
            )
            nest.arrays[v.name] = Array(name, free, v.dtype)
        else:
            nest.say(f"const {kind} {name} = ({kind}){state}.{text};")
            nest.names[v.name] = Term(name, v.dtype)


def outer_reductions(nest: Nest, s: Loop) -> list[Reduce | Scatter]:
    """The reductions below a loop that have their values after it: it is the outermost over one of their axes."""
    return [
        r
        for r in subtree((*s.head, *s.body))
        if isinstance(r, Reduce | Scatter) and s.axis in r.axes and not any(a in nest.bound for a in r.axes)
    ]
