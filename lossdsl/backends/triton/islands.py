"""What needs the whole of a row at once, in the kernel that has it on chip: orders, sums so far, picks, roots."""

from __future__ import annotations

from collections.abc import Callable

from lossdsl.backends.api import Island, Let, Load, NotSupportedError, Pick, Reduce
from lossdsl.backends.triton.arguments import cols, size
from lossdsl.backends.triton.printer import Printer
from lossdsl.backends.triton.spell import Term, identifier, real, tensor, whole
from lossdsl.backends.triton.stages import operands

STEPS = {"float64": 64, "float32": 40}  # halvings of a bracket


def tile(p: Printer, text: str, axis: str) -> str:
    """The text of a value as a tile of rows and of an axis, whatever it has of them."""
    return f"tl.broadcast_to({text}, (R, B_{identifier(axis)}))"


def island(p: Printer, s: Island) -> None:
    """A sum so far, or an order, within a sweep over its axis."""
    axis = str(s.attrs[0])
    ok = f"ok_{identifier(axis)}"
    if s.op == "cumsum":
        t = p.term(s.args[0])
        where = f"{ok} & {p.term(s.args[1]).text}" if len(s.args) == 2 else ok
        x = tensor(t, "real") if t.dtype == "real" else whole(t)
        kept = tile(p, f"tl.where({where}, {x}, 0)", axis)
        p.bind(
            s.values[0].name,
            f"tl.cumsum({kept}, 1, reverse={True in s.attrs[1:]})",
            "real" if t.dtype == "real" else "int",
            frozenset(s.values[0].axes),
        )
        return
    rank, down = str(s.attrs[1]), bool(s.attrs[2])
    t = p.term(s.args[0])
    key = tile(p, real(t), axis)
    present = p.term(s.args[1]).text if len(s.args) == 2 else ok
    kind = f"order_({key}, {tile(p, present, axis)}, {tile(p, ok, axis)}, {down})"
    if rank.rstrip("'") != axis.rstrip("'"):
        kind = f"at_({kind}, {tile(p, cols(rank), rank)}, {size(axis)})"
    p.bind(s.values[0].name, kind, "int", frozenset(s.values[0].axes))


def pick(p: Printer, s: Pick) -> None:
    """Entries of a row's values: the same along a copy of the axis, one, or one for each of another axis."""
    (axis,), (index,) = s.axes, s.index
    source, v = p.names[s.source], s.value
    axes = frozenset(v.axes)
    if index == axis or (index not in p.names and index.rstrip("'") == axis.rstrip("'")):
        p.names[v.name] = Term(source.text, source.dtype, axes)
        return
    if index not in p.names and index not in p.stage.rows:
        p.bind(v.name, f"at_({tile(p, source.text, axis)}, {tile(p, cols(index), index)}, {size(axis)})", v.dtype, axes)
        return
    at = p.names[index] if index in p.names else Term(p.row(index), "int", frozenset({index}))
    column = next((a for a in at.axes if a not in p.stage.rows), None)
    if column is None:
        kept = real(source) if source.dtype == "real" else whole(source)
        mask = f"{cols(axis)} == {whole(at)}"
        text = f"tl.sum(tl.where({mask}, {kept}, 0), 1, keep_dims=True)"
        if v.dtype == "bool":
            text += " != 0"
    else:
        text = f"at_({tile(p, source.text, axis)}, {tile(p, whole(at), column)}, {size(axis)})"
    p.bind(v.name, text, v.dtype, axes)


