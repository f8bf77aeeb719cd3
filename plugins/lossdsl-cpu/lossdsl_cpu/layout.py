"""Printing a loop over rows by tiles of rows, in one of two layouts that the sizes choose at run time.

along   each row's sweep runs along its axis in blocks, vectorised over its elements: long rows
lanes   the sweep's loop is outside and the tile's rows are the lanes of the vectors: short rows (through a transposed
        tile), and rows whose elements lie apart while neighbouring rows lie together, as (N, C, H, W) has them

Statements of the row itself are loops over the tile's rows in both.
"""

from __future__ import annotations

from collections.abc import Sequence

from lossdsl.backends.api import Let, Load, Pick, Reduce, Stmt, Store
from lossdsl_cpu.cxx import ARRAYS, COSTLY, TYPES, Term, constant, expression, identifier, real
from lossdsl_cpu.reducing import results, state_type
from lossdsl_cpu.rows import Rows, Sweep, extreme
from lossdsl_cpu.scope import Array, Nest, at, extent, padded, picked
from lossdsl_cpu.sweep import sweep
from lossdsl_cpu.tile import (
    Tile,
    array,
    close_views,
    column_merged,
    column_start,
    column_type,
    element,
    find_views,
    guard_text,
    index_names,
    lay_out,
    loaded,
    look,
    open_views,
    same_for_all,
    scratch,
    spread,
    state_names,
    stored,
)

NARROW = 64  # from this many elements a row on, vectors along the row win over transposing
TRANSCENDENTAL = 16  # operations, about
WORTH = (
    1_000_000  # operations that pay for a second thread: some 30 µs in vectors of 16, ten times what waking it takes
)
CHOOSING = {"pow", "logaddexp", "log1mexp", "expsub", "divergence", "expm1mx", "log1pmx", "softplus", "sigmoid"}


def print_rows(nest: Nest, rows: Rows) -> None:
    """Print a loop over rows as one parallel region."""
    tile = Tile(nest, rows, "L" if rows.sweeps else "n")
    lane_count = 32 if rows.sweeps else 256
    inner, outers = rows.axes[-1], rows.axes[:-1]
    find_views(tile)
    axes = sorted({s.axis for s in rows.sweeps}, key=nest.program.axes.index)
    for r in rows.totals:
        nest.say(f"{state_type(r, r.values[0].dtype)} {state_names(r)}_total;")
    for s, r in rows.columns:
        v = r.values[0]
        name, kind = identifier(v.name), ARRAYS[v.dtype]
        nest.say(f"{kind} *const {name} = arena.raw<{kind}>(k.{extent(s.axis)});")
        nest.arrays[v.name] = Array(name, v.axes, v.dtype)
    nest.begin()
    nest.say(f"// rows over {', '.join(rows.axes)}")
    nest.say(f"constexpr long L = {lane_count};")
    widest = " + ".join(f"k.{extent(a)}" for a in axes) or "1"
    nest.say(f"const long width = {widest}, rows = k.{extent(inner)};")
    apart = [
        f"k.{identifier(b)}_{identifier(inner)} == 1 && k.{identifier(b)}_{identifier(a)} != 1"
        for b, a in tile.views.items()
    ]
    narrow = f"width <= {NARROW}" + (f" || ({apart[0]})" if apart else "")
    if rows.sweeps:
        nest.say(f"const bool lanes = {narrow};")
        nest.say("const long height = lanes ? L : width >= 4096 ? 1 : width > 256 ? 4096 / width : L;")
    else:
        nest.say("const long height = L;")
    nest.say("const long tiles = (rows + height - 1) / height;")
    for axis in axes:
        nest.say(f"countable(k.{extent(axis)});")
    lay_out(tile)
    many = " * ".join(["tiles", *(f"k.{extent(a)}" for a in outers)])
    for r in rows.totals:
        kind = state_type(r, r.values[0].dtype)
        nest.say(f"{kind} *const {state_names(r)}_parts = arena.get<{kind}>({many});")
    if rows.columns:
        nest.say(
            f"const long blocks = block_count({many}, {' + '.join(f'k.{extent(s.axis)}' for s, _ in rows.columns)});"
        )
    for s, r in rows.columns:
        kind = column_type(r)
        parts, size = f"{state_names(r)}_parts", f"blocks * {padded(s.axis)}"
        nest.say(f"{kind} *const {parts} = arena.get<{kind}>({size});")
        if extreme(r):
            nest.say(f"for (long c = 0; c < {size}; ++c) {parts}[c] = {column_start(r)};")
    nest.say(f"#pragma omp parallel if ({many} * height * ({work(rows)}) > {WORTH})")
    nest.begin()
    nest.say("Arena arena;")
    asked = scratch(tile)
    nest.say("#pragma omp for schedule(static)")
    if rows.columns:
        nest.open("for (long b = 0; b < blocks; ++b)")
        nest.open(f"for (long t = {many} * b / blocks; t < {many} * (b + 1) / blocks; ++t)")
    else:
        nest.open(f"for (long t = 0; t < {many}; ++t)")
    if asked:
        nest.say("if (status) continue;")
    turn = "t % tiles" if outers else "t"
    nest.say(f"const long row0 = {turn} * height, n = rows - row0 < height ? rows - row0 : height;")
    rest = "t / tiles"
    for j, axis in enumerate(outers):
        below = " * ".join(f"k.{extent(a)}" for a in outers[j + 1 :])
        nest.say(
            f"const long {at(axis)} = {rest}{f' / ({below})' if below else ''}{f' % k.{extent(axis)}' if j else ''};"
        )
    nest.bound += list(outers)
    outer_names = dict(nest.names)
    open_views(tile)
    statements(tile)
    close_views(tile)
    nest.names = outer_names
    for _ in outers:
        nest.bound.pop()
    for _ in range(3 if rows.columns else 2):
        nest.close()
    if asked:
        nest.say("if (status) return;")
    for s, r in rows.columns:
        a, n = state_names(r), f"k.{extent(s.axis)}"
        nest.say("for (long b = 1; b < blocks; ++b)")
        other = f"{a}_parts[b * {padded(s.axis)} + c]"
        nest.say(f"  for (long c = 0; c < {n}; ++c) {column_merged(r, f'{a}_parts[c]', other)}")
        nest.say(f"for (long c = 0; c < {n}; ++c) {identifier(r.values[0].name)}[c] = {a}_parts[c];")
    for r in rows.totals:
        a = state_names(r)
        nest.say(f"for (long t = 0; t < {many}; ++t) {a}_total.merge({a}_parts[t]);")
    nest.close()
    for r in rows.totals:
        for v, text in results(r):
            name, kind = identifier(v.name), TYPES[v.dtype]
            nest.say(f"const {kind} {name} = ({kind}){state_names(r)}_total.{text};")
            nest.names[v.name] = Term(name, v.dtype)


