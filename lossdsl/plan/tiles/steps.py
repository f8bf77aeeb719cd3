"""From levels to steps: the graphs of the tiles' sweeps and of what is computed between them, asked for by need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf

from lossdsl.check.types import Type
from lossdsl.ir.builder import Builder
from lossdsl.ir.graph import Attr, Graph, Leaf, Node, restricted
from lossdsl.plan.tiles.levels import Levels, NotTiledError
from lossdsl.primitives.interval import FINITE, NONNEGATIVE
from lossdsl.registry import Registry

ROW, SIZE = "@row", "@size"  # the numbers of a tile's rows, and how many rows there are in all


@dataclass(frozen=True, slots=True)
class Give:
    """A value that a step gives. `how` is "whole", "rows" (a tile's part of it), "matrix" (a matrix's cotangent), or
    the reduction that merges what the tiles give."""

    name: str
    axes: tuple[str, ...]
    how: str


@dataclass(frozen=True, slots=True)
class Step:
    """A graph to be run as one kernel: on whole values, or (a sweep) on each tile. Its leaves are values by name;
    those in `sliced` come a tile at a time, along the dimension given."""

    graph: Graph
    sweep: bool
    sliced: tuple[tuple[str, int], ...]
    gives: tuple[Give, ...]


@dataclass(frozen=True, slots=True)
class Schedule:
    """Steps in order, and by which name each output is there when they are done (cotangents of matrices apart)."""

    steps: tuple[Step, ...]
    outputs: tuple[tuple[str, str], ...]


def schedule_tiles(known: Levels, registry: Registry, outputs: Sequence[str]) -> Schedule:
    """The steps that some of the graph's outputs need. NotTiledError where an output needs the whole matrix."""
    return _Assembly(known, registry).schedule(outputs)


@dataclass(slots=True)
class _Writer:
    """The graph of one step as it grows."""

    b: Builder
    memo: dict[int, int] = field(default_factory=dict)
    sliced: dict[str, int] = field(default_factory=dict)
    gives: list[tuple[Give, int]] = field(default_factory=list)


