"""The kernel that has whole rows on chip."""

from __future__ import annotations

import re

from lossdsl.backends.api import Island, Let, Load, NotSupportedError, Pick, Reduce
from lossdsl.backends.triton import islands
from lossdsl.backends.triton.arguments import along, arguments, cols, decorator, size
from lossdsl.backends.triton.layout import wrapped
from lossdsl.backends.triton.notes import docstring, purpose, subject
from lossdsl.backends.triton.printer import Printer
from lossdsl.backends.triton.sharing import exponential
from lossdsl.backends.triton.spell import Term, identifier
from lossdsl.backends.triton.stages import Guard, Item, Plain, Sweep


class Rows(Printer):
    """A kernel that has whole rows on chip, several a program where they are short."""

    def text(self) -> str:
        name = f"_{self.stage.name}_rows"
        blocks = [f"B_{identifier(a)}: tl.constexpr" for a in self.stage.axes]
        blocks += [f"EVEN_{identifier(a)}: tl.constexpr" for a in along(self.stage)]
        self.begin()
        for axis in self.stage.axes:
            self.say(f"{cols(axis)} = tl.arange(0, B_{identifier(axis)})[None, :]")
            self.say(f"ok_{identifier(axis)} = {cols(axis)} < {size(axis)}")
        for item in self.items:
            self.item(item)
        using = [line for line in self.lines if re.search(r"\blive\b", line.partition("#")[0])]
        if len(using) == 1:  # which defines it
            self.lines.remove(using[0])
        given = [*arguments(self.stage), "REAL: tl.constexpr", "R: tl.constexpr", *blocks]
        how = f" Whole rows of {' and of '.join(self.stage.axes)} on chip" if self.stage.axes else " A number a row"
        said = docstring(f"{purpose(self.stage)}{how}, R rows a program.")
        return "\n".join([decorator(self.stage, given), *wrapped(f"def {name}(", given, "):"), *said, *self.lines])

    def item(self, item: Item) -> None:
        if isinstance(item, Guard):
            self.guard(item)
        elif isinstance(item, Sweep):
            self.axis = item.axis
            self.note(f"along {item.axis}: {subject(item)}")
            self.barrier(item.body)
            for s in item.body:
                self.axis = self.along(s, item.axis)
                if isinstance(s, Reduce):
                    self.reduce(s)
                elif isinstance(s, Island):
                    islands.island(self, s)
                elif isinstance(s, Pick):
                    islands.pick(self, s)
                else:
                    self.plain(s)
            self.axis = None
        elif isinstance(item, Island):
            islands.root(self, item, lambda _: islands.body_on_chip(self, item))
        else:
            self.plain(item)

    def along(self, s: Plain, axis: str) -> str:
        """The axis of a statement within a sweep: a pick's places may lie along a copy of the sweep's."""
        others = [a for a in s.value.axes if a in self.stage.axes] if isinstance(s, Let | Load) else []
        return axis if axis in others or not others else others[0]

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
