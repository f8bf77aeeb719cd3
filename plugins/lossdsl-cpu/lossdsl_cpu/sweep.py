"""A sweep printed twice, with its rows in lanes and along each row in blocks: sizes choose at run time."""

from __future__ import annotations

from collections.abc import Sequence

from lossdsl_cpu.along import along
from lossdsl_cpu.cxx import identifier
from lossdsl_cpu.element import Run, exponents, factors, name_rows, row_values, views_of
from lossdsl_cpu.rows import PASSES, Sweep
from lossdsl_cpu.scope import extent, padded
from lossdsl_cpu.states import body, clauses, groups, initial, row_state, state_rows, tops
from lossdsl_cpu.tile import (
    GROUP,
    INT,
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
    for name in s.tilts.values():
        array(tile, name, "real")
    own = [n for n in row_values(tile, s) if tile.values[n] == "int"]
    powers = exponents(tile, s)
    if not powers:
        layouts(tile, s, own, False)
        return
    chosen = " & ".join(f"small_power({tile.nest.term(e).text})" for e in powers)
    tile.nest.open(f"if ({chosen})")
    layouts(tile, s, own, True)
    tile.nest.close()
    tile.nest.lines[-1] += " else {"
    tile.nest.depth += 1
    layouts(tile, s, own, False)
    tile.nest.close()


def layouts(tile: Tile, s: Sweep, own: Sequence[str], small: bool) -> None:
    """The sweep in both layouts; `small`: where its exponents are small whole numbers."""
    tile.nest.open("if (lanes)")
    for n in own:
        plain = identifier(n)
        tile.say(f"int {plain}_i[L];")
        tile.say(f"for (long l = 0; l < L; ++l) {plain}_i[l] = narrow({plain}[l]);")
    outside = set(tile.spread)
    lanes(Run(tile, s, True, small))
    tile.spread = outside
    tile.nest.close()
    tile.nest.lines[-1] += " else {"
    tile.nest.depth += 1
    along(Run(tile, s, False, small))
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
        for suffix, kind, start, _ in initial(r, r.values[0].name in s.tilts):
            run.say(f"{kind} {a}{suffix}[L];")
            run.say(f"for (long l = 0; l < L; ++l) {a}{suffix}[l] = {start};")
    factors(run)
    if two:
        for r in two:
            a = state_names(r)
            run.say(f"R {a}_top[L];")
            run.say(f"for (long l = 0; l < L; ++l) {a}_top[l] = -lim<R>::inf;")
        run.tile.nest.open(f"for (int {c} = 0; {c} < {n}; ++{c})")
        run.say("#pragma omp simd")
        run.tile.nest.open("for (long l = 0; l < L; ++l)")
        tops(run, two)
        run.tile.nest.close()
        run.tile.nest.close()
        for r in two:
            if r.reduction == "logsumexp":
                a = state_names(r)
                run.say(f"R {a}_base[L];")
                run.say(f"for (long l = 0; l < L; ++l) {a}_base[l] = {a}_top[l] == -lim<R>::inf ? R(0) : {a}_top[l];")
    columns = [r for r in s.reductions if s.column(r)]
    nest = run.tile.nest
    sums = groups(s)
    if sums:
        nest.open(f"for (int g0 = 0; g0 < {n}; g0 += {GROUP})")
        for part, _ in sums:
            run.say(f"R {part}[L];")
            run.say(f"for (long l = 0; l < L; ++l) {part}[l] = 0;")
        nest.open(f"for (int {c} = g0; {c} < {n} && {c} < g0 + {GROUP}; ++{c})")
    else:
        nest.open(f"for (int {c} = 0; {c} < {n}; ++{c})")
    for r in columns:
        run.say(f"{column_type(r)} {state_names(r)}_v = {column_start(r)};")
    merged = {"max": "max_r", "min": "min_r"}
    run.say("#pragma omp simd" + clauses([(f"{state_names(r)}_v", merged.get(r.reduction, "+")) for r in columns]))
    nest.open("for (long l = 0; l < L; ++l)")
    body(run)
    nest.close()
    for r in columns:
        run.say(column_merged(r, f"{state_names(r)}_parts[b * {padded(s.axis)} + {c}]", f"{state_names(r)}_v"))
    nest.close()
    if sums:
        for part, whole in sums:
            run.say("#pragma omp simd")
            run.say(f"for (long l = 0; l < L; ++l) {whole}[l] += (double){part}[l];")
        nest.close()
    for r in state_rows(s):
        a = state_names(r)
        out = [identifier(v.name) for v in r.values]
        if r.reduction == "logsumexp":
            tilt = s.tilts.get(r.values[0].name)
            more = f", {identifier(tilt)}[l] = (R){a}_t[l]" if tilt else ""
            text = f"{out[0]}[l] = {a}_base[l], {out[1]}[l] = (R)({a}_s[l] + ({a}_n[l] - 1)){more};"
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
