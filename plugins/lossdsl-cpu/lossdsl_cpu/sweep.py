"""A sweep printed twice, with its rows in lanes and along each row in blocks: sizes choose at run time."""

from __future__ import annotations

from lossdsl_cpu.cxx import TYPES, Term, constant, identifier, real
from lossdsl_cpu.element import Run, factors, name_rows, pointer, row_values, views_of
from lossdsl_cpu.rows import PASSES, Sweep
from lossdsl_cpu.scope import extent
from lossdsl_cpu.states import body, clauses, initial, row_state, state_rows, tops
from lossdsl_cpu.tile import (
    AHEAD,
    BLOCK,
    INT,
    STEP,
    Tile,
    array,
    column_merged,
    column_start,
    column_type,
    same_for_all,
    spread,
    state_names,
)


def sweep(tile: Tile, s: Sweep) -> None:
    for r in s.reductions:
        if not s.total(r) and not s.column(r):
            for v in r.values:
                array(tile, v.name, v.dtype)
    own = [n for n in row_values(tile, s) if tile.values[n] == "int"]
    tile.nest.open("if (lanes)")
    for n in own:
        plain = identifier(n)
        tile.say(f"int {plain}_i[L];")
        tile.say(f"for (long l = 0; l < L; ++l) {plain}_i[l] = narrow({plain}[l]);")
    outside = set(tile.spread)
    lanes(Run(tile, s, True))
    tile.spread = outside
    tile.nest.close()
    tile.nest.lines[-1] += " else {"
    tile.nest.depth += 1
    along(Run(tile, s, False))
    tile.nest.close()


def lanes(run: Run) -> None:
    """The sweep with its rows in lanes: the loop over the axis outside, over the tile's rows inside."""
    for x in run.sweep.live:
        for name in same_for_all(run.tile, x):
            run.names[name] = spread(run.tile, name)
    s, n, c = run.sweep, f"k.{extent(run.sweep.axis)}", run.column
    views_of(run)
    name_rows(run)
    two = [r for r in s.reductions if r.reduction in PASSES]
    for r in state_rows(s):
        a = state_names(r)
        for suffix, kind, start, _ in initial(r):
            run.say(f"{kind} {a}{suffix}[L];")
            run.say(f"for (long l = 0; l < L; ++l) {a}{suffix}[l] = {start};")
    factors(run)
    if two:
        for r in two:
            a = state_names(r)
            run.say(f"R {a}_top[L];")
            run.say(f"for (long l = 0; l < L; ++l) {a}_top[l] = -lim<R>::inf;")
        open_loop(run, f"for (int {c} = 0; {c} < {n}; ++{c})", "#pragma omp simd", "for (long l = 0; l < L; ++l)")
        tops(run, two)
        close_loop(run, 2)
        for r in two:
            if r.reduction == "logsumexp":
                a = state_names(r)
                run.say(f"R {a}_base[L];")
                run.say(f"for (long l = 0; l < L; ++l) {a}_base[l] = {a}_top[l] == -lim<R>::inf ? R(0) : {a}_top[l];")
    columns = [r for r in s.reductions if s.column(r)]
    nest = run.tile.nest
    nest.open(f"for (int {c} = 0; {c} < {n}; ++{c})")
    for r in columns:
        run.say(f"{column_type(r)} {state_names(r)}_v = {column_start(r)};")
    merged = {"max": "max_r", "min": "min_r"}
    run.say("#pragma omp simd" + clauses([(f"{state_names(r)}_v", merged.get(r.reduction, "+")) for r in columns]))
    nest.open("for (long l = 0; l < L; ++l)")
    body(run)
    nest.close()
    for r in columns:
        run.say(column_merged(r, f"{state_names(r)}_parts[b * {n} + {c}]", f"{state_names(r)}_v"))
    nest.close()
    for r in state_rows(s):
        a = state_names(r)
        out = [identifier(v.name) for v in r.values]
        if r.reduction == "logsumexp":
            text = f"{out[0]}[l] = {a}_base[l], {out[1]}[l] = (R)({a}_s[l] + ({a}_n[l] - 1));"
        elif r.reduction == "ties":
            text = f"{out[0]}[l] = {a}_top[l], {out[1]}[l] = {a}_n[l];"
        elif r.reduction == "argmax":
            text = f"{out[0]}[l] = {a}_n[l] == 2147483647 ? 0 : {a}_n[l];"  # the index of nothing is 0
        else:
            text = f"{out[0]}[l] = ({INT[r.values[0].dtype]}){a}_s[l];"
        if s.total(r):
            text = f"{a}_parts[t].merge({row_state(r, '[l]')});"
            guard = run.tile.rows.guard
            text = f"if ({run.names[guard].text}) {text}" if guard else text
        run.say(f"for (long l = 0; l < {'n' if s.total(r) else 'L'}; ++l) {text}")


def open_loop(run: Run, *lines: str) -> None:
    for line in lines:
        if line.startswith("#"):
            run.say(line)
        else:
            run.tile.nest.open(line)


def close_loop(run: Run, number: int) -> None:
    for _ in range(number):
        run.tile.nest.close()


