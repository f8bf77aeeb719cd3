"""The reductions of a sweep: their states over a block, what an element adds, how simd merges them."""

from __future__ import annotations

from collections.abc import Sequence

from lossdsl.backends.api import Let, Load, NotSupportedError, Operand, Reduce, Store
from lossdsl_cpu.cxx import identifier, real
from lossdsl_cpu.element import Run, cone, elements, masked, pointer
from lossdsl_cpu.reducing import state_type
from lossdsl_cpu.rows import Sweep
from lossdsl_cpu.scope import padded
from lossdsl_cpu.tile import column_merged, column_start, column_type, look, state_names, stored


def body(run: Run) -> None:
    """Element values, reductions and stores of a sweep, in the order of the program."""
    s = run.sweep
    live = {id(x) for x in s.live}
    for x in s.body:
        match x:
            case Let() | Load():
                if id(x) in live:
                    elements(run, [x])
                    if x.value.name in s.kept:
                        run.say(f"{run.kept(identifier(x.value.name) + '_kept')} = {identifier(x.value.name)};")
            case Reduce():
                add(run, x)
            case Store():
                guard = run.names[run.tile.rows.guard].text if run.tile.rows.guard and run.lanes else ""
                b = run.tile.nest.buffer(x.buffer)
                here = run.lanes or x.buffer in run.tile.views  # a view goes on beyond the row's end
                line = f"put({stored(run.tile, x, run.names, guard)}, {pointer(run, b, x.index)});"
                run.say(line if here else f"if (j < left) {line}")


def column(run: Run, r: Reduce) -> None:
    """One entry more in a reduction over the rows, for the element of the loop around."""
    a, n = state_names(r), padded(run.sweep.axis)
    t = look(run.tile, r.args[0], run.names)
    x = {"double": f"(double){real(t)}", "R": real(t)}.get(column_type(r), f"(long){t.text}")
    if r.reduction == "count":
        x = "1" if not isinstance(r.args[0], str) else f"(long)({t.text} != 0)"
    conditions = run.inside(r, beyond=False)  # what is beyond the row's end has a place of its own, which nothing reads
    if run.lanes:
        conditions = ["l < n", *([run.names[run.tile.rows.guard].text] if run.tile.rows.guard else []), *conditions]
    x = f"({' & '.join(conditions)} ? {x} : {column_start(r)})" if conditions else x
    run.say(column_merged(r, f"{a}_v" if run.lanes else f"{a}_parts[b * {n} + {run.column}]", x))


def add(run: Run, r: Reduce) -> None:
    """One entry more in a reduction's state of this block."""
    if run.sweep.column(r):
        return column(run, r)
    a = state_names(r)
    t = look(run.tile, r.args[0], run.names)
    x = real(t)
    match r.reduction:
        case "sum" | "prod":
            neutral = "0" if r.reduction == "sum" else "1"
            sign = "+" if r.reduction == "sum" else "*"
            if r.values[0].dtype == "real":
                kind, state = ("", "_f") if grouped(r) else ("(double)", "_s")
                run.say(f"{run.acc(a + state)} {sign}= {kind}({masked(run, r, x, f'R({neutral})')});")
            else:
                run.say(f"{run.acc(a + '_s')} {sign}= {masked(run, r, f'(long){t.text}', f'{neutral}L')};")
        case "count":
            # no choice: a second one by the same condition would become a branch
            conditions = run.inside(r) if not isinstance(r.args[0], str) else [*run.inside(r), f"({t.text} != 0)"]
            run.say(f"{run.acc(a + '_s')} += {' & '.join(conditions) or '1'};")
        case "max" | "min":
            kind = "maximum" if r.reduction == "max" else "minimum"
            v = run.acc(a + "_s")
            x = x if r.values[0].dtype == "real" else f"(long){t.text}"
            conditions = run.inside(r, _beyond(run, r))
            # a choice of what is compared: a choice between the old state and a new one is a masked store, and reading
            # what such a store has written waits for the memory
            run.say(f"{v} = {kind}({v}, {_chosen(conditions, x, initial(r)[0][2])});")
        case "logsumexp":
            e, b = f"{a}_e", run.row(f"{a}_base")
            inside = "".join(f"{c} & " for c in run.inside(r))
            function = "exp" if r.where is not None else "exp_neg"
            run.say(f"const R {a}_gap = {x} - {b}, {e} = {function}({a}_gap);")
            if r.values[0].name in run.sweep.tilts:
                choice = f"{e} * not_far({a}_gap)"  # never 0·inf
                choice = f"{inside.removesuffix(' & ')} ? {choice} : R(0)" if inside else choice
                run.say(f"{run.acc(a + '_g')} += {choice};")
            if r.values[0].name in run.sweep.exps:
                run.say(f"{run.kept(a + '_exps')} = {e};")
            run.say(f"const bool {a}_at = {inside}({x} == {b});")
            term = f"{inside}(!{a}_at) ? {e} : R(0)" if inside else f"{a}_at ? R(0) : {e}"
            run.say(f"{run.acc(a + '_f')} += {term};")
            run.say(f"{run.acc(a + '_n')} += {a}_at;")
        case "ties":
            inside = "".join(f"{c} & " for c in run.inside(r))
            run.say(f"{run.acc(a + '_n')} += {inside}({x} == {run.row(a + '_top')});")
        case "argmax":
            inside = "".join(f"{c} & " for c in run.inside(r))
            v, place = run.acc(a + "_n"), f"{a}_place"
            run.say(f"const int {place} = {inside}({x} == {run.row(a + '_top')}) ? {run.column} : 2147483647;")
            run.say(f"{v} = {place} < {v} ? {place} : {v};")


