"""Points at which a loss may turn: where a test, a maximum, a denominator or a logarithm's argument meets its edge.

Random points don't find a bend at 1000 or a case between 0.517 and 0.518. Here every real entry in turn runs over the
whole line (in float64, all at once: as rows of one batch), and where two sides of a test cross, the crossing is found
by subdivision. It, what lies close by on both sides, and what lies between two crossings are worth a look.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from lossdsl.check.types import Type, base_axis
from lossdsl.derive.claims.cases import class_axes, rows_alone
from lossdsl.derive.claims.setting import Replacement, Subject, file_sizes, place, sizing
from lossdsl.derive.points import probabilities, random_leaves, sizes_for
from lossdsl.ir.graph import Graph, Leaf
from lossdsl.ir.interpret import trace

Array = np.ndarray[Any, Any]
Leaves = dict[str, Any]
NUMBERS = ("real", "int")
PAIRS = frozenset({"lt", "le", "gt", "ge", "eq", "ne", "maximum", "minimum"})
OF_ZERO = frozenset({"abs", "relu", "sign", "log", "sqrt", "pow"})  # of the first argument; `div` of the second
LINES, CELLS, PARTS, ROUNDS, MOST = 12, 48, 16, 13, 18
GRID = np.concatenate(
    [s * np.concatenate([np.logspace(-6, 9, 61), np.linspace(0.25, 8, 32)]) for s in (-1, 1)] + [[0.0]]
)


@dataclass(frozen=True, slots=True)
class _Line:
    """One entry of one leaf, which moves; the others stay as they are in `base`."""

    base: Leaves
    leaf: Leaf
    entry: tuple[int, ...]  # along the leaf's axes but the batch's


@dataclass(frozen=True, slots=True)
class _Probe:
    """The claim's graph with params that have a batch axis too, so that they can differ from row to row."""

    about: Subject
    graph: Graph
    axis: str  # the batch axis along which rows lie
    sizes: Mapping[str, int]
    gaps: tuple[tuple[int, int | None], ...]  # two nodes of which the difference may change its sign; None: 0

    def rows(self, lines: Sequence[_Line], values: Sequence[float]) -> Leaves:
        """The leaves with one row for each line and the value of its entry."""
        found: Leaves = {}
        for leaf in self.graph.leaves:
            if self.axis not in leaf.axes:
                found[leaf.name] = lines[0].base[leaf.name]
                continue
            d = leaf.axes.index(self.axis)
            parts = [np.array(np.take(line.base[leaf.name], 0, d)) for line in lines]
            for k, (line, value) in enumerate(zip(lines, values, strict=True)):
                if line.leaf.name == leaf.name:
                    parts[k][line.entry] = value
            found[leaf.name] = np.stack(parts, d)
        return found

    def values(self, leaves: Leaves, nodes: Sequence[tuple[int, int | None]]) -> list[Array]:
        """Differences of nodes, each with one row for each row of the leaves."""
        count = next(
            np.shape(leaves[f.name])[f.axes.index(self.axis)] for f in self.graph.leaves if self.axis in f.axes
        )
        outputs = [name for name, _ in self.graph.outputs]
        seen = trace(self.graph, self.about.registry, leaves, outputs, sizes={**self.sizes, self.axis: count}).values
        along = self.graph.axes.index(self.axis)
        found = []
        for u, v in nodes:
            with np.errstate(all="ignore"):
                gap = np.asarray(seen[u], dtype=float) - (0.0 if v is None else np.asarray(seen[v], dtype=float))
            rows = np.moveaxis(gap, along, 0)
            found.append(np.broadcast_to(rows, (count, *rows.shape[1:])).reshape(count, -1))
        return found