def along(run: Run) -> None:
    """The sweep along each row, in blocks with a running maximum."""
    s, n, c = run.sweep, f"k.{extent(run.sweep.axis)}", run.column
    nest = run.tile.nest
    for name in dict.fromkeys(x for e in s.live for x in same_for_all(run.tile, e)):
        t, plain = nest.term(name), f"{identifier(name)}_run"
        run.say(f"{INT[t.dtype]} {plain}[{BLOCK}];")
        run.say(f"for (long j = 0; j < {BLOCK} && j < {n}; ++j) {plain}[j] = {t.text};")
        run.names[name] = Term(f"{plain}[{c} - c0]", t.dtype)
    nest.open("for (long l = 0; l < n; ++l)")
    views_of(run)
    name_rows(run)
    guard = run.tile.rows.guard
    if guard:
        nest.open(f"if (!{run.names[guard].text})")
        for x in s.stores:
            b = nest.buffer(x.buffer)
            other = constant(x.otherwise, b.dtype)
            value = real(other) if b.dtype == "real" else f"({TYPES[b.dtype]}){other.text}"
            run.say(f"for (int {c} = 0; {c} < {n}; ++{c}) put({value}, {pointer(run, b, x.index)});")
        for r in state_rows(s):
            if s.total(r):
                continue
            run.say(" ".join(f"{identifier(v.name)}[l] = 0;" for v in r.values))
        run.say("continue;")
        nest.close()
    two = [r for r in s.reductions if r.reduction in PASSES]
    for r in state_rows(s):
        a = state_names(r)
        if r.reduction == "logsumexp":
            run.say(f"Lse<R> {a}_all;")
        elif r.reduction == "ties":
            run.say(f"Ties<R> {a}_all;")
        elif r.reduction == "argmax":
            run.say(f"Argmax<R> {a}_all;")
        else:
            for suffix, kind, start, _ in initial(r):
                run.say(f"{'long' if kind == 'int' else kind} {a}{suffix} = {start};")
    nest.open(f"for (long c0 = 0, block = 0; c0 < {n}; c0 += {BLOCK}, ++block)")
    run.say(f"const int c1 = (int)({n} - c0 < {BLOCK} ? {n} : c0 + {BLOCK});")
    for m in sorted({*s.scaled.values(), *(f.of for f in s.folds.values())}):
        plain = identifier(m)
        base = f"{plain}_bases[l * ({n} / {BLOCK} + 1) + block]"
        run.say(f"const double {plain}_factor = exp_neg((double){base} - (double){plain}[l]);")
    factors(run)
    states = [(state_names(r) + x[0], x[3]) for r in state_rows(s) if r not in two for x in initial(r)]
    if two:
        for r in two:
            run.say(f"R {state_names(r)}_top = -lim<R>::inf;")
        run.say("#pragma omp simd" + clauses([(state_names(r) + "_top", "max") for r in two]))
        nest.open(f"for (int {c} = (int)c0; {c} < c1; ++{c})")
        tops(run, two)
        nest.close()
        for r in two:
            a = state_names(r)
            if r.reduction == "logsumexp":
                run.say(f"const R {a}_most = {a}_top > {a}_all.m ? {a}_top : {a}_all.m;")
                run.say(f"const R {a}_base = {a}_most == -lim<R>::inf ? R(0) : {a}_most;")
                if r.values[0].name in s.exps:
                    run.say(f"{a}_bases[l * ({n} / {BLOCK} + 1) + block] = {a}_base;")
            for suffix, kind, start, how in initial(r):
                run.say(f"{kind} {a}{suffix} = {start};")
                states.append((a + suffix, how))
    first = run.first
    start, stop = ("b0", "b1") if first else ("(int)c0", "c1")
    if first:
        nest.open(f"for (int b0 = (int)c0; b0 < c1; b0 += {STEP})")
        run.say(f"const int b1 = c1 - b0 < {STEP} ? c1 : b0 + {STEP};")
        for name in first:
            run.say(f"fetch({identifier(name)}_p + b0 + {AHEAD}, b1 - b0);")
    run.say("#pragma omp simd" + clauses(states))
    nest.open(f"for (int {c} = {start}; {c} < {stop}; ++{c})")
    body(run)
    nest.close()
    if first:
        nest.close()
    for r in two:
        a = state_names(r)
        if r.reduction == "logsumexp":
            run.say(f"{a}_all.block({a}_most, {a}_s, {a}_n);")
        elif r.reduction == "ties":
            run.say(f"{a}_all.merge(Ties<R>{{{a}_top, {a}_n}});")
        else:
            run.say(f"{a}_all.merge(Argmax<R>{{{a}_top, {a}_n}});")
    nest.close()
    for r in state_rows(s):
        a = state_names(r)
        out = [identifier(v.name) for v in r.values]
        if s.total(r):
            run.say(f"{a}_parts[t].merge({row_state(r, '')});")
        elif r.reduction == "logsumexp":
            run.say(f"{out[0]}[l] = {a}_all.top(), {out[1]}[l] = {a}_all.others();")
        elif r.reduction == "ties":
            run.say(f"{out[0]}[l] = {a}_all.v, {out[1]}[l] = {a}_all.n;")
        elif r.reduction == "argmax":
            run.say(f"{out[0]}[l] = {a}_all.result();")
        else:
            run.say(f"{out[0]}[l] = ({INT[r.values[0].dtype]}){a}_s;")
    nest.close()