def initial(r: Reduce, tilted: bool = False) -> list[tuple[str, str, str, str]]:
    """(suffix, type, start, how simd merges it) of a reduction's state over a block; `tilted`: with Σ e·(x - m)."""
    dtype = r.values[0].dtype
    match r.reduction:
        case "sum":
            return [("_s", "double", "0", "+")] if dtype == "real" else [("_s", "long", "0", "+")]
        case "prod":
            if dtype != "real":
                raise NotSupportedError("a product of whole numbers")
            return [("_s", "double", "1", "*")]
        case "count":
            return [("_s", "int", "0", "+")]
        case "max" | "min":
            kind = "R" if dtype == "real" else "long"
            sign = "-" if r.reduction == "max" else ""
            start = f"{sign}lim<R>::inf" if kind == "R" else f"{sign}9223372036854775807L"
            return [("_s", kind, start, "max_r" if r.reduction == "max" else "min_r")]
        case "logsumexp":
            more = [("_t", "double", "0", "+")] if tilted else []
            return [("_s", "double", "0", "+"), ("_n", "int", "0", "+"), *more]
        case "ties":
            return [("_n", "int", "0", "+")]
        case "argmax":
            return [("_n", "int", "2147483647", "min")]
    raise NotSupportedError(f"the reduction {r.reduction!r}")


def grouped(r: Reduce) -> bool:
    """Whether entries are added up as floats first, a few at a time: turning each into a double costs as much as an
    exponential, and each has been rounded to a float already."""
    return r.reduction == "logsumexp" or (r.reduction == "sum" and r.values[0].dtype == "real")


def groups(s: Sweep) -> list[tuple[str, str]]:
    """The sums of floats of a sweep, and the sums of doubles that they are added to."""
    found = []
    for r in state_rows(s):
        a = state_names(r)
        found += [(f"{a}_f", f"{a}_s")] if grouped(r) else []
        found += [(f"{a}_g", f"{a}_t")] if r.values[0].name in s.tilts else []
    return found


def state_rows(s: Sweep) -> list[Reduce]:
    """The reductions of a sweep that have a state for each row."""
    return [r for r in s.reductions if not s.column(r)]


def clauses(states: Sequence[tuple[str, str]]) -> str:
    """OpenMP clauses for states by how they merge."""
    by: dict[str, list[str]] = {}
    for name, how in states:
        by.setdefault(how, []).append(name)
    return "".join(f" reduction({how} : {', '.join(names)})" for how, names in by.items())


def row_state(r: Reduce, at_row: str) -> str:
    """The state of one row for a reduction over all rows."""
    a = state_names(r)
    kind = state_type(r, r.values[0].dtype)
    if r.reduction == "logsumexp":
        return f"{kind}{{{a}_top{at_row}, {a}_s{at_row} + ({a}_n{at_row} - 1)}}" if at_row else f"{a}_all"
    return f"{kind}{{{a}_s{at_row}}}"


def _chosen(conditions: Sequence[str], x: str, other: str) -> str:
    return f"({' & '.join(conditions)} ? {x} : {other})" if conditions else x


def _beyond(run: Run, r: Reduce) -> bool:
    """Whether an extreme has to leave out what is beyond the row: the last element once more does not change it."""
    operands = [r.args[0], r.where]
    return any(_differs(run, x) for x in cone(run, operands)) or any(_array(run, x) for x in operands)


def _differs(run: Run, x: Let | Load) -> bool:
    """Whether a value may be another beyond the row's end, where all else is as at the row's last element."""
    taken = {*run.sweep.taken, *run.sweep.scaled, *run.sweep.folds}
    return x.value.name in taken or any(_array(run, a) for a in (x.args if isinstance(x, Let) else x.index))


def _array(run: Run, x: Operand | None) -> bool:
    """Whether an operand has been computed for each element of the sweep's axis: what is beyond its end is anything."""
    found = run.tile.nest.arrays.get(x) if isinstance(x, str) else None
    return found is not None and run.sweep.axis in found.axes


def tops(run: Run, two: Sequence[Reduce]) -> None:
    """The pass that finds maxima."""
    before = dict(run.names)
    elements(run, cone(run, [x for r in two for x in (r.args[0], r.where)]))
    beyond = any(_beyond(run, r) for r in two)
    for r in two:
        top = run.acc(state_names(r) + "_top")
        x = real(look(run.tile, r.args[0], run.names))
        condition = " & ".join([*run.inside(r, beyond), f"({x} > {top})"])
        run.say(f"{top} = {condition} ? {x} : {top};")
    run.names = before
