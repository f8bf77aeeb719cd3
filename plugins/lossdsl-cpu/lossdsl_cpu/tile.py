"""A tile of rows: views of its tensors, and the values of its rows as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lossdsl.backends.api import Buffer, Let, Load, Operand, Reduce, Store
from lossdsl_cpu.cxx import TYPES, Names, Term, constant, identifier, operand, real
from lossdsl_cpu.rows import Rows, extreme, viewed
from lossdsl_cpu.scope import Nest, at, extent, padded

BLOCK = 2048  # elements of a row between two looks at the running maximum: 8 KiB, a quarter of the L1 cache
STRIP = 16  # elements of a row that are the lanes of a loop along it: a vector of floats, or two or four
GROUP = 4  # strips (or elements, with rows in lanes) whose sum is a float, before it is added to a double
AHEAD = 4096  # elements of a row that are asked for before they are needed: the memory has something to do meanwhile
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


def find_views(tile: Tile) -> None:
    for sweep in tile.rows.sweeps:
        for name in viewed(tile.nest.program, tile.rows, sweep):
            tile.views[name] = sweep.axis


def scratch(tile: Tile) -> bool:
    """Memory of a thread: for tiles that are copied, and for values that a later sweep takes over. Returns whether
    there is any."""
    start = len(tile.nest.lines)
    for name, axis in tile.views.items():
        plain = identifier(name)
        copied = f"lanes || k.{plain}_{identifier(axis)} != 1 ? height * k.{extent(axis)} : 0"  # else read in place
        tile.say(f"T_{plain} *const {plain}_copy = arena.raw<T_{plain}>({copied}, status);")
    for sweep in tile.rows.sweeps:
        size = f"height * {padded(sweep.axis)}"
        for name in sweep.kept:
            tile.say(f"R *const {identifier(name)}_kept = arena.raw<R>({size}, status);")
        for name in sweep.exps:
            blocks = f"(k.{extent(sweep.axis)} / {BLOCK} + 1)"
            tile.say(f"R *const {identifier(name)}_exps = arena.raw<R>({size}, status);")
            tile.say(f"R *const {identifier(name)}_bases = arena.raw<R>(height * {blocks}, status);")
    return len(tile.nest.lines) > start


def of_element(tile: Tile, s: Load, axis: str) -> str:
    """The array over a sweep's axis that holds a tensor of that axis alone (a mask or a weight of each class); "" for
    other loads."""
    if s.index != (axis,) or tile.nest.buffer(s.buffer).role not in ("in", "param"):
        return ""
    return f"{identifier(s.buffer)}_{identifier(axis)}_{s.value.dtype}"


def lay_out(tile: Tile) -> None:
    """Such tensors as arrays, before the loop over rows: through a stride they would be gathered for each row, and
    bytes can't be. Beyond the end, the last element, as in a row's last strip."""
    found = {}
    for sweep in tile.rows.sweeps:
        for s in sweep.live:
            if isinstance(s, Load) and (name := of_element(tile, s, sweep.axis)):
                found[name] = (s, sweep.axis)
    for name, (s, axis) in found.items():
        b, n, kind = tile.nest.buffer(s.buffer), f"k.{extent(axis)}", INT[s.value.dtype]
        place = f"k.{identifier(b.name)} + (c < {n} ? c : {n} - 1) * k.{identifier(b.name)}_{identifier(b.axes[0])}"
        tile.say(f"{kind} *const {name} = arena.raw<{kind}>({padded(axis)});")
        tile.say(f"if (!lanes) for (long c = 0; c < {padded(axis)}; ++c) {name}[c] = {loaded(s, b, place)};")


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


def array(tile: Tile, name: str, dtype: str) -> str:
    """Declare the values of the tile's rows; entry l is that of row l."""
    plain = identifier(name)
    tile.say(f"{INT[dtype]} {plain}[L];")
    tile.values[name] = dtype
    tile.nest.names[name] = Term(f"{plain}[l]", dtype)
    return plain


def index_names(tile: Tile) -> Names:
    return {a: Term("(row0 + l)" if a == tile.rows.axes[-1] else at(a), "int") for a in tile.rows.axes}


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


def element(tile: Tile, b: Buffer, index: Sequence[str], row: str, packed: bool = False) -> str:
    """A pointer to an element of a buffer by row values and axes; `packed`: where rows lie side by side."""
    plain = identifier(b.name)
    text = f"k.{plain}"
    for axis, i in zip(b.axes, index, strict=True):
        if i == tile.rows.axes[-1]:
            here = f"(row0 + {row})"
        elif i in tile.nest.program.axes:
            here = at(i)
        else:
            here = tile.nest.term(i).text
        step = "" if packed and i == tile.rows.axes[-1] else f" * k.{plain}_{identifier(axis)}"
        text += f" + {here}{step}"
    return text


def loaded(s: Load, b: Buffer, pointer: str) -> str:
    if s.value.dtype == "real":
        return f"(R)as_float(*({pointer}))" if b.dtype == "real" else f"(R)*({pointer})"
    return f"({TYPES[s.value.dtype]})*({pointer})"


def guard_text(tile: Tile) -> str:
    g = tile.rows.guard
    return tile.nest.term(g).text if g is not None and g in tile.nest.names else ""


def look(tile: Tile, x: Operand, names: Names, dtype: str = "number") -> Term:
    if isinstance(x, str):
        return names[x] if x in names else tile.nest.term(x)
    return operand(x, names, dtype)


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


def column_type(r: Reduce) -> str:
    """The type of a reduction over rows for each element: sums have more digits than what they sum."""
    if extreme(r):
        return "R"
    return "double" if r.reduction == "sum" and r.values[0].dtype == "real" else "long"


def column_start(r: Reduce) -> str:
    """Its value over no rows."""
    return {"max": "-lim<R>::inf", "min": "lim<R>::inf"}[r.reduction] if extreme(r) else "0"


def column_merged(r: Reduce, place: str, x: str) -> str:
    """A statement that adds x to what is at a place."""
    if not extreme(r):
        return f"{place} += {x};"
    return f"{place} = {'maximum' if r.reduction == 'max' else 'minimum'}({place}, {x});"


def state_names(r: Reduce) -> str:
    return identifier(r.values[0].name)