def work(rows: Rows) -> str:
    """What a row costs: a statement of an element counts one, a transcendental as many as it has operations."""
    of_row = sum(_cost(s) for s in rows.items if not isinstance(s, Sweep))
    sweeps = [f"{sum(_cost(s) for s in (*x.live, *x.reductions, *x.stores))} * k.{extent(x.axis)}" for x in rows.sweeps]
    return " + ".join([str(of_row), *sweeps])


def _cost(s: Stmt) -> int:
    costly = s.reduction == "logsumexp" if isinstance(s, Reduce) else isinstance(s, Let) and s.op in COSTLY
    return TRANSCENDENTAL if costly else 1


def statements(tile: Tile) -> None:
    """The head and the body: runs of pure statements as one loop, loads and stores as loops of their own."""
    rows = tile.rows
    run: list[Let] = []
    for s in (*rows.head, *rows.items):
        if isinstance(s, Let):
            run.append(s)
            continue
        lets(tile, run)
        run = []
        match s:
            case Load():
                load(tile, s)
            case Pick():
                pick(tile, s)
            case Store():
                store(tile, s)
            case Reduce():
                total(tile, s)
            case Sweep():
                sweep(tile, s)
    lets(tile, run)


def total(tile: Tile, r: Reduce) -> None:
    """Add the tile's rows to its part of a reduction over all rows."""
    conditions = [guard_text(tile)] if guard_text(tile) else []
    conditions += [] if r.where is None else [look(tile, r.where, {}, "bool").text]
    t = look(tile, r.args[0], {})
    text = real(t) if r.values[0].dtype == "real" else f"(long){t.text}"
    if r.reduction == "count":
        text = "1" if not isinstance(r.args[0], str) else f"{t.text} != 0"
    a = state_names(r)
    if r.reduction == "logsumexp":
        where = f"if ({' & '.join(conditions)}) " if conditions else ""
        tile.say(f"for (long l = 0; l < n; ++l) {where}{a}_parts[t].add({text});")
        return
    # not entry by entry into memory: that is one addition's latency for each
    kind = column_type(r)
    tile.say(f"{kind} {a}_part = 0;")
    tile.say(f"#pragma omp simd reduction(+ : {a}_part)")
    where = " & ".join(["l < n", *conditions] if tile.lim == "L" else conditions)
    text = f"{where} ? ({kind})({text}) : 0" if where else f"({kind})({text})"
    tile.say(f"for (long l = 0; l < {tile.lim}; ++l) {a}_part += {text};")
    tile.say(f"{a}_parts[t].v += {a}_part;")


