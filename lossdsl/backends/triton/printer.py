"""The lines of a kernel: values as tiles, access to memory, the head.

Every value is a tile: [R, 1] along the rows, [1, B] along a sweep, [R, B] along both, or a number. `live` says which
rows of the tile exist, `there` which of them are not left out by a guard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lossdsl.backends.api import Buffer, Island, Let, Load, NotSupportedError, Operand, Pick, Reduce, Store
from lossdsl.backends.triton.arguments import cols, exact_quotients, pointwise, size, tile_axis
from lossdsl.backends.triton.layout import wrapped
from lossdsl.backends.triton.spell import Term, constant, expression, identifier, operand, real, tensor, whole
from lossdsl.backends.triton.stages import Guard, Item, Plain, Stage

NEUTRAL = {"sum": "0.0", "max": 'float("-inf")', "min": 'float("inf")', "prod": "1.0", "logsumexp": 'float("-inf")'}
NEUTRAL |= {"argmax": 'float("-inf")', "ties": 'float("-inf")'}
EVERYWHERE = "tl.full((1, 1), True, tl.int1)"  # a mask along the sweep would keep `load_` from moving entries in runs


@dataclass(slots=True)
class Printer:
    """The lines of one kernel as they are written."""

    stage: Stage
    items: Sequence[Item]
    on_chip: bool
    divisors: frozenset[str]  # sums of a softmax, which are at least 1: their reciprocal is taken once a row
    lines: list[str] = field(default_factory=list)
    depth: int = 1
    names: dict[str, Term] = field(default_factory=dict)
    there: str = "live"
    kept: str = ""  # the guard's value, where one holds
    axis: str | None = None  # of the sweep that is open
    exact: frozenset[str] = field(init=False)  # quotients that are rounded as IEEE says

    def __post_init__(self) -> None:
        self.exact = exact_quotients(self.stage)

    def say(self, head: str, *items: str, tail: str = "") -> None:
        """A line; with items, a call that is broken where it is too long."""
        pad = "    " * self.depth
        self.lines += wrapped(pad + head, items, tail) if items else wrapped(pad + head, (), "")

    def note(self, text: str) -> None:
        """A comment."""
        self.lines.append("    " * self.depth + f"# {text}")

    def barrier(self, body: Sequence[Plain]) -> None:
        """Let all threads have read of a row what they look up, where a tile's cotangent may be written over it."""
        known = {b.name for b in self.stage.buffers}
        stores = [s for s in body if isinstance(s, Store) and s.buffer.removeprefix("grad_") in known - {s.buffer}]
        if stores and self.stage.name.startswith(("tile_", "across_")):
            self.note("what is written may lie over what other threads still look up")
            self.say("tl.debug_barrier()")

    # --- values -------------------------------------------------------------------------------------------------------

    def term(self, x: Operand) -> Term:
        return operand(x, self.names)

    def bind(self, name: str, text: str, dtype: str, axes: frozenset[str], narrow: str = "") -> None:
        variable = identifier(name)
        self.say(f"{variable} = {text}")
        self.names[name] = Term(variable, dtype, axes, narrow and variable)

    def buffer(self, name: str) -> Buffer:
        return next(b for b in self.stage.buffers if b.name == name)

    def let(self, s: Let) -> None:
        if s.op == "index":
            axis = str(s.attrs[0])
            if axis in self.stage.rows:
                self.names[s.value.name] = Term(self.row(axis), "int", frozenset({axis}))
            else:
                self.names[s.value.name] = Term(cols(axis), "int", frozenset({axis}), narrow=cols(axis))
            return
        if s.op == "size":
            self.bind(s.value.name, f"{size(str(s.attrs[0]))} + tl.zeros((1, 1), tl.int64)", "int", frozenset())
            return
        terms = [self.term(a) for a in s.args]
        sweep = frozenset(a for t in terms for a in t.axes)
        if s.op in ("eq", "ne") and any(t.narrow and not t.literal for t in terms):
            terms = [self.narrowed(a, t) for a, t in zip(s.args, terms, strict=True)]
        if s.op == "div" and self.axis is not None and s.args[1] in self.divisors:
            text = f"{real(terms[0])} * {identifier(str(s.args[1]))}_r"
        elif s.op == "div" and s.value.name in self.exact:
            text = f"div_({tensor(terms[0], 'real')}, {tensor(terms[1], 'real')})"
        else:
            text = expression(s.op, terms, s.args, s.value.dtype)
        self.bind(s.value.name, text, s.value.dtype, sweep)

    def row(self, axis: str) -> str:
        return "row" if len(self.stage.rows) == 1 else f"row_{identifier(axis)}"

    def narrowed(self, x: Operand, t: Term) -> Term:
        """A whole number of the row, in 32 bits, for comparing it with indices."""
        if t.narrow or t.dtype != "int":
            return t
        name = f"{identifier(str(x))}_i"
        if name not in self.names:
            self.say(f"{name} = narrow_({t.text})")
            self.names[name] = Term(name, "int", t.axes, name)
        return self.names[name]

    # --- access -------------------------------------------------------------------------------------------------------

    def place(self, b: Buffer, index: Sequence[str]) -> tuple[str, list[str]]:
        """The address of an entry, and what must hold for it to lie within the tensor."""
        name = identifier(b.name)
        tile = tile_axis(self.stage, b)
        unit = f" * U_{name}" if tile is not None else ""
        text, inside = name, []
        for axis, i in zip(b.axes, index, strict=True):
            stride = f"{name}_{identifier(axis)}"
            scale = "" if axis == tile else unit
            if i == self.axis and i not in self.stage.rows:
                text += f" + {cols(i)}.to(tl.int64) * {stride}{scale}"
            elif i in self.stage.rows:
                text += f" + {self.row(i)} * {stride}{scale}"
            else:
                term = self.term(i)
                t = whole(term)
                wide = t if term.axes <= set(self.stage.rows) else f"{t}.to(tl.int64)"  # what columns are has 32 bits
                text += f" + {wide} * {stride}{scale}"
                inside.append(f"({t} >= 0) & ({t} < {size(axis)})")
        return text, inside

    def side_by_side(self, b: Buffer, index: Sequence[str]) -> bool:
        """Whether rows are entries that lie side by side in this buffer: they move in runs as a row's entries do."""
        return pointwise(self.stage) and tuple(index) == self.stage.rows and tile_axis(self.stage, b) is not None

    def load(self, s: Load) -> None:
        b = self.buffer(s.buffer)
        kind = {"real": "REAL", "int": "tl.int64", "bool": "tl.int1"}[s.value.dtype]
        name = identifier(b.name)
        axes = frozenset(s.value.axes)
        if not b.axes:
            self.bind(s.value.name, f"scalar_({name}, {kind})", s.value.dtype, axes)
            return
        text, inside = self.place(b, s.index)
        tiled = self.axis is not None and self.axis in s.index
        side_by_side = self.side_by_side(b, s.index)
        rowless = not any(i in self.stage.rows or i in self.names for i in s.index)
        there = [] if rowless else [self.there]
        if side_by_side or (tiled and not inside and self.on_chip):
            axis = self.stage.rows[0] if side_by_side else str(self.axis)
            # rows that are left out are read here: a mask of their own would break the runs
            mask = EVERYWHERE if side_by_side else " & ".join(there) or EVERYWHERE
            tail = f").to({kind})"
            self.say(
                f"{identifier(s.value.name)} = load_(",
                text,
                "row" if side_by_side else cols(axis),
                size(axis),
                mask,
                f"U_{name}",
                f"EVEN_{identifier(axis)}",
                tail=tail,
            )
        else:
            mask = " & ".join([*there, *([f"ok_{identifier(str(self.axis))}"] if tiled else []), *inside])
            other = 'float("nan")' if inside and b.dtype == "real" else "0"
            items = [text, *([f"mask={mask}", f"other={other}"] if mask else [])]
            self.say(f"{identifier(s.value.name)} = tl.load(", *items, tail=f").to({kind})")
        self.names[s.value.name] = Term(identifier(s.value.name), s.value.dtype, axes)

    def store(self, s: Store) -> None:
        b = self.buffer(s.buffer)
        dtype = {"real": "real", "int": "int", "bool": "bool"}[b.dtype]
        value = self.cast(s.value, dtype)
        conditions = [t for t in (self.kept, "" if s.where is None else self.term(s.where).text) if t]
        if conditions:
            literal = not isinstance(s.value, str) or self.term(s.value).literal  # one of both has a type
            other = self.cast(s.otherwise, dtype) if literal or dtype != "real" else real(constant(s.otherwise))
            value = f"tl.where({' & '.join(conditions)}, {value}, {other})"
        name = identifier(b.name)
        if not b.axes:
            self.say(
                "tl.store(",
                f"{name} + row",
                f"{value} + tl.zeros((R, 1), {self.kind(dtype)})",
                f"mask={self.first()}",
                tail=")",
            )
            return
        text, inside = self.place(b, s.index)
        tiled = self.axis is not None and self.axis in s.index
        if inside:
            raise NotSupportedError(f"the store of {s.buffer} at a computed index")
        side_by_side = self.side_by_side(b, s.index)
        if side_by_side or (tiled and self.on_chip):
            axis = self.stage.rows[0] if side_by_side else str(self.axis)
            self.say(
                "store_(",
                text,
                value,
                "row" if side_by_side else cols(axis),
                size(axis),
                EVERYWHERE if side_by_side else "live",
                f"U_{name}",
                f"EVEN_{identifier(axis)}",
                tail=")",
            )
        else:
            mask = f"live & ok_{identifier(str(self.axis))}" if tiled else self.first()
            self.say("tl.store(", text, value, f"mask={mask}", tail=")")

    def first(self) -> str:
        """Where values of a row are stored: once a row."""
        return "live" if self.on_chip else "first"

    def kind(self, dtype: str) -> str:
        return {"real": "REAL", "int": "tl.int64", "bool": "tl.int1"}[dtype]

    def cast(self, x: Operand, dtype: str) -> str:
        t = self.term(x) if isinstance(x, str) else constant(x)
        return tensor(t, dtype) if t.literal else real(t) if dtype == "real" else whole(t) if dtype == "int" else t.text

    # --- the head of a kernel -----------------------------------------------------------------------------------------

    def begin(self) -> None:
        rows = self.stage.rows
        self.say("lane = tl.arange(0, R)[:, None]")
        self.say("row = tl.program_id(0).to(tl.int64) * R + lane")
        count = " * ".join(size(a) if i == 0 else f"{size(a)}.to(tl.int64)" for i, a in enumerate(rows)) or "1"
        self.say(f"live = row < {count}")
        if len(rows) > 1:
            rest = "row"
            for axis in reversed(rows[1:]):
                self.say(f"row_{identifier(axis)} = {rest} % {size(axis)}")
                self.say(f"rest_{identifier(axis)} = {rest} // {size(axis)}")
                rest = f"rest_{identifier(axis)}"
            self.say(f"row_{identifier(rows[0])} = {rest}")
        for s in self.stage.scalars:
            self.plain(s)

    def plain(self, s: Plain) -> None:
        match s:
            case Let():
                self.let(s)
            case Load():
                self.load(s)
            case Store():
                self.store(s)
            case Reduce() | Island() | Pick():
                raise AssertionError(f"a {type(s).__name__} where the kernel has no words for it")
        if isinstance(s, Let) and self.axis is None and s.value.name in self.divisors:
            self.say(f"{identifier(s.value.name)}_r = 1.0 / {identifier(s.value.name)}")

    def guard(self, item: Guard) -> None:
        keep = self.term(item.name).text
        self.kept = f"{self.kept} & {keep}" if self.kept else keep
        self.note("rows that are left out are not read")
        self.say(f"there = {self.there} & {keep}")
        self.there = "there"

    def reduce(self, s: Reduce) -> None:
        """A reduction within the row, where the kernel has the whole of it."""
        raise NotImplementedError

    # --- reductions ---------------------------------------------------------------------------------------------------

    def given(self, s: Reduce, ok: str) -> tuple[str, str]:
        """The operand of a reduction, neutral where it doesn't count; and the mask."""
        mask = " & ".join([ok, *([] if s.where is None else [self.term(s.where).text])])
        if s.reduction == "count":
            t = self.term(s.args[0])
            if not t.literal:
                mask += f" & {t.text}" if t.dtype == "bool" else f" & ({t.text} != 0)"
            return "", mask
        t = self.term(s.args[0])
        if s.reduction == "sum" and s.values[0].dtype != "real":
            return f"tl.where({mask}, {whole(t)}, 0)", mask
        return f"tl.where({mask}, {real(t)}, {NEUTRAL[s.reduction]})", mask

    def results(self, s: Reduce, texts: Sequence[str]) -> None:
        for v, text in zip(s.values, texts, strict=True):
            self.names[v.name] = Term(text, v.dtype, frozenset(v.axes))
