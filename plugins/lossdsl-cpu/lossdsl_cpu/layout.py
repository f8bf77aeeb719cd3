"""Printing a loop over rows by tiles of rows, in one of two layouts that the sizes choose at run time.

along   each row's sweep runs along its axis in blocks, vectorised over its elements: long rows
lanes   the sweep's loop is outside and the tile's rows are the lanes of the vectors: short rows (through a transposed
        tile), and rows whose elements lie apart while neighbouring rows lie together, as (N, C, H, W) has them

Statements of the row itself are loops over the tile's rows in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from lossdsl.backends.api import Buffer, Let, Load, NotSupportedError, Operand, Reduce, Store
from lossdsl_cpu.cxx import COMPARISONS, TYPES, Names, Term, constant, expression, identifier, operand, real
from lossdsl_cpu.nest import Array, Nest, at, extent, results, state_type
from lossdsl_cpu.rows import PASSES, Rows, Sweep, viewed

BLOCK = 2048  # elements of a row between two looks at the running maximum: 8 KiB, a quarter of the L1 cache
NARROW = 64  # from this many elements a row on, vectors along the row win over transposing
CHOOSING = {"pow", "logaddexp", "log1mexp", "expsub", "divergence", "expm1mx", "log1pmx", "softplus", "sigmoid"}
INT = {"real": "R", "int": "long", "bool": "int"}  # arrays of bools are ints, which mix with floats in a vector


@dataclass(slots=True)
class Tile:
    """What is known while a loop over rows is printed."""

    nest: Nest
    rows: Rows
    lim: str  # how far loops over the tile's rows run: L, or n where there are no sweeps
    views: dict[str, str] = field(default_factory=dict)  # buffer -> the sweep's axis it is viewed along
    values: dict[str, str] = field(default_factory=dict)  # row values: name -> dtype
    spread: set[str] = field(default_factory=set)  # numbers that have been laid out over the rows, here

    def say(self, line: str) -> None:
        self.nest.say(line)


def print_rows(nest: Nest, rows: Rows) -> None:
    """Print a loop over rows as one parallel region."""
    tile = Tile(nest, rows, "L" if rows.sweeps else "n")
    lane_count = 16 if rows.sweeps else 256
    inner, outers = rows.axes[-1], rows.axes[:-1]
    find_views(tile)
    axes = sorted({s.axis for s in rows.sweeps}, key=nest.program.axes.index)
    for r in rows.totals:
        nest.say(f"{state_type(r, r.values[0].dtype)} {state_names(r)}_total;")
    for s, r in rows.columns:
        v = r.values[0]
        name, kind = identifier(v.name), TYPES[v.dtype]
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
        nest.say(f"{kind} *const {state_names(r)}_parts = arena.get<{kind}>(blocks * k.{extent(s.axis)});")
    nest.say(f"#pragma omp parallel if ({many} * height * width > 16384)")
    nest.begin()
    nest.say("Arena arena;")
    scratch(tile)
    nest.say("#pragma omp for schedule(static)")
    if rows.columns:
        nest.open("for (long b = 0; b < blocks; ++b)")
        nest.open(f"for (long t = {many} * b / blocks; t < {many} * (b + 1) / blocks; ++t)")
    else:
        nest.open(f"for (long t = 0; t < {many}; ++t)")
    nest.say("const long row0 = t % tiles * height, n = rows - row0 < height ? rows - row0 : height;")
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
    for s, r in rows.columns:
        a, n = state_names(r), f"k.{extent(s.axis)}"
        nest.say("for (long b = 1; b < blocks; ++b)")
        nest.say(f"  for (long c = 0; c < {n}; ++c) {a}_parts[c] += {a}_parts[b * {n} + c];")
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


# --- tiles of tensors -----------------------------------------------------------------------------------------------


def column_type(r: Reduce) -> str:
    return "double" if r.reduction == "sum" and r.values[0].dtype == "real" else "long"


def find_views(tile: Tile) -> None:
    for sweep in tile.rows.sweeps:
        for name in viewed(tile.nest.program, tile.rows, sweep):
            tile.views[name] = sweep.axis


def scratch(tile: Tile) -> None:
    """Memory of a thread: for tiles that are copied, and for values that a later sweep takes over."""
    for name, axis in tile.views.items():
        plain = identifier(name)
        tile.say(f"T_{plain} *const {plain}_copy = arena.raw<T_{plain}>(L * k.{extent(axis)});")
    for sweep in tile.rows.sweeps:
        size = f"height * k.{extent(sweep.axis)}"
        for name in sweep.kept:
            tile.say(f"R *const {identifier(name)}_kept = arena.raw<R>({size});")
        for name in sweep.exps:
            blocks = f"(k.{extent(sweep.axis)} / {BLOCK} + 1)"
            tile.say(f"R *const {identifier(name)}_exps = arena.raw<R>({size});")
            tile.say(f"R *const {identifier(name)}_bases = arena.raw<R>(height * {blocks});")


def base(tile: Tile, b: Buffer, index: Sequence[str], skip: str = "") -> str:
    """A pointer to the tile's first row in a buffer."""
    plain = identifier(b.name)
    text = f"k.{plain}"
    for axis, i in zip(b.axes, index, strict=True):
        if i == tile.rows.axes[-1]:
            text += f" + row0 * k.{plain}_{identifier(axis)}"
        elif i != skip:
            text += f" + {at(i)} * k.{plain}_{identifier(axis)}"
    return text