def lets(tile: Tile, run: Sequence[Let]) -> None:
    """Pure statements of the rows, in one loop; an operation with many choices has a loop of its own, since the choices
    of two together are more than the compiler makes into a vector."""
    group: list[Let] = []
    for s in run:
        if s.op in CHOOSING:
            loop_of(tile, group)
            loop_of(tile, [s])
            group = []
        else:
            group.append(s)
    loop_of(tile, group)


def loop_of(tile: Tile, run: Sequence[Let]) -> None:
    if not run:
        return
    texts = []
    for s in run:
        if s.op == "index":
            text = index_names(tile)[str(s.attrs[0])].text
        elif s.op == "size":
            text = f"k.{extent(str(s.attrs[0]))}"
        else:
            terms = {a: tile.nest.term(a) for a in s.args if isinstance(a, str)}
            for name in same_for_all(tile, s):
                terms[name] = spread(tile, name)
            text = expression(s.op, s.args, terms, s.value.dtype)
        texts.append(f"{array(tile, s.value.name, s.value.dtype)}[l] = {text};")
    tile.say("#pragma omp simd")
    tile.nest.open(f"for (long l = 0; l < {tile.lim}; ++l)")
    for text in texts:
        tile.say(text)
    tile.nest.close()


def load(tile: Tile, s: Load) -> None:
    """Values of the rows from memory; beyond the tile's last row, that row's; nothing is read where the guard is false,
    since an index may be wild there."""
    b = tile.nest.buffer(s.buffer)
    wild = any(i not in tile.nest.program.axes for i in s.index)
    row = "l" if tile.lim == "n" or wild else "(l < n ? l : n - 1)"
    text = loaded(s, b, element(tile, b, s.index, row))
    guard = guard_text(tile)
    if wild and guard:
        text = f"{guard} ? {text} : {nothing(s)}"
    name = array(tile, s.value.name, s.value.dtype)
    inner = tile.rows.axes[-1]
    step = [axis for axis, i in zip(b.axes, s.index, strict=True) if i == inner]
    if row != "l" and len(step) == 1:  # a full tile of a packed tensor, in vectors
        packed = loaded(s, b, element(tile, b, s.index, "l", packed=True))
        tile.say(f"if (n == L && k.{identifier(b.name)}_{identifier(step[0])} == 1)")
        tile.say(f"  for (long l = 0; l < L; ++l) {name}[l] = {packed};")
        tile.say("else")
    tile.say(f"for (long l = 0; l < {'n' if wild else tile.lim}; ++l) {name}[l] = {text};")
    if wild:
        beyond(tile, name)


def pick(tile: Tile, s: Pick) -> None:
    """Entries of an array over the sweep's axis, which an earlier loop computed, at an index of each row."""
    text = picked(tile.nest, s, index_names(tile))
    guard = guard_text(tile)
    if guard:
        text = f"{guard} ? {text} : {nothing(s)}"
    name = array(tile, s.value.name, s.value.dtype)
    tile.say(f"for (long l = 0; l < n; ++l) {name}[l] = {text};")
    beyond(tile, name)


def nothing(s: Load | Pick) -> str:
    """What stands for a value that isn't read, its index being wild."""
    return "false" if s.value.dtype == "bool" else constant(0, s.value.dtype).text


def beyond(tile: Tile, name: str) -> None:
    """Beyond the tile's last row, where an index may be anything: what the first row has."""
    if tile.lim == "L":
        tile.say(f"for (long l = n; l < L; ++l) {name}[l] = {name}[0];")


def store(tile: Tile, s: Store) -> None:
    b = tile.nest.buffer(s.buffer)
    guard = "" if s in tile.rows.head else guard_text(tile)
    value = stored(tile, s, {}, guard)
    tile.say(f"for (long l = 0; l < n; ++l) put({value}, {element(tile, b, s.index, 'l')});")
