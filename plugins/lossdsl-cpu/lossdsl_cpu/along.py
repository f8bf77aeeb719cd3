"""A sweep along each row: in blocks with a running maximum, whose elements are taken a strip at a time.

The lanes of a strip are the vector, so every state of a reduction is an array over them, and its numbers meet at the
end. What a row has beyond its whole strips is copied to one (`tail`): no loop is left over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lossdsl.backends.api import Load, Reduce
from lossdsl_cpu.cxx import TYPES, Term, constant, identifier, real
from lossdsl_cpu.element import Run, factors, name_rows, of_bytes, pointer, used_views, views_of
from lossdsl_cpu.rows import PASSES
from lossdsl_cpu.scope import extent
from lossdsl_cpu.states import body, clauses, groups, initial, row_state, state_rows, tops
from lossdsl_cpu.tile import AHEAD, BLOCK, GROUP, INT, STRIP, same_for_all, state_names

OVER_STRIP = f"for (int j = 0; j < {STRIP}; ++j)"


def along(run: Run) -> None:
    """The sweep along each row of the tile."""
    s, n, nest = run.sweep, f"k.{extent(run.sweep.axis)}", run.tile.nest
    for name in dict.fromkeys(x for e in s.live for x in same_for_all(run.tile, e)):
        t, plain = nest.term(name), f"{identifier(name)}_run"
        run.say(f"{INT[t.dtype]} {plain}[{STRIP}];")
        run.say(f"{OVER_STRIP} {plain}[j] = {t.text};")
        run.names[name] = Term(f"{plain}[j]", t.dtype)
    nest.open("for (long l = 0; l < n; ++l)")
    views_of(run)
    name_rows(run)
    _elsewhere(run)
    ends(run)
    two = [r for r in state_rows(s) if r.reduction in PASSES]
    one = [r for r in state_rows(s) if r.reduction not in PASSES]
    for r in two:
        kind = {"logsumexp": "Lse", "ties": "Ties", "argmax": "Argmax"}[r.reduction]
        kind = "Tilted" if r.values[0].name in s.tilts else kind
        run.say(f"{kind}<R> {state_names(r)}_all;")
    begin(run, one)
    nest.open(f"for (long c0 = 0, block = 0; c0 < {n}; c0 += {BLOCK}, ++block)")
    run.say(f"const int c1 = (int)({n} - c0 < {BLOCK} ? {n} : c0 + {BLOCK});")
    for m in sorted({*s.scaled.values(), *(f.of for f in s.folds.values())}):
        plain = identifier(m)
        run.say(f"const double {plain}_gap = (double){_base(plain, n)} - (double){plain}[l];")
        run.say(f"const double {plain}_factor = {plain}_gap == 0 ? 1. : exp_neg({plain}_gap);")
    factors(run)
    if two:
        _block_tops(run, two)
        begin(run, two)
    sums = groups(s)
    step = STRIP * GROUP
    if sums or run.first:
        nest.open(f"for (int g0 = (int)c0; g0 < c1; g0 += {step})")
        run.say(f"const int g1 = c1 - g0 < {step} ? c1 : g0 + {step};")
        for name in run.first:
            run.say(f"fetch({identifier(name)}_p + g0 + {AHEAD}, g1 - g0);")
        for part, _ in sums:
            run.say(f"R {part}_v[{STRIP}];")
            run.say(f"{OVER_STRIP} {part}_v[j] = 0;")
        strips(run, "g0", "g1", lambda: body(run))
        for part, whole in sums:
            run.say("#pragma omp simd")
            run.say(f"{OVER_STRIP} {whole}_v[j] += (double){part}_v[j];")
        nest.close()
    else:
        strips(run, "(int)c0", "c1", lambda: body(run))
    meet(run, two)
    for r in two:
        a = state_names(r)
        if r.reduction == "logsumexp":
            more = f", {a}_t" if r.values[0].name in s.tilts else ""
            run.say(f"{a}_all.block({a}_most, {a}_s, {a}_n{more});")
        elif r.reduction == "ties":
            run.say(f"{a}_all.merge(Ties<R>{{{a}_top, {a}_n}});")
        else:
            run.say(f"if ({a}_n != 2147483647) {a}_all.merge(Argmax<R>{{{a}_top, {a}_n}});")  # else there was none
    nest.close()
    meet(run, one)
    for name in used_views(run):
        if nest.buffer(name).role == "out":
            plain = identifier(name)
            run.say(f"if (over) untail({plain}_p + whole, {plain}_tail, over);")
    for r in state_rows(s):
        run.say(_result(run, r))
    nest.close()


def _base(plain: str, n: str) -> str:
    """The maximum that a block's exponentials are relative to."""
    return f"{plain}_bases[l * ({n} / {BLOCK} + 1) + block]"


def _elsewhere(run: Run) -> None:
    """Rows whose guard is false: their stores, and zeros for their values."""
    s, c, guard = run.sweep, run.column, run.tile.rows.guard
    if not guard:
        return
    nest = run.tile.nest
    nest.open(f"if (!{run.names[guard].text})")
    for x in s.stores:
        b = nest.buffer(x.buffer)
        other = constant(x.otherwise, b.dtype)
        value = real(other) if b.dtype == "real" else f"({TYPES[b.dtype]}){other.text}"
        place = pointer(run, b, x.index, strip=False)
        run.say(f"for (int {c} = 0; {c} < k.{extent(s.axis)}; ++{c}) put({value}, {place});")
    for r in state_rows(s):
        if not s.total(r):
            names = [v.name for v in r.values] + [s.tilts[v.name] for v in r.values if v.name in s.tilts]
            run.say(" ".join(f"{identifier(name)}[l] = 0;" for name in names))
    run.say("continue;")
    nest.close()


