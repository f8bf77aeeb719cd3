"""The two kernels of a stage that goes over matrices: one by rows, with the cotangents of their factors, and one by
columns for those of the others. Each multiplies a tile of a matrix where it reads one, and keeps none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lossdsl.backends.api import Load, NotSupportedError, Reduce, Store
from lossdsl.backends.triton.arguments import arguments, cols, decorator, divisors, size
from lossdsl.backends.triton.blocks import Blocks, width
from lossdsl.backends.triton.layout import wrapped
from lossdsl.backends.triton.notes import docstring, purpose
from lossdsl.backends.triton.products import Tiled
from lossdsl.backends.triton.separating import Product
from lossdsl.backends.triton.sharing import shared
from lossdsl.backends.triton.spell import Term, identifier
from lossdsl.backends.triton.stages import Guard, Item, Stage, Sweep


def tile_kernels(t: Tiled) -> tuple[str, str]:
    """The text of both kernels; the second is empty where the stage stores no cotangent."""
    items = shared(t.stage, on_chip=False)
    first = Rows(t, t.stage, items).text()
    if t.flipped is None:
        return first, ""
    items = shared(t.flipped, on_chip=False)
    return first, Columns(t, t.flipped, items).text()


def plain_buffers(t: Tiled, stage: Stage) -> Stage:
    """The stage without matrices and their cotangents, which are no tensors."""
    gone = {name for p in t.products for name in (p.matrix, p.cotangent)}
    return replace(stage, buffers=tuple(b for b in stage.buffers if b.name not in gone))


def factor_arguments(t: Tiled) -> list[str]:
    """What both kernels are given of each product: factors, bias, the cotangent that the kernel makes (parts first),
    and the extent of what is summed."""
    found = []
    for p in t.products:
        name = identifier(p.matrix)
        for word in ("own", "other"):
            found += [f"{word}_{name}_", f"{word}_{name}_row_", f"{word}_{name}_over_"]
        if p.bias is not None:
            found += [f"bias_{name}_", f"bias_{name}_row_"]
        found += [f"d_{name}_", f"d_bias_{name}_", f"over_{name}_"]
    return found


class _Tiles(Blocks):
    """What both have: tiles of matrices, and sums of cotangents. `GIVE` says of each matrix which are wanted."""

    def __init__(self, t: Tiled, stage: Stage, items: Sequence[Item]) -> None:
        super().__init__(stage, items, False, divisors(items))
        self.tiled = t
        self.matrices = {p.matrix: p for p in t.products}
        self.cotangents = {p.cotangent: p for p in t.products if p.cotangent}
        self.loaded: set[str] = set()

    @property
    def column(self) -> str:
        """The axis of the sweeps."""
        return self.tiled.other[0].axes[0]

    def head(self, name: str, more: Sequence[str]) -> list[str]:
        plain = plain_buffers(self.tiled, self.stage)
        given = arguments(plain)
        if size(self.column) not in given:
            given.append(size(self.column))
        given += [*factor_arguments(self.tiled), *more]
        given += [
            "REAL: tl.constexpr",
            "K: tl.constexpr",
            "R: tl.constexpr",
            f"B_{identifier(self.column)}: tl.constexpr",
        ]
        given += [f"F_{identifier(p.matrix)}_: tl.constexpr" for p in self.tiled.products]
        given += [f"GIVE_{identifier(p.matrix)}_: tl.constexpr" for p in self.tiled.products]
        return [decorator(plain, given), *wrapped(f"def {name}(", given, "):")]

    def features(self) -> None:
        for p in self.tiled.products:
            name = identifier(p.matrix)
            self.say(f"at_{name}_ = tl.arange(0, F_{name}_)[None, :]")
            self.say(f"in_{name}_ = at_{name}_ < over_{name}_")

    def factor(self, word: str, p: Product, place: str, there: str) -> None:
        """Some rows of a factor."""
        name = f"{word}_{identifier(p.matrix)}"
        over = identifier(p.matrix)
        self.say(
            f"{name}_tile_ = tl.load(",
            f"{name}_ + {place} * {name}_row_ + at_{over}_ * {name}_over_",
            f"mask={there} & in_{over}_",
            "other=0",
            tail=").to(REAL)",
        )

    def bias(self, p: Product) -> str:
        """What is added to a tile."""
        if p.bias is None:
            return ""
        name = f"bias_{identifier(p.matrix)}"
        along = p.bias.axes == self.stage.rows
        place, there = ("row", "live") if along else (cols(self.column), f"ok_{identifier(self.column)}")
        if name not in self.loaded:
            self.loaded.add(name)
            self.say(f"{name}_tile_ = tl.load({name}_ + {place} * {name}_row_, mask={there}, other=0).to(REAL)")
        return f" + {name}_tile_"

    def load(self, s: Load) -> None:
        p = self.matrices.get(s.buffer)
        if p is None:
            super().load(s)
            return
        name, target = identifier(p.matrix), identifier(s.value.name)
        self.say(f"{target} = tl.zeros((R, B_{identifier(self.column)}), REAL)")
        self.say(f"for k_{name}_ in range(0, F_{name}_, K):")
        self.depth += 1
        self.say(f"part_{name}_ = k_{name}_ + tl.arange(0, K)[None, :]")
        for word, (place, there) in {"own": ("row", "live"), "other": self.others()}.items():
            self.say(
                f"{word}_{name}_part_ = tl.load(",
                f"{word}_{name}_ + {place} * {word}_{name}_row_ + part_{name}_ * {word}_{name}_over_",
                f"mask={there} & (part_{name}_ < over_{name}_)",
                "other=0",
                tail=").to(REAL)",
            )
        factors = f"own_{name}_part_, tl.trans(other_{name}_part_)"
        self.say(f'{target} = tl.dot({factors}, {target}, input_precision="ieee")')
        self.depth -= 1
        if added := self.bias(p):
            self.say(f"{target} = {target}{added}")
        self.names[s.value.name] = Term(identifier(s.value.name), "real", frozenset(s.value.axes))

    def others(self) -> tuple[str, str]:
        """Where rows of the factors along the sweeps lie, and which of them are there."""
        raise NotImplementedError

    def store(self, s: Store) -> None:
        p = self.cotangents.get(s.buffer)
        if p is None:
            super().store(s)
            return
        name, a = identifier(p.matrix), identifier(self.column)
        if s.otherwise != 0:
            raise NotSupportedError("a cotangent of a matrix that is not 0 where no row is")
        there = f"live & ok_{a}" + ("" if s.where is None else f" & {self.term(s.where).text}")
        self.say(f"g_{name}_ = tl.where({there}, {self.cast(s.value, 'real')}, 0.0)")
        self.gather(p)

    def gather(self, p: Product) -> None:
        """Add what a tile's cotangent gives."""
        raise NotImplementedError

    def dot(self, p: Product, word: str, left: str, right: str) -> None:
        name = identifier(p.matrix)
        self.say(f'sum_{name}_ = tl.dot({left}, {right}, sum_{name}_, input_precision="ieee")')