class _Assembly:
    def __init__(self, known: Levels, registry: Registry) -> None:
        self.known = known
        self.graph = known.graph
        self.registry = registry
        self.leaves = {leaf.name: leaf for leaf in known.graph.leaves}
        self.rows = _fresh(known.graph.axes)
        self.sweeps: dict[int, _Writer] = {}
        self.wholes: dict[int, _Writer] = {}
        self.values: dict[int, str] = {}

    def schedule(self, outputs: Sequence[str]) -> Schedule:
        found = []
        for name in outputs:
            n = self.graph.output(name)
            found.append((name, self.output(name, n)))
        steps = []
        for k in range(max((*self.sweeps, *self.wholes), default=-1) + 1):
            for sweep, writers in ((False, self.wholes), (True, self.sweeps)):
                if k in writers:
                    steps.append(self.step(writers[k], sweep))
        return Schedule(tuple(steps), tuple(found))

    def step(self, w: _Writer, sweep: bool) -> Step:
        graph = w.b.graph({give.name: n for give, n in w.gives})
        graph = restricted(graph, graph.outputs)
        sliced = tuple((leaf.name, w.sliced[leaf.name]) for leaf in graph.leaves if leaf.name in w.sliced)
        return Step(graph, sweep, sliced, tuple(give for give, _ in w.gives))

    # --- what is asked for ------------------------------------------------------------------------------------------

    def output(self, name: str, n: int) -> str:
        """The name under which an output is there."""
        known, node = self.known, self.graph.nodes[n]
        head, _, leaf = name.partition(".")
        axes = self.leaves[leaf].axes if head == "grad" else self.graph.batch
        name = name if head == "grad" else f"out.{name}"  # an input may be called weight, too
        if leaf.startswith("@z"):
            self.give(known.levels[n], n, name, axes, "matrix")
            return name
        tiled = known.axis in axes and known.from_matrix[n]
        if known.wide(n) or (tiled and known.kinds[n] == "inline" and known.levels[n] == 0):
            self.give(known.levels[n], n, name, axes, "rows")
            return name
        if axes != self.ordered(node.type.axes):  # constant along some of its axes
            self.whole_give(n, name, axes)
            return name
        return self.value(n)

    def give(self, k: int, n: int, name: str, axes: tuple[str, ...], how: str) -> None:
        w = self.sweep(k)
        made = self.in_tile(w, n, k)
        w.gives.append((Give(name, tuple(self.renamed(a) for a in axes), how), made))

    def whole_give(self, n: int, name: str, axes: tuple[str, ...]) -> None:
        k = max(self.known.there[n], 0)
        w = self.whole(k)
        made = w.memo[n] if n in w.memo else self.in_whole(w, n, k)
        w.gives.append((Give(name, axes, "whole"), made))

    def value(self, n: int) -> str:
        """A node's whole value: its name; what it takes to have it is put into its step."""
        if n in self.values:
            return self.values[n]
        known, node = self.known, self.graph.nodes[n]
        if node.op == "leaf":
            if known.there[n] < 0:
                raise NotTiledError(f"all of {node.attrs[0]} is needed at once", node.origin)
            return str(node.attrs[0])
        name = self.values[n] = f"@v{n}"
        axes = self.ordered(node.type.axes)
        if known.wide(n):
            raise NotTiledError("a value for every entry of the matrix is needed at once", node.origin)
        if known.kinds[n] == "merge":
            k = known.levels[n] - 1
            w = self.sweep(k)
            args = [self.in_tile(w, a, k) for a in node.args]
            how = "sum" if node.op == "scatter" or node.attrs[0] == "count" else str(node.attrs[0])
            merged = self.log_sum(w, node, args) if how == "logsumexp" else self.again(w, node, args, tile=True)
            w.gives.append((Give(name, axes, how), merged))
        elif known.kinds[n] == "inline" and known.reads_wide(n):
            self.give(known.levels[n], n, name, axes, "rows")
        else:
            k = known.there[n]
            w = self.whole(k)
            w.gives.append((Give(name, axes, "whole"), self.in_whole(w, n, k)))
        return name

    def log_sum(self, w: _Writer, node: Node, args: list[int]) -> int:
        """The log-sum-exp of a tile's rows by its maximum, found first: a running one would be an array of maxima that
        are looked at, and sums that are rescaled, at every entry."""
        b, over = w.b, tuple(map(self.renamed, node.attrs[1]))  # type: ignore[arg-type]
        kept, wide = self.retyped(node.type), b.type(args[0])
        wide = Type(wide.axes | (b.type(args[1]).axes if len(args) == 2 else frozenset()), "real", FINITE)
        top = b.raw("reduce", args, ("max", over), kept)
        none = b.raw("eq", (top, b.const(-inf)), (), replace(kept, kind="bool"))
        safe = b.raw("select", (none, b.const(0), top), (), kept)
        powers = b.raw("exp", (b.raw("sub", (args[0], safe), (), wide),), (), wide)
        total = b.raw("reduce", (powers, *args[1:]), ("sum", over), kept)
        return b.raw("add", (safe, b.raw("log", (total,), (), kept)), (), kept)

    # --- building -----------------------------------------------------------------------------------------------------

    def sweep(self, k: int) -> _Writer:
        return self._writer(self.sweeps, k)

    def whole(self, k: int) -> _Writer:
        return self._writer(self.wholes, k)

    def _writer(self, writers: dict[int, _Writer], k: int) -> _Writer:
        if k not in writers:
            tile = writers is self.sweeps
            axes = [self.renamed(a) if tile else a for a in self.graph.axes]
            batch = [self.renamed(a) if tile else a for a in self.graph.batch]
            writers[k] = _Writer(Builder(self.registry, self.graph.name, axes, batch))
        return writers[k]

    def in_tile(self, w: _Writer, n: int, k: int) -> int:
        """A node in the graph of sweep k."""
        if n in w.memo:
            return w.memo[n]
        known, node = self.known, self.graph.nodes[n]
        kind = known.kinds[n]
        kept = kind == "inline" and not known.wide(n) and known.levels[n] < k and known.reads_wide(n)
        if kind == "leaf":
            made = self.read_leaf(w, self.leaves[str(node.attrs[0])], tile=True)
        elif kind in ("whole", "merge") or (kept and not known.in_root[n]):
            made = self.read(w, n, tile=True)
        elif (leaf := self.counted(node)) is not None:
            made = self.read_leaf(w, leaf, tile=True)
        else:
            made = self.again(w, node, [self.in_tile(w, a, k) for a in node.args], tile=True)
        w.memo[n] = made
        return made

    def in_whole(self, w: _Writer, n: int, k: int) -> int:
        """A node in the graph of what is computed before sweep k."""
        if n in w.memo:
            return w.memo[n]
        known, node = self.known, self.graph.nodes[n]
        given = known.kinds[n] == "inline" and known.reads_wide(n)
        earlier = known.kinds[n] == "whole" and known.there[n] < k
        if known.kinds[n] == "leaf":
            if known.there[n] < 0:
                raise NotTiledError(f"all of {node.attrs[0]} is needed at once", node.origin)
            made = self.read_leaf(w, self.leaves[str(node.attrs[0])], tile=False)
        elif not known.in_root[n] and (known.kinds[n] == "merge" or given or earlier):
            made = self.read(w, n, tile=False)
        elif (leaf := self.counted(node)) is not None:
            made = self.read_leaf(w, leaf, tile=False)
        elif known.wide(n) and not known.in_root[n]:
            raise NotTiledError("a value for every entry of the matrix is needed at once", node.origin)
        else:
            made = self.again(w, node, [self.in_whole(w, a, k) for a in node.args], tile=False)
        w.memo[n] = made
        return made

    def counted(self, node: Node) -> Leaf | None:
        """The numbers of rows and how many there are: a step sees some of the rows only."""
        axis = self.known.axis
        if node.op == "index" and node.attrs[0] == axis:
            return Leaf(ROW, (axis,), Type(frozenset({axis}), "int", NONNEGATIVE), "input", False)
        if node.op == "size" and node.attrs[0] == axis:
            return Leaf(SIZE, (), Type(frozenset(), "int", NONNEGATIVE), "param", False)
        return None

    def read(self, w: _Writer, n: int, tile: bool) -> int:
        node = self.graph.nodes[n]
        leaf = Leaf(self.value(n), self.ordered(node.type.axes), node.type, "input", False)
        return self.read_leaf(w, leaf, tile)

    def read_leaf(self, w: _Writer, leaf: Leaf, tile: bool) -> int:
        if tile and self.known.axis in leaf.axes:
            w.sliced[leaf.name] = leaf.axes.index(self.known.axis)
        if tile:
            leaf = replace(leaf, axes=tuple(map(self.renamed, leaf.axes)), type=self.retyped(leaf.type))
        kept = replace(leaf, differentiable=False)
        if leaf.role == "seed":
            kept = replace(kept, role="input", type=replace(kept.type, interval=FINITE))
        return w.b.leaf(kept)

    def again(self, w: _Writer, node: Node, args: list[int], tile: bool) -> int:
        w.b.origin = node.origin
        if node.op == "const":
            return w.b.raw("const", (), node.attrs, node.type)
        attrs = tuple(self._attr(a) for a in node.attrs) if tile else node.attrs
        type_ = self.retyped(node.type) if tile else node.type
        return w.b.raw(node.op, args, attrs, type_)

    def _attr(self, a: Attr) -> Attr:
        if isinstance(a, tuple):
            return tuple(map(self.renamed, a))
        return self.renamed(a) if isinstance(a, str) else a

    def renamed(self, axis: str) -> str:
        return self.rows if axis == self.known.axis else axis

    def retyped(self, type_: Type) -> Type:
        return replace(type_, axes=frozenset(map(self.renamed, type_.axes)))

    def ordered(self, axes: frozenset[str]) -> tuple[str, ...]:
        return tuple(a for a in self.graph.axes if a in axes)


def _fresh(axes: Sequence[str]) -> str:
    """A name for a tile's rows: the axis has another size there, so it can't be called the same."""
    name, number = "Tile", 0
    while name in {a.rstrip("'") for a in axes}:
        number += 1
        name = f"Tile{number}"
    return name
