"""One stage as Triton functions: `rows`, which has whole rows on chip, and `blocks`, which goes over a row in blocks.

Every value is a tile: [R, 1] along the rows, [1, B] along a sweep, [R, B] along both, or a number. `live` says which
rows of the tile exist, `there` which of them are not left out by a guard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lossdsl.backends.api import Buffer, Let, Load, NotSupportedError, Operand, Reduce, Store
from lossdsl.backends.triton.layout import wrapped
from lossdsl.backends.triton.sharing import Plain, exponential, shared
from lossdsl.backends.triton.spell import Term, constant, expression, identifier, operand, real, tensor, whole
from lossdsl.backends.triton.stages import Guard, Item, Stage, Sweep

ALL = 99  # a number of a sweep that no stage reaches
STATES = {"logsumexp": 2, "argmax": 2, "ties": 2}  # parts of a reduction's state, else 1
NEUTRAL = {"sum": "0.0", "max": 'float("-inf")', "min": 'float("inf")', "prod": "1.0", "logsumexp": 'float("-inf")'}
NEUTRAL |= {"argmax": 'float("-inf")', "ties": 'float("-inf")'}


def size(axis: str) -> str:
    return f"n_{identifier(axis)}"


def cols(axis: str) -> str:
    return f"cols_{identifier(axis)}"


def tile_axis(stage: Stage, b: Buffer) -> str | None:
    """The axis of a buffer whose entries a sweep reads or writes side by side."""
    for sweep in stage.sweeps:
        for s in sweep.body:
            if isinstance(s, Load | Store) and s.buffer == b.name and sweep.axis in s.index:
                return b.axes[s.index.index(sweep.axis)]
    return None


def arguments(stage: Stage) -> list[str]:
    """The arguments that both kernels of a stage have: for each tensor its address and strides, then sizes."""
    found = []
    for b in stage.buffers:
        name = identifier(b.name)
        found.append(name)
        found += [f"{name}_{identifier(a)}" for a in b.axes]
        if tile_axis(stage, b) is not None:
            found.append(f"U_{name}: tl.constexpr")
    return found + [size(a) for a in sizes(stage)]


def sizes(stage: Stage) -> tuple[str, ...]:
    """The axes whose extents a stage's kernels are given."""
    found = dict.fromkeys((*stage.rows, *stage.axes))
    for b in stage.buffers:
        found.update(dict.fromkeys(b.axes))
    for s in statements(stage):
        if isinstance(s, Let) and s.op == "size":
            found[str(s.attrs[0])] = None
    return tuple(found)


def divisors(items: Sequence[Item]) -> frozenset[str]:
    """Values of a row that sweeps divide by and that are 1 plus what is never negative: the sum of a softmax."""
    made = {s.value.name: s for s in items if isinstance(s, Let)}
    used = {t.args[1] for s in items if isinstance(s, Sweep) for t in s.body if isinstance(t, Let) and t.op == "div"}
    found = set()
    for name in used:
        s = made.get(name) if isinstance(name, str) else None
        if s is not None and s.op == "add" and s.args[0] == 1:
            other = made.get(s.args[1]) if isinstance(s.args[1], str) else None
            if other is not None and other.op == "maximum" and other.args[1] == 0:
                found.add(s.value.name)
    return frozenset(found)