class Rows(_Tiles):
    """A program goes over all columns (or a share of them) for a block of rows."""

    def text(self) -> str:
        name = f"_{self.stage.name}_tiles"
        a = identifier(self.column)
        self.say("split = tl.program_id(1)")
        self.begin()
        self.say("first = live & (lane * 0 + split == 0)")
        self.say(f"share_{a} = tl.cdiv(tl.cdiv({size(self.column)}, B_{a}), splits) * B_{a}")
        self.say(f"begin_{a} = split * share_{a}")
        self.say(f"end_{a} = tl.minimum(begin_{a} + share_{a}, {size(self.column)})")
        self.features()
        self.visit()
        more = ["part", "splits"]
        lines = [line.replace("PARTS", str(width(self.items))) for line in self.lines]
        last = ["FIRST: tl.constexpr", "LAST: tl.constexpr", "P: tl.constexpr"]
        said = docstring(
            f"{purpose(self.stage)} R rows a program and their factors, and of {self.column} a block at a time: "
            "matrices are multiplied where they are read."
        )
        return "\n".join([*self.head(name, [*more, *last]), *said, *lines])

    def sweep(self, item: Sweep, number: int) -> None:
        a = identifier(item.axis)
        self.opened(item, number, "R")
        given = [self.cotangents[s.buffer] for s in item.body if isinstance(s, Store) and s.buffer in self.cotangents]
        for p in given:
            self.say(f"sum_{identifier(p.matrix)}_ = tl.zeros((R, F_{identifier(p.matrix)}_), REAL)")
        self.say(f"for start in range(begin_{a}, end_{a}, B_{a}):")
        self.depth += 1
        self.say(f"{cols(item.axis)} = (start + tl.arange(0, B_{a}))[None, :]")
        self.say(f"places_{a} = (start + tl.arange(0, B_{a}))[:, None].to(tl.int64)")
        self.say(f"ok_{a} = {cols(item.axis)} < end_{a}")
        self.loaded = set()
        self.visited(item)
        self.depth -= 1
        for p in given:
            self.result(p)
        self.depth -= 1
        self.merged(item, number, "live & (lanes < splits)")

    def others(self) -> tuple[str, str]:
        a = identifier(self.column)
        return f"places_{a}", f"(places_{a} < end_{a})"

    def gather(self, p: Product) -> None:
        name = identifier(p.matrix)
        self.say(f"if GIVE_{name}_:")
        self.depth += 1
        self.factor("other", p, *self.others())
        self.dot(p, "own", f"g_{name}_", f"other_{name}_tile_")
        self.depth -= 1

    def result(self, p: Product) -> None:
        name = identifier(p.matrix)
        (row,) = self.stage.rows
        self.say(f"if GIVE_{name}_:")
        self.depth += 1
        self.say(
            "tl.store(",
            f"d_{name}_ + (split.to(tl.int64) * {size(row)} + row) * over_{name}_ + at_{name}_",
            f"sum_{name}_",
            f"mask=live & in_{name}_",
            tail=")",
        )
        self.depth -= 1