def suspects(about: Subject, graph: Graph, sums: Mapping[str, str]) -> Iterator[tuple[dict[str, int], Leaves]]:
    """Sizes and leaves of one row each, the likeliest first. None where rows read each other, or nothing turns."""
    probe = _probe(about, graph)
    if probe is None or not probe.gaps:
        return
    lines = _lines(probe, sums)
    if not lines:
        return
    found = _crossings(probe, lines)
    node = probe.graph.output("aux.node")
    tried = [(line, x, near) for line, xs in found for x, near in _around(xs, line.leaf)]
    if not tried:
        return
    rows = probe.rows([line for line, _, _ in tried], [x for _, x, _ in tried])
    worth = probe.values(rows, [(node, None)])[0]
    with np.errstate(all="ignore"):
        low = np.where(np.isnan(worth), -np.inf, worth).min(axis=1)
        large = np.where(np.isnan(worth), np.inf, np.abs(worth)).max(axis=1)
    exact = [k for k, (_, _, near) in enumerate(tried) if near == 0]
    order = [*np.argsort(low)[: MOST // 3], *np.argsort(-large)[: MOST // 3], *exact[: MOST // 3]]
    original = {leaf.name: leaf for leaf in graph.leaves}
    for k in dict.fromkeys(int(k) for k in order):
        line, x, _ = tried[k]
        leaves = probe.rows([line], [x])
        flat = {
            n: v if np.ndim(v) == len(original[n].axes) else np.reshape(v, ())
            for n, v in leaves.items()
            if n in original
        }
        yield {**probe.sizes, probe.axis: 1}, flat


def _probe(about: Subject, graph: Graph) -> _Probe | None:
    if not graph.batch or not rows_alone(graph, range(len(graph.nodes))):
        return None
    if any(node.op == "root" for node in graph.nodes):  # found to 110 digits, which its extremes would need more of
        return None
    axis = graph.batch[0]
    again = about.builder()
    moved: dict[str, Replacement] = {}
    for leaf in graph.leaves:
        if not leaf.axes and leaf.type.kind in NUMBERS and leaf.name not in sizing(about):
            wide = Leaf(
                leaf.name, (axis,), Type(frozenset({axis}), leaf.type.kind, leaf.type.interval), leaf.role, False
            )
            moved[leaf.name] = _leaf(wide)
    wide_graph = again.graph(place(again, graph, moved))
    over = class_axes(wide_graph)
    sizes = sizes_for(wide_graph, **{"C": 2, "D": 2} | dict.fromkeys(over, 2)) | dict.fromkeys(wide_graph.batch, 1)
    own = file_sizes(about, sizes)
    sizes |= {a: own[base_axis(a)] for a in sizes if base_axis(a) in own}
    return _Probe(about, wide_graph, axis, sizes, tuple(dict.fromkeys(_gaps(wide_graph))))


def _leaf(leaf: Leaf) -> Replacement:
    return lambda b: b.leaf(leaf)


def _gaps(graph: Graph) -> Iterator[tuple[int, int | None]]:
    unknown: list[frozenset[object]] = []  # of roots, inside which nothing has one value
    for node in graph.nodes:
        below = frozenset().union(*(unknown[a] for a in node.args))
        own = frozenset(node.attrs[:1])
        unknown.append(below | own if node.op == "var" else below - own if node.op == "root" else below)
        args = node.args
        if any(unknown[a] for a in args):
            continue
        real = all(graph.nodes[a].type.kind in ("real", "int") for a in args)
        if node.op in PAIRS and real:
            yield args[0], args[1]
        elif node.op == "clip":
            yield args[0], args[1]
            yield args[0], args[2]
        elif node.op in OF_ZERO and 0.0 in graph.nodes[args[0]].type.interval:
            yield args[0], None
        elif node.op == "div" and 0.0 in graph.nodes[args[1]].type.interval:
            yield args[1], None


def _lines(probe: _Probe, sums: Mapping[str, str]) -> list[_Line]:
    found: list[_Line] = []
    for seed in (0, 1):
        rng = np.random.default_rng(seed)
        base = random_leaves(probe.graph, {**probe.sizes, probe.axis: 1}, rng)
        base |= {
            n: np.round(v) for n, v in base.items() if seed == 0 and np.asarray(v).dtype.kind == "f" and n not in sums
        }
        for leaf in probe.graph.leaves:
            shape = tuple(1 if a == probe.axis else probe.sizes[a] for a in leaf.axes)
            if leaf.name in sums:
                base[leaf.name] = probabilities(leaf.axes.index(sums[leaf.name]), shape, rng)
            if leaf.type.kind == "real":
                base[leaf.name] = np.clip(base[leaf.name], *_inside(leaf))
        for leaf in probe.graph.leaves:
            if leaf.type.kind not in NUMBERS or leaf.name in sums or probe.axis not in leaf.axes:
                continue
            shape = tuple(probe.sizes[a] for a in leaf.axes if a != probe.axis)
            found += [_Line(base, leaf, entry) for entry in np.ndindex(shape)][: LINES // 2]
    return found[: 2 * LINES]


def _inside(leaf: Leaf) -> tuple[float, float]:
    within = leaf.type.interval
    low, high = within.low, within.high
    step = 1e-3 * min(1.0, (high - low) / 4)
    return (
        low + step if within.low_open and low > -np.inf else low,
        high - step if within.high_open and high < np.inf else high,
    )


def _grid(leaf: Leaf) -> Array:
    """Values of the leaf's interval, dense near its ends and far out."""
    low, high = leaf.type.interval.low, leaf.type.interval.high
    if low > -np.inf and high < np.inf:
        steps = np.concatenate([np.linspace(0, 1, 65), np.logspace(-9, -2, 15), 1 - np.logspace(-9, -2, 15)])
        values = low + (high - low) * steps
    elif low > -np.inf:
        values = low + GRID[GRID >= 0]
    elif high < np.inf:
        values = high - GRID[GRID >= 0]
    else:
        values = GRID
    values = np.unique(np.round(values) if leaf.type.kind == "int" else values)
    return values[[x in leaf.type.interval for x in values]]


def _crossings(probe: _Probe, lines: Sequence[_Line]) -> list[tuple[_Line, list[float]]]:
    """For each line the values at which some gap is 0, in order."""
    grids = [_grid(line.leaf) for line in lines]
    which = [k for k, g in enumerate(grids) for _ in g]
    values = np.concatenate(grids)
    seen = probe.values(probe.rows([lines[k] for k in which], values.tolist()), probe.gaps)
    cells: list[tuple[int, float, float, int, int]] = []
    start = 0
    for k, grid in enumerate(grids):
        for g, gap in enumerate(seen):
            part = gap[start : start + len(grid)]
            for column in range(min(part.shape[1], 4)):
                cells += [(k, a, z, g, column) for a, z in _turns(part[:, column], grid)]
        start += len(grid)
    cells = _spread(cells)
    found: dict[int, set[float]] = {}
    for _ in range(ROUNDS):
        cells = _finer(probe, lines, cells)
    for k, a, z, _, _ in cells:
        found.setdefault(k, set()).add(_plainest(a, z))
    return [(lines[k], sorted(x for x in xs if x in lines[k].leaf.type.interval)) for k, xs in sorted(found.items())]


def _turns(gap: Array, grid: Array) -> list[tuple[float, float]]:
    """The cells of a grid in which the gap changes its sign, or comes near 0 and goes away again."""
    found = []
    with np.errstate(all="ignore"):
        sign = np.sign(gap)
        size = np.abs(gap)
    known = ~np.isnan(gap)
    for i in range(len(grid) - 1):
        if (known[i] and known[i + 1] and sign[i] != sign[i + 1]) or known[i] != known[i + 1]:
            found.append((float(grid[i]), float(grid[i + 1])))
    for i in range(1, len(grid) - 1):
        if size[i] < min(size[i - 1], size[i + 1]) and sign[i - 1] == sign[i] == sign[i + 1]:
            found.append((float(grid[i - 1]), float(grid[i + 1])))
    return found


def _spread(cells: list[tuple[int, float, float, int, int]]) -> list[tuple[int, float, float, int, int]]:
    """At most so many, of different gaps and lines before others of the same."""
    count: dict[tuple[int, int], int] = {}
    ranked = []
    for cell in dict.fromkeys(cells):
        key = cell[0], cell[3]
        count[key] = count.get(key, 0) + 1
        ranked.append((count[key], cell))
    return [cell for _, cell in sorted(ranked, key=lambda r: r[0])][:CELLS]


def _finer(
    probe: _Probe, lines: Sequence[_Line], cells: list[tuple[int, float, float, int, int]]
) -> list[tuple[int, float, float, int, int]]:
    """Each cell cut down to the part in which its gap turns."""
    if not cells:
        return cells
    points = [np.linspace(a, z, PARTS + 1) for _, a, z, _, _ in cells]
    seen = probe.values(
        probe.rows([lines[c[0]] for c in cells for _ in range(PARTS + 1)], np.concatenate(points).tolist()), probe.gaps
    )
    found = []
    for i, (k, a, z, g, column) in enumerate(cells):
        gap = seen[g][i * (PARTS + 1) : (i + 1) * (PARTS + 1), column]
        turns = _turns(gap, points[i])
        found.append((k, *(turns[0] if turns else (a, z)), g, column))
    return found


def _plainest(a: float, z: float) -> float:
    """The number of fewest digits between two that are near each other."""
    for digits in range(1, 17):
        x = float(f"{(a + z) / 2:.{digits}g}")
        if a <= x <= z or abs(x - (a + z) / 2) <= 2e-15 * abs(x):
            return x
    return (a + z) / 2


def _around(xs: Sequence[float], leaf: Leaf) -> list[tuple[float, float]]:
    """Crossings, what is close to them on both sides, and what lies between; each with how far away it is."""
    found = [(x, 0.0) for x in xs]
    for x in xs:
        found += [(x + s * h * (1 + abs(x)), h) for h in (1e-9, 1e-3, 0.1, 1.0) for s in (-1, 1)]
    found += [((a + z) / 2, 1.0) for a, z in pairwise(xs)]
    if leaf.type.kind == "int":
        found = [(float(np.floor(x) + k), abs(k)) for x in xs for k in (-1, 0, 1)]
    return [(x, near) for x, near in found if x in leaf.type.interval and np.isfinite(x)]