def ends(run: Run) -> None:
    """The strips that hold the ends of the row's tensors, where its last one isn't whole."""
    n = f"k.{extent(run.sweep.axis)}"
    run.say(f"const int whole = (int)({n} / {STRIP} * {STRIP}), over = (int)({n} - whole);")
    for name in used_views(run):
        plain = identifier(name)
        run.say(f"T_{plain} {plain}_tail[{STRIP}];")
        if any(isinstance(x, Load) and x.buffer == name for x in run.sweep.live):
            run.say(f"if (over) tail({plain}_tail, {plain}_p + whole, over);")


def strips(run: Run, start: str, stop: str, inner: Callable[[], None]) -> None:
    """The loop over strips around what `inner` prints for an element."""
    c, n, nest = run.column, f"k.{extent(run.sweep.axis)}", run.tile.nest
    nest.open(f"for (int b0 = {start}; b0 < {stop}; b0 += {STRIP})")
    run.say(f"const int left = (int){n} - b0;")
    for name in used_views(run):
        plain = identifier(name)
        const = "" if nest.buffer(name).role == "out" else "const "
        run.say(f"{const}T_{plain} *const {plain}_q = b0 < whole ? {plain}_p + b0 : {plain}_tail;")
        if of_bytes(nest.buffer(name)):
            run.say(f"int {plain}_wide[{STRIP}];")
            run.say(f"{OVER_STRIP} {plain}_wide[j] = {plain}_q[j];")
    run.say("#pragma omp simd")
    nest.open(OVER_STRIP)
    # not by j < left: a second choice by that condition would become a branch
    run.say(f"const int {c} = b0 + j, {c}_in = {c} < b0 + left - 1 ? {c} : b0 + left - 1;")
    inner()
    nest.close()
    nest.close()


def begin(run: Run, rs: Sequence[Reduce]) -> None:
    """The states of reductions, over a strip's lanes."""
    for r in rs:
        for suffix, kind, start, _ in initial(r, r.values[0].name in run.sweep.tilts):
            name = f"{state_names(r)}{suffix}_v"
            run.say(f"{kind} {name}[{STRIP}];")
            run.say(f"{OVER_STRIP} {name}[j] = {start};")


MEETING = {
    "+": "{0} += {1};",
    "*": "{0} *= {1};",
    "max_r": "{0} = maximum({0}, {1});",
    "min_r": "{0} = minimum({0}, {1});",
}
MEETING |= {"min": "{0} = {1} < {0} ? {1} : {0};"}


def meet(run: Run, rs: Sequence[Reduce]) -> None:
    """The lanes' states as one number each."""
    for r in rs:
        for suffix, kind, start, how in initial(r, r.values[0].name in run.sweep.tilts):
            name = state_names(r) + suffix
            run.say(f"{'long' if kind == 'int' else kind} {name} = {start};")
            run.say("#pragma omp simd" + clauses([(name, how)]))
            run.say(f"{OVER_STRIP} {MEETING[how].format(name, name + '_v[j]')}")


def _block_tops(run: Run, two: Sequence[Reduce]) -> None:
    """The maxima of a block, before anything can be added."""
    n = f"k.{extent(run.sweep.axis)}"
    for r in two:
        name = f"{state_names(r)}_top_v"
        run.say(f"R {name}[{STRIP}];")
        run.say(f"{OVER_STRIP} {name}[j] = -lim<R>::inf;")
    strips(run, "(int)c0", "c1", lambda: tops(run, two))
    for r in two:
        a = state_names(r)
        run.say(f"R {a}_top = -lim<R>::inf;")
        run.say("#pragma omp simd" + clauses([(a + "_top", "max")]))
        run.say(f"{OVER_STRIP} {a}_top = {a}_top_v[j] > {a}_top ? {a}_top_v[j] : {a}_top;")
        if r.reduction == "logsumexp":
            run.say(f"const R {a}_most = {a}_top > {a}_all.m ? {a}_top : {a}_all.m;")
            run.say(f"const R {a}_base = {a}_most == -lim<R>::inf ? R(0) : {a}_most;")
            if r.values[0].name in run.sweep.exps:
                run.say(f"{_base(a, n)} = {a}_base;")


def _result(run: Run, r: Reduce) -> str:
    """The values of a reduction that a row has, or what it adds to that over all rows."""
    a, out = state_names(r), [identifier(v.name) for v in r.values]
    if run.sweep.total(r):
        return f"{a}_parts[t].merge({row_state(r, '')});"
    if r.reduction == "logsumexp":
        tilt = run.sweep.tilts.get(r.values[0].name)
        more = f", {identifier(tilt)}[l] = (R){a}_all.tilt" if tilt else ""
        return f"{out[0]}[l] = {a}_all.top(), {out[1]}[l] = {a}_all.others(){more};"
    if r.reduction == "ties":
        return f"{out[0]}[l] = {a}_all.v, {out[1]}[l] = {a}_all.n;"
    if r.reduction == "argmax":
        return f"{out[0]}[l] = {a}_all.result();"
    return f"{out[0]}[l] = ({INT[r.values[0].dtype]}){a}_s;"