def root(p: Printer, s: Island, function: Callable[[str], None]) -> None:
    """Where a function of each row, which rises or falls within a bracket, is 0: by halving that. The first turn
    evaluates it at the lower end, which says whether it rises. `function` prints the statements of the function's body,
    given a name that no other has."""
    name, unknown = identifier(s.values[0].name), identifier(s.bound[0].name)
    low, high, rises, exact = (f"{name}_{part}" for part in ("low", "high", "rises", "exact"))
    for end, x in ((low, s.args[0]), (high, s.args[1])):
        p.say(f"{end} = tl.broadcast_to({tensor(p.term(x), 'real')}, (R, 1))")
    p.say(f"{unknown} = {low}")
    p.say(f"{rises} = {low} != {low}")
    p.say(f"{exact} = {rises}")
    steps = f"{STEPS['float64']} if REAL == tl.float64 else {STEPS['float32']}"
    p.say(f"for {name}_step in range(0, 1 + ({steps})):")
    p.depth += 1
    outer, around = dict(p.names), p.axis
    p.names[s.bound[0].name] = Term(unknown, "real", frozenset(s.values[0].axes))
    function(name)
    f = f"{name}_f"
    p.say(f"{f} = tl.broadcast_to({tensor(p.term(s.args[2]), 'real')}, (R, 1))")
    p.say(f"{rises} = tl.where({name}_step == 0, {f} < 0.0, {rises})")
    p.say(f"{exact} = tl.where({name}_step == 0, {f} == 0.0, {exact})")
    p.say(f"{name}_beyond = tl.where({rises}, {f} >= 0.0, {f} <= 0.0) & ({name}_step > 0)")
    p.say(f"{high} = tl.where({name}_beyond, {unknown}, {high})")
    p.say(f"{low} = tl.where({name}_beyond, {low}, {unknown})")
    p.say(f"{unknown} = {low} + ({high} - {low}) * 0.5")
    p.depth -= 1
    p.names, p.axis = outer, around
    lower = f"{name}_left"
    p.say(f"{lower} = tl.broadcast_to({tensor(p.term(s.args[0]), 'real')}, (R, 1))")
    p.bind(s.values[0].name, f"tl.where({exact}, {lower}, {high})", "real", frozenset(s.values[0].axes))


def body_on_chip(p: Printer, s: Island) -> None:
    """The body of a root's function where its row is on chip."""
    p.axis = str(s.attrs[0]) or None
    for t in s.body:
        if isinstance(t, Reduce):
            p.reduce(t)
        elif isinstance(t, Let | Load):
            p.plain(t)
        else:
            raise NotSupportedError(f"a {type(t).__name__.lower()} within the function of a root")


def levels(s: Island) -> list[tuple[list[Let | Load], list[Let | Load | Reduce]]]:
    """The body of a root's function as sweeps along its row: before each what is a value of the row, then what the
    sweep computes for each entry, which is its reductions and all that they hang on."""
    axis = str(s.attrs[0])
    level: dict[str, int] = {}
    made: dict[str, Let | Load | Reduce] = {}
    found: list[tuple[list[Let | Load], list[Let | Load | Reduce]]] = [([], [])]
    for t in s.body:
        if not isinstance(t, Let | Load | Reduce):
            raise NotSupportedError(f"a {type(t).__name__.lower()} within the function of a root")
        at = max((level.get(x, 0) for x in operands(t) if isinstance(x, str)), default=0)
        values = t.values if isinstance(t, Reduce) else (t.value,)
        made |= {v.name: t for v in values}
        level |= {v.name: at + isinstance(t, Reduce) for v in values}
        while len(found) <= at + isinstance(t, Reduce):
            found.append(([], []))
        if isinstance(t, Reduce):
            found[at][1].append(t)
        elif axis not in t.value.axes:
            found[at][0].append(t)
    for row, sweep in found:
        needed: set[int] = set()
        todo: list[Let | Load | Reduce] = list(sweep)
        while todo:
            t = todo.pop()
            for x in operands(t):
                u = made.get(x) if isinstance(x, str) else None
                if isinstance(u, Let | Load) and id(u) not in needed and u not in row and axis in u.value.axes:
                    needed.add(id(u))
                    todo.append(u)
        sweep[:0] = [t for t in s.body if isinstance(t, Let | Load) and id(t) in needed]
    return found