def open_views(tile: Tile) -> None:
    inner = tile.rows.axes[-1]
    for name, axis in tile.views.items():
        b, plain = tile.nest.buffer(name), identifier(name)
        strides = f"k.{plain}_{identifier(inner)}, k.{plain}_{identifier(axis)}"
        kind = "OutView" if b.role == "out" else "View"
        place = f"{base(tile, b, b.axes, axis)}, {strides}"
        tile.say(f"const {kind}<T_{plain}> {plain}_tile({place}, n, k.{extent(axis)}, lanes, {plain}_copy);")


def close_views(tile: Tile) -> None:
    for name in tile.views:
        if tile.nest.buffer(name).role == "out":
            tile.say(f"{identifier(name)}_tile.store();")


# --- statements of the rows -----------------------------------------------------------------------------------------


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
    where = f"if ({' & '.join(conditions)}) " if conditions else ""
    tile.say(f"for (long l = 0; l < n; ++l) {where}{state_names(r)}_parts[t].add({text});")


def array(tile: Tile, name: str, dtype: str) -> str:
    """Declare the values of the tile's rows; entry l is that of row l."""
    plain = identifier(name)
    tile.say(f"{INT[dtype]} {plain}[L];")
    tile.values[name] = dtype
    tile.nest.names[name] = Term(f"{plain}[l]", dtype)
    return plain


def index_names(tile: Tile) -> Names:
    return {a: Term("(row0 + l)" if a == tile.rows.axes[-1] else at(a), "int") for a in tile.rows.axes}


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


def same_for_all(tile: Tile, s: Let | Load) -> list[str]:
    """What a statement chooses by, where that is the same for all rows: a condition, or an exponent."""
    if isinstance(s, Load) or s.op not in ("pow", "select"):
        return []
    name = s.args[0 if s.op == "select" else 1]
    known = tile.nest.names
    return [name] if isinstance(name, str) and name in known and "[" not in known[name].text else []


def spread(tile: Tile, name: str) -> Term:
    """A number that is the same for all rows as an array: choices by what doesn't change become branches, which keep a
    loop scalar."""
    t = tile.nest.term(name)
    plain = f"{identifier(name)}_all"
    if name not in tile.spread:
        tile.spread.add(name)
        tile.say(f"{INT[t.dtype]} {plain}[L];")
        tile.say(f"for (long l = 0; l < L; ++l) {plain}[l] = {t.text};")
    return Term(f"{plain}[l]", t.dtype)


def element(tile: Tile, b: Buffer, index: Sequence[str], row: str) -> str:
    """A pointer to an element of a buffer by row values and axes."""
    plain = identifier(b.name)
    text = f"k.{plain}"
    for axis, i in zip(b.axes, index, strict=True):
        if i == tile.rows.axes[-1]:
            here = f"(row0 + {row})"
        elif i in tile.nest.program.axes:
            here = at(i)
        else:
            here = tile.nest.term(i).text
        text += f" + {here} * k.{plain}_{identifier(axis)}"
    return text


def loaded(s: Load, b: Buffer, pointer: str) -> str:
    if s.value.dtype == "real":
        return f"(R)as_float(*({pointer}))" if b.dtype == "real" else f"(R)*({pointer})"
    return f"({TYPES[s.value.dtype]})*({pointer})"


def guard_text(tile: Tile) -> str:
    g = tile.rows.guard
    return tile.nest.term(g).text if g is not None and g in tile.nest.names else ""


