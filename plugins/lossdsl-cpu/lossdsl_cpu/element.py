"""What one element of a sweep needs: names, loads and pure statements, in either layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from lossdsl.backends.api import COMPARISONS, Buffer, Let, Load, Operand, Reduce, Store
from lossdsl_cpu.cxx import TYPES, Term, expression, identifier, operand, real
from lossdsl_cpu.rows import Sweep
from lossdsl_cpu.scope import at, extent, padded
from lossdsl_cpu.tile import Tile, index_names, loaded, look, of_element, same_for_all


@dataclass(slots=True)
class Run:
    """One sweep in one layout."""

    tile: Tile
    sweep: Sweep
    lanes: bool
    small: bool = False  # whether exponents that are the same for all are known to be small whole numbers
    names: dict[str, Term] = field(default_factory=dict)

    @property
    def column(self) -> str:
        return at(self.sweep.axis)

    @property
    def first(self) -> list[str]:
        """The tensors of which no sweep before has read the row."""
        seen: set[str] = set()
        for s in self.tile.rows.sweeps:
            own = [x.buffer for x in s.live if isinstance(x, Load) and x.buffer in self.tile.views]
            if s is self.sweep:
                return [name for name in dict.fromkeys(own) if name not in seen]
            seen.update(own)
        return []

    def say(self, line: str) -> None:
        self.tile.nest.say(line)

    def acc(self, name: str) -> str:
        """A state of a reduction: an array over the lanes, which are a strip of the row where the sweep is along it."""
        return f"{name}[l]" if self.lanes else f"{name}_v[j]"

    def row(self, name: str) -> str:
        """What a row has one of."""
        return f"{name}[l]" if self.lanes else name

    def kept(self, name: str) -> str:
        n = padded(self.sweep.axis)
        return f"{name}[{self.column} * L + l]" if self.lanes else f"{name}[l * {n} + {self.column}]"

    def inside(self, r: Reduce, beyond: bool = True) -> list[str]:
        """Conditions under which an element counts: a row's last strip goes on `beyond` it."""
        where = [] if r.where is None else [look(self.tile, r.where, self.names, "bool").text]
        return where if self.lanes or not beyond else [*where, "(j < left)"]


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
        elif v.name in s.folds:
            text = f"{run.kept(identifier(s.folds[v.name].of) + '_exps')} * {run.row(identifier(v.name) + '_by')}"
        elif v.name in s.scaled:
            m = identifier(s.scaled[v.name])
            text = run.kept(f"{m}_exps") + ("" if run.lanes else f" * (R){m}_factor")
        elif isinstance(x, Load):
            b = run.tile.nest.buffer(x.buffer)
            own = "" if run.lanes else of_element(run.tile, x, s.axis)
            text = f"{own}[{run.column}]" if own else loaded(x, b, pointer(run, b, x.index))
        elif x.op == "index":
            axis = str(x.attrs[0])
            if axis == s.axis:
                place = run.column if run.lanes else f"{run.column}_in"
                run.names[v.name] = Term(f"(long){place}", "int", narrow=place)
                continue
            text = index_names(run.tile)[axis].text
        elif x.op == "size":
            text = f"k.{extent(str(x.attrs[0]))}"
        else:
            text = let(run, x)
        run.say(f"const {TYPES[v.dtype]} {name} = {text};")
        run.names[v.name] = Term(name, v.dtype)


def factors(run: Run) -> None:
    """The numbers that folded chains multiply by: of the block in a sweep along the row, of each row in lanes."""
    for name, f in run.sweep.folds.items():
        text = "" if run.lanes else f"{identifier(f.of)}_factor"
        for op, other in f.by:
            term = f"(double){real(look(run.tile, other, run.names))}"
            text = f"{text or '1'} {'*' if op == 'mul' else '/'} {term}" if text or op == "div" else term
        if run.lanes:
            run.say(f"R {identifier(name)}_by[L];")
            run.say("#pragma omp simd")
            run.say(f"for (long l = 0; l < L; ++l) {identifier(name)}_by[l] = (R)({text});")
        else:
            run.say(f"const R {identifier(name)}_by = (R)({text});")


def exponents(tile: Tile, s: Sweep) -> list[str]:
    """The exponents of a sweep that are one number for all its elements, known at run time: where all are small whole
    numbers, as most are, it is another loop, of products."""
    found = [x.args[1] for x in s.live if isinstance(x, Let) and x.op == "pow" and same_for_all(tile, x)]
    return [e for e in dict.fromkeys(found) if isinstance(e, str)]


def let(run: Run, x: Let) -> str:
    names = {a: look(run.tile, a, run.names) for a in x.args if isinstance(a, str)}
    if x.op == "pow" and run.small and x.args[1] in exponents(run.tile, run.sweep):
        return f"pow(products(), {', '.join(real(operand(a, names)) for a in x.args)})"
    if x.op in COMPARISONS:
        terms = [operand(a, names) for a in x.args]
        if all(t.dtype != "real" and t.narrow for t in terms):
            names = {n: replace(t, text=t.narrow) for n, t in names.items()}
    return expression(x.op, x.args, names, x.value.dtype)


def pointer(run: Run, b: Buffer, index: Sequence[str], strip: bool = True) -> str:
    """A pointer to an element in a sweep: of a strip of the row, or of the row."""
    plain = identifier(b.name)
    if b.name in run.tile.views and b.axes == tuple(index):
        if run.lanes:
            return f"{plain}_p + {run.column} * {plain}_ld + l"
        if not strip:
            return f"{plain}_p + {run.column}"
        return f"{plain}_{'wide' if of_bytes(b) else 'q'} + j"
    text = f"k.{plain}"
    for axis, i in zip(b.axes, index, strict=True):
        if i == run.tile.rows.axes[-1]:
            here = "(row0 + (l < n ? l : n - 1))" if run.lanes else "(row0 + l)"
        elif i == run.sweep.axis and strip and not run.lanes:
            here = f"{run.column}_in"
        elif i in run.tile.nest.program.axes:
            here = at(i)
        else:
            here = look(run.tile, i, run.names).text
        text += f" + {here} * k.{plain}_{identifier(axis)}"
    return text


def of_bytes(b: Buffer) -> bool:
    """Whether a strip of a tensor is read as ints: a vector of bytes has more lanes than a strip, so that a loop which
    reads some is left scalar."""
    return b.dtype == "bool" and b.role == "in"


def used_views(run: Run) -> list[str]:
    """The views that a sweep uses."""
    used: dict[str, None] = {}
    for x in (*run.sweep.live, *run.sweep.stores):
        if isinstance(x, Load | Store) and x.buffer in run.tile.views:
            used[x.buffer] = None
    return list(used)


def views_of(run: Run) -> None:
    """Local pointers into the views that a sweep uses."""
    for name in used_views(run):
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
        if name in run.sweep.taken or name in run.sweep.scaled or name in run.sweep.folds:
            continue
        s = live[name]
        todo += [a for a in (s.args if isinstance(s, Let) else s.index) if isinstance(a, str)]
    return [s for s in run.sweep.live if s.value.name in found]


def masked(run: Run, r: Reduce, text: str, neutral: str) -> str:
    conditions = run.inside(r)
    return f"{' & '.join(conditions)} ? {text} : {neutral}" if conditions else text
