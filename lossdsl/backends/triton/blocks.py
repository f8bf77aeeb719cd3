"""The kernel that goes over rows in blocks."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lossdsl.backends.api import Island, NotSupportedError, Reduce
from lossdsl.backends.triton import islands
from lossdsl.backends.triton.arguments import arguments, cols, decorator, size
from lossdsl.backends.triton.layout import wrapped
from lossdsl.backends.triton.notes import docstring, purpose, subject
from lossdsl.backends.triton.printer import NEUTRAL, Printer
from lossdsl.backends.triton.spell import identifier
from lossdsl.backends.triton.stages import Guard, Item, Sweep

STATES = {"logsumexp": 2, "argmax": 2, "ties": 2}  # parts of a reduction's state, else 1


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
        self.note("the part of a row that this program sees to, and where its last whole block ends")
        self.say("first = live & (lane + split == 0)")
        for axis in self.stage.axes:
            a = identifier(axis)
            self.say(f"share_{a} = tl.cdiv(tl.cdiv({size(axis)}, B_{a}), splits) * B_{a}")
            self.say(f"begin_{a} = split * share_{a}")  # a multiple of the block, for wide loads
            self.say(f"end_{a} = tl.maximum(begin_{a}, tl.minimum(begin_{a} + share_{a}, {size(axis)}))")
            self.say(f"full_{a} = begin_{a} + (end_{a} - begin_{a}) // B_{a} * B_{a}")
        if width(self.items):
            self.note("what the programs of a row leave for the next launch")
        self.visit()
        given = [*arguments(self.stage), "part", "splits", "REAL: tl.constexpr", "R: tl.constexpr", *blocks]
        given += ["FIRST: tl.constexpr", "LAST: tl.constexpr", "P: tl.constexpr"]
        lines = [line.replace("PARTS", str(width(self.items))) for line in self.lines]
        using = [line for line in lines if re.search(r"\bfirst\b", line.partition("#")[0])]
        if len(using) == 1:  # which defines it
            lines.remove(using[0])
        along = " and of ".join(map(str, self.stage.axes))
        said = docstring(f"{purpose(self.stage)} Rows of {along} in blocks, each by `splits` programs.")
        return "\n".join([decorator(self.stage, given), *wrapped(f"def {name}(", given, "):"), *said, *lines])

    def visit(self) -> None:
        """All items, sweeps by their number, after the places of what programs of a row leave for each other."""
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
            elif isinstance(item, Island):
                islands.root(self, item, lambda name, s=item: self.function(s, name))  # type: ignore[misc]
            else:
                self.plain(item)

    def function(self, s: Island, name: str) -> None:
        """The body of a root's function: its sweeps over the row, by one program, which reads it again each time."""
        for number, (row, body) in enumerate(islands.levels(s)):
            for t in row:
                self.plain(t)
            if not body:
                continue
            sweep = Sweep(str(s.attrs[0]), tuple(body))
            self.begun(sweep, "1")
            self.walked(sweep, False, f"{name}_{number}_")
            for r in sweep.reductions:
                self.conclude(r)

    def sweep(self, item: Sweep, number: int) -> None:
        self.opened(item, number, "1")
        self.barrier(item.body)
        back = number % 2 == 1
        order = "the tail, then whole blocks, the last first: they are in the cache"
        self.note(order if back else "whole blocks, then the tail")
        self.walked(item, back, "")
        self.depth -= 1
        self.merged(item, number, "lanes < splits")

    def walked(self, item: Sweep, back: bool, named: str) -> None:
        """The loops over a row's blocks; their variables have names of their own within a loop around them."""
        a = identifier(item.axis)
        step, tail, lo, hi, start = (f"{named}{x}" for x in ("step", "tail", "lo", "hi", "start"))
        self.say(f"for {step} in tl.static_range(2):")
        self.depth += 1
        self.say(f"{tail} = 1 - {step}" if back else f"{tail} = {step}")
        self.say(f"{lo} = full_{a} if {tail} else begin_{a}")
        self.say(f"{hi} = end_{a} if {tail} else full_{a}")
        self.say(f"for {start} in range({lo}, {hi}, B_{a}):")
        self.depth += 1
        at = start
        if back:
            at = f"{named}at"
            self.say(f"{at} = {start} if {tail} else {lo} + ({hi} - B_{a} - {start})")
        self.say(f"{cols(item.axis)} = ({at} + tl.arange(0, B_{a}))[None, :]")
        self.say(f"ok_{a} = {cols(item.axis)} < end_{a} if {tail} else tl.full((1, B_{a}), True, tl.int1)")
        self.visited(item)
        self.depth -= 2

    def opened(self, item: Sweep, number: int, rows: str) -> None:
        """The states of a sweep's reductions before it."""
        self.note(f"sweep {number}, along {item.axis}: {subject(item)}")
        self.say(f"if FIRST <= {number}:")
        self.depth += 1
        self.begun(item, rows)

    def begun(self, item: Sweep, rows: str) -> None:
        """The neutral states of a sweep's reductions."""
        for r in item.reductions:
            for state, (start, kind) in zip(self.states(r), self.initial(r), strict=True):
                self.say(f"{state} = tl.full(({rows}, B_{identifier(item.axis)}), {start}, {kind})")

    def visited(self, item: Sweep) -> None:
        """The statements of a sweep on one block."""
        outer = dict(self.names)
        self.axis = item.axis
        for s in item.body:
            if isinstance(s, Reduce):
                self.add(s)
            else:
                self.plain(s)
        self.axis = None
        self.names = outer

    def merged(self, item: Sweep, number: int, there: str) -> None:
        """What follows a sweep: its reductions, from this program's states or from those that programs have left."""
        if not item.reductions:
            return
        offsets, offset = {}, 0
        for s in self.items:
            for r in s.reductions if isinstance(s, Sweep) else ():
                offsets[r.values[0].name] = offset
                offset += STATES.get(r.reduction, 1)
        self.say("else:")
        self.depth += 1
        self.note("as the programs of the row have left it")
        for r in item.reductions:
            for i, (state, (start, kind)) in enumerate(zip(self.states(r), self.initial(r), strict=True)):
                place = f"states + {offsets[r.values[0].name] + i}"
                self.say(f"{state} = tl.load(", place, f"mask={there}", f"other={start}", tail=f").to({kind})")
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
            values = [f"max_lanes_({self.states(s)[0]})", name[0]]
        for i, value in enumerate(values):
            wide = f"{value if value.isidentifier() or value.endswith(')') else f'({value})'}.to(tl.float64)"
            self.say("tl.store(", f"own + {offset + i}", wide, "mask=live", tail=")")


def width(items: Sequence[Item]) -> int:
    """How many numbers the states of a part of a row have."""
    return sum(STATES.get(r.reduction, 1) for s in items if isinstance(s, Sweep) for r in s.reductions)


def stops(items: Sequence[Item]) -> tuple[int, ...]:
    """The numbers of the sweeps that have reductions, after each of which a launch may end; none with a root, whose
    function goes over all of a row many times."""
    if any(isinstance(s, Island) for s in items):
        return ()
    sweeps = [s for s in items if isinstance(s, Sweep)]
    return tuple(i for i, s in enumerate(sweeps) if s.reductions)