def load(tile: Tile, s: Load) -> None:
    """Values of the rows from memory; beyond the tile's last row, that row's; nothing is read where the guard is false,
    since an index may be wild there."""
    b = tile.nest.buffer(s.buffer)
    row = "l" if tile.lim == "n" else "(l < n ? l : n - 1)"
    text = loaded(s, b, element(tile, b, s.index, row))
    wild = any(i not in tile.nest.program.axes for i in s.index)
    guard = guard_text(tile)
    if wild and guard:
        text = f"{guard} ? {text} : {constant(0, s.value.dtype).text if s.value.dtype != 'bool' else 'false'}"
    name = array(tile, s.value.name, s.value.dtype)
    tile.say(f"for (long l = 0; l < {'n' if wild else tile.lim}; ++l) {name}[l] = {text};")
    if wild and tile.lim == "L":
        tile.say(f"for (long l = n; l < L; ++l) {name}[l] = {name}[0];")


def stored(tile: Tile, s: Store, names: Names, guard: str) -> str:
    """What a store writes, in C++."""
    b = tile.nest.buffer(s.buffer)

    def cast(t: Term) -> str:
        return real(t) if b.dtype == "real" else f"({TYPES[b.dtype]}){t.text}"

    value = cast(look(tile, s.value, names, b.dtype))
    conditions = [] if s.where is None else [look(tile, s.where, names, "bool").text]
    conditions += [guard] if guard else []
    other = cast(constant(s.otherwise, b.dtype))
    return f"{' & '.join(conditions)} ? {value} : {other}" if conditions else value


def look(tile: Tile, x: Operand, names: Names, dtype: str = "number") -> Term:
    if isinstance(x, str):
        return names[x] if x in names else tile.nest.term(x)
    return operand(x, names, dtype)


def store(tile: Tile, s: Store) -> None:
    b = tile.nest.buffer(s.buffer)
    guard = "" if s in tile.rows.head else guard_text(tile)
    value = stored(tile, s, {}, guard)
    tile.say(f"for (long l = 0; l < n; ++l) put({value}, {element(tile, b, s.index, 'l')});")


# --- sweeps ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Run:
    """One sweep in one layout."""

    tile: Tile
    sweep: Sweep
    lanes: bool
    names: dict[str, Term] = field(default_factory=dict)

    @property
    def column(self) -> str:
        return at(self.sweep.axis)

    def say(self, line: str) -> None:
        self.tile.nest.say(line)

    def acc(self, name: str) -> str:
        """A state of a reduction: an array over the lanes, or a number."""
        return f"{name}[l]" if self.lanes else name

    def kept(self, name: str) -> str:
        n = f"k.{extent(self.sweep.axis)}"
        return f"{name}[{self.column} * L + l]" if self.lanes else f"{name}[l * {n} + {self.column}]"


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


def row_values(tile: Tile, s: Sweep) -> list[str]:
    """The row values that a sweep reads, in order."""
    read: dict[str, None] = {}
    for x in s.body:
        match x:
            case Let():
                operands: tuple[Operand | None, ...] = x.args
            case Load():
                operands = x.index
            case Reduce():
                operands = (*x.args, x.where)
            case Store():
                operands = (x.value, x.where, *x.index)
            case _:
                operands = ()
        for a in operands:
            if isinstance(a, str) and a in tile.values and a not in {v.name for r in s.reductions for v in r.values}:
                read[a] = None
    return list(read)


def name_rows(run: Run) -> None:
    """Names of row values within a sweep: entries of the arrays in lanes, constants along a row."""
    guard = run.tile.rows.guard
    for n in {**dict.fromkeys(row_values(run.tile, run.sweep)), **({guard: None} if guard else {})}:
        plain, dtype = identifier(n), run.tile.values[n]
        if run.lanes:
            run.names[n] = Term(f"{plain}[l]", dtype, narrow=f"{plain}_i[l]" if dtype == "int" else "")
            continue
        run.names[n] = Term(f"{plain}_l", dtype, narrow=f"{plain}_i" if dtype == "int" else "")
        run.say(f"const {TYPES[dtype]} {plain}_l = {plain}[l];")
        if dtype == "int":
            run.say(f"const int {plain}_i = narrow({plain}_l);")


def elements(run: Run, wanted: Sequence[Let | Load], scaled: bool = True) -> None:
    """Definitions of a sweep's element values, within its innermost loop."""
    s = run.sweep
    for x in wanted:
        name, v = identifier(x.value.name), x.value
        if v.name in s.taken:
            text = run.kept(f"{identifier(s.taken[v.name])}_kept")
        elif v.name in s.scaled:
            m = identifier(s.scaled[v.name])
            text = run.kept(f"{m}_exps") + ("" if run.lanes else f" * {m}_factor")
        elif isinstance(x, Load):
            b = run.tile.nest.buffer(x.buffer)
            text = loaded(x, b, pointer(run, b, x.index))
        elif x.op == "index":
            axis = str(x.attrs[0])
            if axis == s.axis:
                run.names[v.name] = Term(f"(long){run.column}", "int", narrow=run.column)
                continue
            text = index_names(run.tile)[axis].text
        elif x.op == "size":
            text = f"k.{extent(str(x.attrs[0]))}"
        else:
            text = let(run, x)
        run.say(f"const {TYPES[v.dtype]} {name} = {text};")
        run.names[v.name] = Term(name, v.dtype)


