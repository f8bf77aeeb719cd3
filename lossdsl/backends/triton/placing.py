"""Which whole-array operation goes into which launch, and what passes from one to the next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from lossdsl.backends.api import (
    Buffer,
    Load,
    NotSupportedError,
    Value,
)
from lossdsl.backends.flat import Argument, Flat, Op, Ref, Stored
from lossdsl.backends.triton.stages import KNOWN, TOTALS, Between

WITHIN_A_ROW = frozenset({"cumsum", "order"})
LIBRARY = {
    "contract": ", a product of whole matrices that is no sum over tiles",
    "logdet": ", a determinant of a whole matrix",
}


@dataclass(slots=True)
class Group:
    """A launch as it is filled: what is placed in it, with the axis that it runs along within a row."""

    rows: tuple[str, ...]
    anchors: list[tuple[int, str | None]] = field(default_factory=list)
    stores: list[tuple[Stored, str | None]] = field(default_factory=list)
    between: Between | None = None  # no launch, but what stands between two


class Placing:
    """Which anchor goes into which launch."""

    def __init__(self, flat: Flat, long: bool = False) -> None:
        self.long = long  # rows are too long for a program: orders, sums so far and picks go through memory
        self.arrays: list[Buffer] = []  # what orders and sums so far are computed of, then
        self.flat = flat
        self.program = flat.program
        self.groups: list[Group] = []
        self.group_of: dict[int, int] = {}  # by the number of an anchor
        self.totals: dict[int, tuple[str, ...]] = {}  # anchors that are sums over rows: the axes of their parts
        self.kept: dict[Ref, Buffer] = {}  # what passes to later launches
        self.loaded: dict[int, Load] = {}  # picks that read what an earlier launch has kept
        self.inner = {i for op in flat.ops if op.what == "root" for i in range(*op.attrs)}  # type: ignore[arg-type]
        self.names = self._names()
        self._behind: dict[int, frozenset[int]] = {}

    # --- operations ---------------------------------------------------------------------------------------------------

    def _names(self) -> dict[Ref, str]:
        found: dict[Ref, str] = {}
        taken: set[str] = set()
        for i, op in enumerate(self.flat.ops):
            for j, v in enumerate(op.values):
                found[Ref(i, j)] = v.name if v.name not in taken else f"{v.name}@{i}"
                taken.add(found[Ref(i, j)])
        return found

    def value(self, ref: Ref) -> Value:
        v = self.flat.ops[ref.op].values[ref.result]
        return Value(self.names[ref], v.axes, v.dtype)

    def axes(self, x: Argument) -> frozenset[str]:
        return frozenset(self.value(x).axes) if isinstance(x, Ref) else frozenset()

    def ordered(self, axes: frozenset[str]) -> tuple[str, ...]:
        return tuple(a for a in self.program.axes if a in axes)

    def is_anchor(self, i: int) -> bool:
        return self.flat.ops[i].what not in ("let", "load", "var") and i not in self.loaded

    def arguments(self, i: int) -> Iterator[Ref]:
        """What an operation reads; a root what its function reads outside of itself."""
        op = self.flat.ops[i]
        inside = range(*op.attrs) if op.what == "root" else range(0)  # type: ignore[arg-type]
        for j in (i, *inside):
            for a in self.flat.ops[j].args:
                if isinstance(a, Ref) and a.op not in inside:
                    yield a

    def behind(self, i: int) -> frozenset[int]:
        """The anchors that an operation's arguments come from."""
        if i not in self._behind:
            found: set[int] = set()
            for a in self.arguments(i):
                found |= {a.op} if self.is_anchor(a.op) else self.behind(a.op)
            if i in self.loaded:
                source = self.flat.ops[i].args[0]
                assert isinstance(source, Ref)
                found.discard(source.op)
                found.add(~source.op)  # it has to be in memory, so from a launch before
            self._behind[i] = frozenset(found)
        return self._behind[i]

    # --- placing ------------------------------------------------------------------------------------------------------

    def all(self) -> None:
        """Place every anchor that a result needs."""
        stores = [s for s in self.flat.stores if s.buffer.role == "out"]
        live: set[int] = set()
        todo = [x.op for s in stores for x in (s.value, s.where) if isinstance(x, Ref)]
        while todo:
            i = todo.pop()
            if i not in live:
                live.add(i)
                todo += [a.op for a in self.arguments(i)]
        for i in sorted(live - self.inner):
            op = self.flat.ops[i]
            if op.what == "pick":
                self.pick(i, op)
            elif op.what == "island" and self.long and op.name in WITHIN_A_ROW:
                self.between(i, op)
            elif self.is_anchor(i):
                self.place(i, op)
        for s in stores:
            self.store(s)
        for at, group in enumerate(self.groups):
            needed = {r for i, _ in group.anchors for r in self.outside(i, at)}
            for s, _ in group.stores:
                needed |= {r for x in (s.value, s.where) if isinstance(x, Ref) for r in self.reaching(x, at)}
            for ref in needed:
                self.keep(ref)

    def outside(self, i: int, at: int) -> Iterator[Ref]:
        for a in self.arguments(i):
            yield from self.reaching(a, at)

    def reaching(self, x: Ref, at: int) -> Iterator[Ref]:
        """The results of other launches that a value needs in launch `at`."""
        todo, seen = [x], set[Ref]()
        while todo:
            ref = todo.pop()
            if ref in seen:
                continue
            seen.add(ref)
            if ref.op in self.loaded:
                op = self.flat.ops[ref.op]
                assert isinstance(op.args[0], Ref)
                yield op.args[0]
                todo += [a for a in op.args[1:] if isinstance(a, Ref)]
            elif not self.is_anchor(ref.op):
                todo += list(self.arguments(ref.op))
            elif self.group_of[ref.op] != at and ref.op not in self.totals:
                yield ref

    def keep(self, ref: Ref) -> Buffer:
        """Scratch memory for a value."""
        if ref not in self.kept:
            v = self.value(ref)
            self.fits(frozenset(v.axes), v.name)
            mark = "@kept" if v.axes else "@one"
            self.kept[ref] = Buffer(f"{v.name}{mark}", v.axes, v.dtype, "scratch")
        return self.kept[ref]

    def fits(self, axes: frozenset[str], what: str) -> None:
        if not self.is_small(axes):
            raise NotSupportedError(f"{what}[{', '.join(self.ordered(axes))}], which is larger than any tensor given")

    def is_small(self, axes: frozenset[str]) -> bool:
        """Whether an array of these axes is no larger than a matrix of the call's tensors."""
        if len(axes) < 3:
            return True
        wanted = Counter(a.rstrip("'") for a in axes)
        tensors = [Counter(a.rstrip("'") for a in b.axes) for b in self.program.buffers if b.role != "scratch"]
        return any(wanted <= t for t in tensors)

    def available(self, needs: frozenset[int], at: int) -> bool:
        """Whether launch `at` can have these: of a launch before, or of its own where they are no sums over rows."""
        if self.groups[at].between is not None:
            return False
        return all(self.group_of[d] < at or (self.group_of[d] == at and d >= 0 and d not in self.totals) for d in needs)

    def place(self, i: int, op: Op) -> None:
        space = self.space(op)
        reduced = self.reduced(op)
        total = op.what == "scatter" or (op.what == "reduce" and op.name in TOTALS)
        if op.what == "island" and op.name not in WITHIN_A_ROW:
            raise NotSupportedError(f"the island {op.name!r}{LIBRARY.get(op.name, '')}")
        if op.what == "reduce" and op.name not in KNOWN:
            raise NotSupportedError(f"the reduction {op.name!r}")
        if not total and len(reduced) > 1:
            raise NotSupportedError(f"the reduction {op.name!r} over {', '.join(self.ordered(reduced))} at once")
        needs = self.behind(i)
        for at, group in enumerate(self.groups):
            rows = frozenset(group.rows)
            if not self.available(needs, at):
                continue
            if self.suits(space, rows, reduced, total):
                self.put(i, at, space, reduced)
                return
        rows = space - reduced
        if total and (len(reduced) > 1 or self.is_small(space)):  # along the last axis, which lies side by side
            rows = space - {max(space, key=self.program.axes.index)} if len(space) > 1 else space
        elif op.what in ("pick", "root", "island"):
            rows = space - reduced
        if len(space - rows) > 1:
            raise NotSupportedError(f"an operation along {', '.join(self.ordered(space - rows))} at once")
        self.groups.append(Group(self.ordered(rows)))
        self.put(i, len(self.groups) - 1, space, reduced)

    def suits(self, space: frozenset[str], rows: frozenset[str], reduced: frozenset[str], total: bool) -> bool:
        """Whether an anchor can be computed row by row: `reduced` lies within a row, or is summed over rows."""
        if not rows <= space or len(space - rows) > 1:
            return False
        if not reduced & rows:
            return reduced <= space - rows
        return total and self.is_small(rows if reduced & (space - rows) else space)

    def put(self, i: int, at: int, space: frozenset[str], reduced: frozenset[str]) -> None:
        group = self.groups[at]
        rest = space - frozenset(group.rows)
        column = next(iter(rest), None)
        if reduced & frozenset(group.rows):
            kept = space - reduced - frozenset(group.rows)
            self.totals[i] = self.ordered(frozenset(group.rows) | kept)
            self.fits(frozenset(self.totals[i]), "the parts of a sum")
        group.anchors.append((i, column))
        self.group_of[i] = at

    def space(self, op: Op) -> frozenset[str]:
        """All axes that an anchor runs along."""
        found = frozenset[str]().union(*(self.axes(a) for a in op.args), *(v.axes for v in op.values))
        if op.what == "root":
            for j in range(*op.attrs):  # type: ignore[arg-type]
                inner = self.flat.ops[j]
                found |= frozenset[str]().union(*(self.axes(a) for a in inner.args), *(v.axes for v in inner.values))
            return found
        if op.what == "island" and op.name == "order":  # the rank's axis takes the place of the sorted one
            return found - {str(op.attrs[1])}
        return found | self.reduced(op)

    def reduced(self, op: Op) -> frozenset[str]:
        """The axes that an anchor needs the whole of."""
        match op.what:
            case "reduce":
                return frozenset(op.attrs[0])  # type: ignore[arg-type]
            case "scatter":
                return frozenset(op.attrs[1])  # type: ignore[arg-type]
            case "island":
                return frozenset({str(op.attrs[0])})
            case "root":
                return self.space(op) - frozenset(op.values[0].axes)
        return frozenset()

    def pick(self, i: int, op: Op) -> None:
        """Within the row that has the source on chip, if there is one; else the source is kept, and this is a load."""
        axes, places = op.attrs
        source = op.args[0]
        assert isinstance(source, Ref)
        assert isinstance(axes, tuple)
        assert isinstance(places, tuple)
        at = self.group_of.get(source.op) if self.is_anchor(source.op) else None
        if at is not None and len(axes) == 1 and not self.long:
            rows = frozenset(self.groups[at].rows)
            result = frozenset(op.values[0].axes)
            index = frozenset({str(p) for p in places if p}).union(*(self.axes(a) for a in op.args[1:]))
            inside = self.axes(source) - rows == {str(axes[0])} and rows <= self.axes(source)
            if inside and len(result - rows) < 2 and len(index - rows) < 2 and self.available(self.behind(i), at):
                self.groups[at].anchors.append((i, str(axes[0])))
                self.group_of[i] = at
                return
        if source.op in self.totals:
            buffer = Buffer(f"{self.names[source]}@sum", self.value(source).axes, "real", "scratch")
        else:
            buffer = self.keep(source)
        if self.is_anchor(source.op):
            self.group_of[~source.op] = self.group_of[source.op]
        elif ~source.op not in self.group_of:  # computed for its own sake, in a launch before
            self.group_of[~source.op] = self.store(Stored(buffer, buffer.axes, source, None, Fraction(0), None))
        self._behind.pop(i, None)
        index_of = self.places(op.args[1:], axes, places)
        where = tuple(index_of.get(a, a) for a in buffer.axes)
        self.loaded[i] = Load(self.value(Ref(i)), buffer.name, where, op.origin)

    def between(self, i: int, op: Op) -> None:
        """An order or a sum so far as what stands between the launch that puts down its arguments and later ones."""
        axes = self.ordered(self.space(op))
        name = self.names[Ref(i)]
        whole = op.name == "cumsum" and op.values[0].dtype != "real"
        masked = op.args[1] if op.name == "cumsum" and len(op.args) == 2 else None
        given = [Buffer(f"{name}@given", axes, "int" if whole else "real", "scratch")]
        self.fits(frozenset(axes), given[0].name)
        self.store(Stored(given[0], axes, op.args[0], masked, Fraction(0), None))
        if op.name == "order" and len(op.args) == 2:
            given.append(Buffer(f"{name}@present", axes, "bool", "scratch"))
            self.store(Stored(given[1], axes, op.args[1], None, Fraction(0), None))
        self.arrays += given
        axis = str(op.attrs[0])
        order = op.name == "order"
        backwards = bool(op.attrs[2]) if order else True in op.attrs[1:]
        ranks = str(op.attrs[1]) if order else axis
        made = Between(op.name, self.keep(Ref(i)), tuple(given), axis, backwards, ranks)
        self.groups.append(Group((), between=made))
        self.group_of[i] = len(self.groups) - 1

    def places(self, args: Sequence[Argument], axes: Sequence[object], places: Sequence[object]) -> dict[str, str]:
        found, rest = {}, iter(args)
        for a, place in zip(axes, places, strict=True):
            found[str(a)] = str(place) if place else self.names[next(rest)]  # type: ignore[index]
        return found

    def store(self, s: Stored) -> int:
        """Place what is stored; the launch."""
        space = frozenset(s.index)
        needs = frozenset[int]()
        for x in (s.value, s.where):
            if isinstance(x, Ref):
                needs |= {x.op} if self.is_anchor(x.op) else self.behind(x.op)
        for at, group in enumerate(self.groups):
            rows = frozenset(group.rows)
            if rows <= space and len(space - rows) < 2 and self.available(needs, at):
                group.stores.append((s, next(iter(space - rows), None)))
                return at
        rows = space - {max(space, key=self.program.axes.index)} if len(space) > 1 else space
        self.groups.append(Group(self.ordered(rows)))
        self.groups[-1].stores.append((s, next(iter(space - rows), None)))
        return len(self.groups) - 1