class Columns(_Tiles):
    """A program goes over all rows (or a share of them) for a block of columns."""

    def text(self) -> str:
        name = f"_{self.stage.name}_tiles"
        a, (row,) = identifier(self.column), self.stage.rows
        r = identifier(row)
        self.say("split = tl.program_id(1)")
        self.say(f"{cols(self.column)} = (tl.program_id(0) * B_{a} + tl.arange(0, B_{a}))[None, :]")
        self.say(f"places_{a} = (tl.program_id(0) * B_{a} + tl.arange(0, B_{a}))[:, None].to(tl.int64)")
        self.say(f"ok_{a} = {cols(self.column)} < {size(self.column)}")
        self.features()
        for number in self.stage.scalars:
            self.plain(number)
        for p in self.tiled.products:
            n = identifier(p.matrix)
            self.say(f"sum_{n}_ = tl.zeros((B_{a}, F_{n}_), REAL)")
            self.say(f"total_{n}_ = tl.zeros((1, B_{a}), REAL)")
        self.say(f"share_{r} = tl.cdiv(tl.cdiv({size(row)}, R), splits) * R")
        self.say(f"end_{r} = tl.minimum((split + 1) * share_{r}, {size(row)})")
        self.say(f"for start in range(split * share_{r}, end_{r}, R):")
        self.depth += 1
        self.say("row = (start + tl.arange(0, R))[:, None].to(tl.int64)")
        self.say(f"live = row < end_{r}")
        for item in self.items:
            if isinstance(item, Sweep):
                self.axis = item.axis
                for s in item.body:
                    assert not isinstance(s, Reduce)
                    self.plain(s)
                self.axis = None
            else:
                assert not isinstance(item, Guard)
                self.plain(item)
        self.depth -= 1
        for p in self.tiled.products:
            self.result(p)
        said = docstring(f"{purpose(self.stage)} The same by {self.column}: cotangents of the factors along it.")
        return "\n".join([*self.head(name, ["splits"]), *said, *self.lines])

    def others(self) -> tuple[str, str]:
        return f"places_{identifier(self.column)}", f"(places_{identifier(self.column)} < {size(self.column)})"

    def gather(self, p: Product) -> None:
        name = identifier(p.matrix)
        self.say(f"if GIVE_{name}_ & 1:")
        self.depth += 1
        self.factor("own", p, "row", "live")
        self.dot(p, "other", f"tl.trans(g_{name}_)", f"own_{name}_tile_")
        self.depth -= 1
        if p.bias is not None:
            self.say(f"if GIVE_{name}_ & 2:")
            self.depth += 1
            self.say(f"total_{name}_ += tl.sum(g_{name}_, 0, keep_dims=True)")
            self.depth -= 1

    def result(self, p: Product) -> None:
        name, a = identifier(p.matrix), identifier(self.column)
        n = size(self.column)
        self.say(f"if GIVE_{name}_ & 1:")
        self.depth += 1
        self.say(
            "tl.store(",
            f"d_{name}_ + (split.to(tl.int64) * {n} + places_{a}) * over_{name}_ + at_{name}_",
            f"sum_{name}_",
            f"mask=(places_{a} < {n}) & in_{name}_",
            tail=")",
        )
        self.depth -= 1
        if p.bias is not None:
            self.say(f"if GIVE_{name}_ & 2:")
            self.depth += 1
            self.say(f"tl.store(d_bias_{name}_ + split * {n} + {cols(self.column)}, total_{name}_, mask=ok_{a})")
            self.depth -= 1