def let(run: Run, x: Let) -> str:
    names = {a: look(run.tile, a, run.names) for a in x.args if isinstance(a, str)}
    if x.op in COMPARISONS:
        terms = [operand(a, names) for a in x.args]
        if all(t.dtype != "real" and t.narrow for t in terms):
            names = {n: replace(t, text=t.narrow) for n, t in names.items()}
    return expression(x.op, x.args, names, x.value.dtype)


def pointer(run: Run, b: Buffer, index: Sequence[str]) -> str:
    """A pointer to an element in a sweep."""
    plain = identifier(b.name)
    if b.name in run.tile.views and b.axes == tuple(index):
        here = f"{run.column} * {plain}_ld + l" if run.lanes else run.column
        return f"{plain}_p + {here}"
    text = f"k.{plain}"
    for axis, i in zip(b.axes, index, strict=True):
        if i == run.tile.rows.axes[-1]:
            here = "(row0 + (l < n ? l : n - 1))" if run.lanes else "(row0 + l)"
        elif i in run.tile.nest.program.axes:
            here = at(i)
        else:
            here = look(run.tile, i, run.names).text
        text += f" + {here} * k.{plain}_{identifier(axis)}"
    return text


def views_of(run: Run) -> None:
    """Local pointers into the views that a sweep uses."""
    used: dict[str, None] = {}
    for x in (*run.sweep.live, *run.sweep.stores):
        if isinstance(x, Load | Store) and x.buffer in run.tile.views:
            used[x.buffer] = None
    for name in used:
        plain = identifier(name)
        const = "" if run.tile.nest.buffer(name).role == "out" else "const "
        row = "" if run.lanes else f" + l * {plain}_tile.ld"
        run.say(f"{const}T_{plain} *const {plain}_p = {plain}_tile.p{row};")
        if run.lanes:
            run.say(f"const long {plain}_ld = {plain}_tile.ld;")


def cone(run: Run, operands: Sequence[Operand | None]) -> list[Let | Load]:
    """The live statements that operands need."""
    live = {s.value.name: s for s in run.sweep.live}
    found: set[str] = set()
    todo = [o for o in operands if isinstance(o, str)]
    while todo:
        name = todo.pop()
        if name in found or name not in live:
            continue
        found.add(name)
        if name in run.sweep.taken or name in run.sweep.scaled:
            continue
        s = live[name]
        todo += [a for a in (s.args if isinstance(s, Let) else s.index) if isinstance(a, str)]
    return [s for s in run.sweep.live if s.value.name in found]


def masked(run: Run, r: Reduce, text: str, neutral: str) -> str:
    if r.where is None:
        return text
    return f"{look(run.tile, r.where, run.names, 'bool').text} ? {text} : {neutral}"


def state_names(r: Reduce) -> str:
    return identifier(r.values[0].name)


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
                run.say(f"put({stored(run.tile, x, run.names, guard)}, {pointer(run, b, x.index)});")