def statements(stage: Stage) -> list[Plain]:
    found: list[Plain] = list(stage.scalars)
    for item in stage.items:
        if isinstance(item, Sweep):
            found += item.body
        elif not isinstance(item, Guard):
            found.append(item)
    return found


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

    def say(self, head: str, *items: str, tail: str = "") -> None:
        """A line; with items, a call that is broken where it is too long."""
        pad = "    " * self.depth
        self.lines += wrapped(pad + head, items, tail) if items else wrapped(pad + head, (), "")

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
                t = whole(self.term(i))
                text += f" + {t} * {stride}{scale}"
                inside.append(f"({t} >= 0) & ({t} < {size(axis)})")
        return text, inside

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
        rowless = not any(i in self.stage.rows or i in self.names for i in s.index)
        there = [] if rowless else [self.there]
        if tiled and not inside and self.on_chip:
            axis = str(self.axis)
            mask = " & ".join(there) or f"ok_{identifier(axis)}"
            tail = f").to({kind})"
            self.say(
                f"{identifier(s.value.name)} = load_(",
                text,
                cols(axis),
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
            other = self.cast(s.otherwise, dtype)
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
        if tiled and self.on_chip:
            axis = str(self.axis)
            self.say(
                "store_(",
                text,
                value,
                cols(axis),
                size(axis),
                "live",
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
            case Reduce():
                raise AssertionError("a reduction outside of a sweep")
        if isinstance(s, Let) and self.axis is None and s.value.name in self.divisors:
            self.say(f"{identifier(s.value.name)}_r = 1.0 / {identifier(s.value.name)}")

    def guard(self, item: Guard) -> None:
        keep = self.term(item.name).text
        self.kept = f"{self.kept} & {keep}" if self.kept else keep
        self.say(f"there = {self.there} & {keep}")
        self.there = "there"

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


class Rows(Printer):
    """A kernel that has whole rows on chip, several a program where they are short."""

    def text(self) -> str:
        name = f"_{self.stage.name}_rows"
        blocks = [f"B_{identifier(a)}: tl.constexpr" for a in self.stage.axes]
        blocks += [f"EVEN_{identifier(a)}: tl.constexpr" for a in self.stage.axes]
        self.begin()
        for axis in self.stage.axes:
            self.say(f"{cols(axis)} = tl.arange(0, B_{identifier(axis)})[None, :]")
            self.say(f"ok_{identifier(axis)} = {cols(axis)} < {size(axis)}")
        for item in self.items:
            self.item(item)
        given = [*arguments(self.stage), "REAL: tl.constexpr", "R: tl.constexpr", *blocks]
        return "\n".join(["@triton.jit", *wrapped(f"def {name}(", given, "):"), *self.lines])

    def item(self, item: Item) -> None:
        if isinstance(item, Guard):
            self.guard(item)
        elif isinstance(item, Sweep):
            self.axis = item.axis
            for s in item.body:
                if isinstance(s, Reduce):
                    self.reduce(s)
                else:
                    self.plain(s)
            self.axis = None
        else:
            self.plain(item)

    def reduce(self, s: Reduce) -> None:
        x, mask = self.given(s, f"ok_{identifier(str(self.axis))}")
        name = [identifier(v.name) for v in s.values]
        match s.reduction:
            case "logsumexp" if len(s.values) == 2:
                e = identifier(exponential(s.values[0].name))
                self.say(f"{name[0]}, {name[1]}, {e} = logsumexp_row_({x})")
                axes = frozenset({*s.values[0].axes, str(self.axis)})
                self.names[exponential(s.values[0].name)] = Term(e, "real", axes)
            case "count":
                kind = self.kind(s.values[0].dtype)
                self.say(f"{name[0]} = tl.sum(({mask}).to(tl.int32), 1, keep_dims=True).to({kind})")
            case "sum":
                self.say(f"{name[0]} = tl.sum(", x, "1", "keep_dims=True", tail=")")
            case "max" | "min" | "prod":
                self.say(f"{name[0]} = {s.reduction}_lanes_({x})")
            case "argmax":
                self.say(
                    f"{name[0]} = argmax_lanes_(",
                    x,
                    f"tl.where({mask}, {cols(str(self.axis))}, 2147483647)",
                    tail=").to(tl.int64)",
                )
            case "ties":
                self.say(f"{name[0]}, {name[1]} = ties_lanes_({x}, ({mask}).to(tl.int32))")
                self.say(f"{name[1]} = {name[1]}.to({self.kind(s.values[1].dtype)})")
            case _:
                raise NotSupportedError(f"the reduction {s.reduction!r}")
        self.results(s, name)


class Blocks(Printer):
    """A kernel that goes over long rows in blocks: all of a row by one program, or a part of it by each of several.

    It runs the sweeps FIRST to LAST. For a row that is split, each sweep with reductions is a launch: the programs of
    a row leave the states of their parts in `part`, and the next launch merges them. Lanes hold states of their own,
    so that a block costs one exponential an entry and no exchange between threads. Every second sweep runs backwards,
    which finds the end of the row in the cache.
    """

    def text(self) -> str:
        name = f"_{self.stage.name}_blocks"
        blocks = [f"B_{identifier(a)}: tl.constexpr" for a in self.stage.axes]
        self.say("split = tl.program_id(1)")
        self.begin()
        self.say("first = live & (lane + split == 0)")
        for axis in self.stage.axes:
            a = identifier(axis)
            self.say(f"share_{a} = tl.cdiv(tl.cdiv({size(axis)}, B_{a}), splits) * B_{a}")
            self.say(f"begin_{a} = split * share_{a}")  # a multiple of the block, for wide loads
            self.say(f"end_{a} = tl.maximum(begin_{a}, tl.minimum(begin_{a} + share_{a}, {size(axis)}))")
            self.say(f"full_{a} = begin_{a} + (end_{a} - begin_{a}) // B_{a} * B_{a}")
        if width(self.items):
            self.say("lanes = tl.arange(0, P)[None, :]")
            self.say("states = part + (row * splits + lanes) * PARTS")
            self.say("own = part + (row * splits + split) * PARTS")
        number = 0
        for item in self.items:
            if isinstance(item, Sweep):
                self.sweep(item, number)
                number += 1
            elif isinstance(item, Guard):
                self.guard(item)
            else:
                self.plain(item)
        given = [*arguments(self.stage), "part", "splits", "REAL: tl.constexpr", "R: tl.constexpr", *blocks]
        given += ["FIRST: tl.constexpr", "LAST: tl.constexpr", "P: tl.constexpr"]
        lines = [line.replace("PARTS", str(width(self.items))) for line in self.lines]
        return "\n".join(["@triton.jit", *wrapped(f"def {name}(", given, "):"), *lines])

    def sweep(self, item: Sweep, number: int) -> None:
        a = identifier(item.axis)
        offsets, offset = {}, 0
        for s in self.items:
            for r in s.reductions if isinstance(s, Sweep) else ():
                offsets[r.values[0].name] = offset
                offset += STATES.get(r.reduction, 1)
        self.say(f"if FIRST <= {number}:")
        self.depth += 1
        for r in item.reductions:
            for state, (start, kind) in zip(self.states(r), self.initial(r), strict=True):
                self.say(f"{state} = tl.full((1, B_{a}), {start}, {kind})")
        back = number % 2 == 1
        self.say("for step in tl.static_range(2):")
        self.depth += 1
        tail = "tail"
        self.say("tail = 1 - step" if back else "tail = step")
        self.say(f"lo = full_{a} if {tail} else begin_{a}")
        self.say(f"hi = end_{a} if {tail} else full_{a}")
        self.say(f"for start in range(lo, hi, B_{a}):")
        self.depth += 1
        at = "start"
        if back:
            self.say(f"at = start if tail else lo + (hi - B_{a} - start)")
            at = "at"
        self.say(f"{cols(item.axis)} = ({at} + tl.arange(0, B_{a}))[None, :]")
        self.say(f"ok_{a} = {cols(item.axis)} < end_{a} if tail else tl.full((1, B_{a}), True, tl.int1)")
        outer = dict(self.names)
        self.axis = item.axis
        for s in item.body:
            if isinstance(s, Reduce):
                self.add(s)
            else:
                self.plain(s)
        self.axis = None
        self.names = outer
        self.depth -= 3
        if item.reductions:
            self.say("else:")
            self.depth += 1
            for r in item.reductions:
                for i, (state, (start, kind)) in enumerate(zip(self.states(r), self.initial(r), strict=True)):
                    place = f"states + {offsets[r.values[0].name] + i}"
                    self.say(
                        f"{state} = tl.load(", place, "mask=lanes < splits", f"other={start}", tail=f").to({kind})"
                    )
            self.depth -= 1
            for r in item.reductions:
                self.conclude(r)
            self.say(f"if LAST == {number}:")
            self.depth += 1
            for r in item.reductions:
                self.keep(r, offsets[r.values[0].name])
            self.depth -= 1
            self.say("else:")
            self.depth += 1

    def states(self, s: Reduce) -> list[str]:
        return [f"{identifier(s.values[0].name)}_s{i}" for i in range(STATES.get(s.reduction, 1))]

    def initial(self, s: Reduce) -> list[tuple[str, str]]:
        """The neutral state of a reduction, with the type of each of its parts."""
        match s.reduction:
            case "logsumexp":
                return [('float("-inf")', "REAL"), ("-1.0", "REAL")]
            case "argmax":
                return [('float("-inf")', "REAL"), ("2147483647", "tl.int32")]
            case "ties":
                return [('float("-inf")', "REAL"), ("0", "tl.int32")]
            case "count":
                return [("0", "tl.int32")]
            case "sum" if s.values[0].dtype != "real":
                return [("0", "tl.int64")]
        return [(NEUTRAL[s.reduction], "REAL")]

    def add(self, s: Reduce) -> None:
        """One block more."""
        if s.reduction == "logsumexp" and len(s.values) != 2:
            raise NotSupportedError("a log-sum-exp as one number")
        a = str(self.axis)
        x, mask = self.given(s, f"ok_{identifier(a)}")
        state = self.states(s)
        match s.reduction:
            case "count":
                self.say(f"{state[0]} += ({mask}).to(tl.int32)")
            case "sum":
                self.say(f"{state[0]} += {x}")
            case "prod":
                self.say(f"{state[0]} *= {x}")
            case "max" | "min":
                self.say(f"{state[0]} = {s.reduction}imum_({state[0]}, {x})")
            case "logsumexp":
                self.say(f"{state[0]}, {state[1]} = logsumexp_add_(", *state, x, tail=")")
            case "argmax":
                self.say(f"{state[0]}, {state[1]} = argmax_add_(", *state, x, cols(a), tail=")")
            case "ties":
                self.say(f"{state[0]}, {state[1]} = ties_add_(", *state, x, mask, tail=")")

    def conclude(self, s: Reduce) -> None:
        """The values of a row from the states of its lanes."""
        name = [identifier(v.name) for v in s.values]
        state = self.states(s)
        kind = self.kind(s.values[0].dtype)
        match s.reduction:
            case "sum":
                self.say(f"{name[0]} = tl.sum({state[0]}, 1, keep_dims=True)")
            case "count":
                self.say(f"{name[0]} = tl.sum({state[0]}, 1, keep_dims=True).to({kind})")
            case "max" | "min" | "prod":
                self.say(f"{name[0]} = {s.reduction}_lanes_({state[0]})")
            case "argmax":
                self.say(f"{name[0]} = argmax_lanes_({', '.join(state)}).to({kind})")
            case _:
                self.say(f"{', '.join(name)} = {s.reduction}_lanes_({', '.join(state)})")
                if s.reduction == "ties":
                    self.say(f"{name[1]} = {name[1]}.to({self.kind(s.values[1].dtype)})")
        self.results(s, name)

    def keep(self, s: Reduce, offset: int) -> None:
        """Leave the state of this part of the row for the next launch."""
        name = [identifier(v.name) for v in s.values]
        values = name
        if s.reduction == "logsumexp":
            values = [f'tl.where({name[1]} < 0.0, float("-inf"), {name[0]})', name[1]]
        elif s.reduction == "argmax":
            values = [f"tl.max({self.states(s)[0]}, 1, keep_dims=True)", name[0]]
        for i, value in enumerate(values):
            self.say("tl.store(", f"own + {offset + i}", f"({value}).to(tl.float64)", "mask=live", tail=")")


def width(items: Sequence[Item]) -> int:
    """How many numbers the states of a part of a row have."""
    return sum(STATES.get(r.reduction, 1) for s in items if isinstance(s, Sweep) for r in s.reductions)


def stops(items: Sequence[Item]) -> tuple[int, ...]:
    """The numbers of the sweeps that have reductions."""
    sweeps = [s for s in items if isinstance(s, Sweep)]
    return tuple(i for i, s in enumerate(sweeps) if s.reductions)


def kernels(stage: Stage) -> tuple[str, str]:
    """The text of both kernels of a stage; the second is empty where no row has anything to sweep over."""
    whole_rows = shared(stage, on_chip=True)
    first = Rows(stage, whole_rows, True, divisors(whole_rows)).text()
    if not stage.sweeps:
        return first, ""
    blocks = shared(stage, on_chip=False)
    return first, Blocks(stage, blocks, False, divisors(blocks)).text()