def column(run: Run, r: Reduce) -> None:
    """One entry more in a reduction over the rows, for the element of the loop around."""
    a, n = state_names(r), f"k.{extent(run.sweep.axis)}"
    t = look(run.tile, r.args[0], run.names)
    x = f"(double){real(t)}" if column_type(r) == "double" else f"(long){t.text}"
    if r.reduction == "count":
        x = "1" if not isinstance(r.args[0], str) else f"(long)({t.text} != 0)"
    conditions = [] if r.where is None else [look(run.tile, r.where, run.names, "bool").text]
    if run.lanes:
        conditions = ["l < n", *([run.names[run.tile.rows.guard].text] if run.tile.rows.guard else []), *conditions]
    x = f"{' & '.join(conditions)} ? {x} : 0" if conditions else x
    run.say(f"{a}_v += {x};" if run.lanes else f"{a}_parts[b * {n} + {run.column}] += {x};")


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
                run.say(f"{run.acc(a + '_s')} {sign}= (double)({masked(run, r, x, f'R({neutral})')});")
            else:
                run.say(f"{run.acc(a + '_s')} {sign}= {masked(run, r, f'(long){t.text}', f'{neutral}L')};")
        case "count":
            one = "1" if not isinstance(r.args[0], str) else f"({t.text} != 0)"
            run.say(f"{run.acc(a + '_s')} += {masked(run, r, one, '0')};")
        case "max" | "min":
            kind = "maximum" if r.reduction == "max" else "minimum"
            v = run.acc(a + "_s")
            x = x if r.values[0].dtype == "real" else f"(long){t.text}"
            run.say(f"{v} = {masked(run, r, f'{kind}({v}, {x})', v)};")
        case "logsumexp":
            e, b = f"{a}_e", run.acc(f"{a}_base")
            inside = "" if r.where is None else f"{look(run.tile, r.where, run.names, 'bool').text} & "
            function = "exp" if r.where is not None else "exp_neg"
            run.say(f"const R {e} = {function}({x} - {b});")
            if r.values[0].name in run.sweep.exps:
                run.say(f"{run.kept(a + '_exps')} = {e};")
            run.say(f"const bool {a}_at = {inside}({x} == {b});")
            term = f"{a}_at ? 0. : (double){e}"
            run.say(f"{run.acc(a + '_s')} += {term if r.where is None else f'{inside}(!{a}_at) ? (double){e} : 0.'};")
            run.say(f"{run.acc(a + '_n')} += {a}_at;")
        case "ties":
            inside = "" if r.where is None else f"{look(run.tile, r.where, run.names, 'bool').text} & "
            run.say(f"{run.acc(a + '_n')} += {inside}({x} == {run.acc(a + '_top')});")
        case "argmax":
            inside = "" if r.where is None else f"{look(run.tile, r.where, run.names, 'bool').text} & "
            v = run.acc(a + "_n")
            run.say(f"{v} = {inside}({x} == {run.acc(a + '_top')}) & ({run.column} < {v}) ? {run.column} : {v};")


def initial(r: Reduce) -> list[tuple[str, str, str, str]]:
    """(suffix, type, start, how simd merges it) of a reduction's state over a block."""
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
            return [("_s", "double", "0", "+"), ("_n", "int", "0", "+")]
        case "ties":
            return [("_n", "int", "0", "+")]
        case "argmax":
            return [("_n", "int", "2147483647", "min")]
    raise NotSupportedError(f"the reduction {r.reduction!r}")


def state_rows(s: Sweep) -> list[Reduce]:
    """The reductions of a sweep that have a state for each row."""
    return [r for r in s.reductions if not s.column(r)]


def clauses(states: Sequence[tuple[str, str]]) -> str:
    """OpenMP clauses for states by how they merge."""
    by: dict[str, list[str]] = {}
    for name, how in states:
        by.setdefault(how, []).append(name)
    return "".join(f" reduction({how} : {', '.join(names)})" for how, names in by.items())


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
        run.say(f"{column_type(r)} {state_names(r)}_v = 0;")
    run.say("#pragma omp simd" + clauses([(f"{state_names(r)}_v", "+") for r in columns]))
    nest.open("for (long l = 0; l < L; ++l)")
    body(run)
    nest.close()
    for r in columns:
        run.say(f"{state_names(r)}_parts[b * {n} + {c}] += {state_names(r)}_v;")
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


def row_state(r: Reduce, at_row: str) -> str:
    """The state of one row for a reduction over all rows."""
    a = state_names(r)
    kind = state_type(r, r.values[0].dtype)
    if r.reduction == "logsumexp":
        return f"{kind}{{{a}_top{at_row}, {a}_s{at_row} + ({a}_n{at_row} - 1)}}" if at_row else f"{a}_all"
    return f"{kind}{{{a}_s{at_row}}}"


def tops(run: Run, two: Sequence[Reduce]) -> None:
    """The pass that finds maxima."""
    before = dict(run.names)
    elements(run, cone(run, [x for r in two for x in (r.args[0], r.where)]))
    for r in two:
        top = run.acc(state_names(r) + "_top")
        x = real(look(run.tile, r.args[0], run.names))
        condition = f"{x} > {top}"
        if r.where is not None:
            condition = f"{look(run.tile, r.where, run.names, 'bool').text} & ({condition})"
        run.say(f"{top} = {condition} ? {x} : {top};")
    run.names = before


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
    for m in sorted(set(s.scaled.values())):
        plain = identifier(m)
        run.say(f"const R {plain}_factor = exp_neg({plain}_bases[l * ({n} / {BLOCK} + 1) + block] - {plain}[l]);")
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
    run.say("#pragma omp simd" + clauses(states))
    nest.open(f"for (int {c} = (int)c0; {c} < c1; ++{c})")
    body(run)
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
