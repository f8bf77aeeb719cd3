"""Claims at points: small whole numbers first, then random ones, with differences taken at 50 digits."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from lossdsl.check.types import base_axis
from lossdsl.derive.claims.cases import class_axes, least_sizes, too_small
from lossdsl.derive.claims.entries import COMPARES
from lossdsl.derive.claims.everywhere import OTHER, axes_of, prob_sums
from lossdsl.derive.claims.setting import LEFT_OUT, Subject, file_sizes, sizing
from lossdsl.derive.claims.suspects import suspects
from lossdsl.derive.claims.verdict import Found
from lossdsl.derive.points import probabilities, random_leaves, sizes_for
from lossdsl.ir.builder import Builder
from lossdsl.ir.graph import Graph, Leaf
from lossdsl.ir.interpret import evaluate, trace
from lossdsl.registry import Registry

Leaves = dict[str, Any]
POINTS = 24
DIGITS = 40
DIGITS_OF_DECIMALS = 120  # of a decimal: more than the interpreter computes with
TOLERANCE = 1e-40
SATURATING = frozenset({"exp", "logp", "softplus", "sigmoid", "tanh", "expm1"})
FLAT = 230  # e^-230 is 1e-100
ROUNDED = 1e-100  # of the largest number met, of which 110 digits are known
FAR = (4.0, 32.0, 256.0, 8192.0)  # how far out the last third of the points is: scaled, or moved, by this
SEED = 0
ALONG = "@along "
STEPS = 16  # a short step is this part of a random one
SECONDS = 3.0  # for the points of one claim; at least one is tried
Fails = Callable[[Any, Any], bool]  # of a value and the size of what it is made of
SIZES = ({"N": 1}, {"N": 2}, {"N": 3})
CLASSES = (2, 3, 5)
LONG = 1000  # entries that a row may need
LARGER = (4, 5, 10)  # classes, and other axes' extents, of a claim that was proved for few


def draws(
    graph: Graph,
    sums: Mapping[str, str],
    classes: Sequence[int] = CLASSES,
    seed: int = SEED,
    far: Sequence[float] = FAR,
    sized: Callable[[Mapping[str, int]], Mapping[str, int]] = lambda sizes: {},
    larger: bool = False,
) -> Iterator[tuple[dict[str, int], Leaves]]:
    """Sizes and leaves: two classes and whole numbers to begin with, so that a counterexample is a small one.

    `sized` gives the extents of axes that the file sizes, by base axis, from those of the others; `sums` names the
    leaves that are probabilities, each with the axis over which they sum to 1.
    """
    least, over = least_sizes(graph), class_axes(graph)
    if max(least.values(), default=0) > LONG:
        return
    for k in range(POINTS):
        rng = np.random.default_rng(seed + k)
        few = classes[0] if k < POINTS // 3 else classes[k % len(classes)]
        counted = {a: few for a in graph.axes if base_axis(a) in over}
        entries = 2 if k < POINTS // 3 else 2 + k % 2
        sizes = sizes_for(graph, **SIZES[k % len(SIZES)], C=few, D=entries) | counted
        sizes |= {a: few for a in over if a not in sizes}  # that indices alone name
        if larger:
            batch = {base_axis(a) for a in graph.batch}
            sizes = {a: n if base_axis(a) in batch else LARGER[k % len(LARGER)] for a, n in sizes.items()}
        if k >= POINTS // 3 or larger:  # several kinds of classes need not be as many
            among = LARGER if larger else classes
            other = {a: among[(k + j * (k // 3)) % len(among)] for j, a in enumerate(over) if j}
            sizes |= {a: other[base_axis(a)] for a in sizes if base_axis(a) in other}
        sizes = {a: max(n, least.get(base_axis(a), 0)) for a, n in sizes.items()}
        own = sized(sizes)
        sizes |= {a: own[base_axis(a)] for a in sizes if base_axis(a) in own}
        leaves = random_leaves(graph, sizes, rng)
        below = {x.name for x in graph.leaves if x.type.kind == "int" and x.type.interval.low < -2 and k % 2}
        leaves |= {n: leaves[n] - 3 for n in below if n != "@ignore_index"}
        if k < POINTS // 3:
            leaves = {n: _rounded(v, leaf_of(graph, n)) for n, v in leaves.items()}
        elif k >= POINTS - POINTS // 3:  # far out, where a loss is flat or steep
            scale = far[k // 2 % len(far)]
            by = scale * (-1) ** (k // 2) if k % 2 else 0.0
            leaves = {n: _far(v, leaf_of(graph, n), scale, by) for n, v in leaves.items()}
        for leaf in graph.leaves:
            if leaf.name in sums:
                shape = tuple(sizes[a] for a in leaf.axes)
                leaves[leaf.name] = (_certain if k % 4 == 1 else probabilities)(
                    leaf.axes.index(sums[leaf.name]), shape, rng
                )
        yield sizes, leaves


def _certain(axis: int, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    """One-hot, as labels are: where others' probabilities are 0."""
    chosen = np.expand_dims(rng.integers(0, shape[axis], [n for d, n in enumerate(shape) if d != axis]), axis)
    places = np.arange(shape[axis]).reshape([-1 if d == axis else 1 for d in range(len(shape))])
    return (places == chosen).astype(float)


def _far(value: Any, leaf: Leaf, scale: float, by: float) -> Any:
    """Scaled up where it may hold any real, or any beyond a bound that is not negative. If `by` isn't 0, all moved by
    that instead, so that they stay near each other; and near such a bound, or near an end that is excluded."""
    within = leaf.type.interval
    low, high = within.low, within.high
    if leaf.type.kind != "real":
        return value
    if low == -np.inf and high == np.inf:
        return value if leaf.role != "input" else value + by if by else np.minimum(value, 1e300) * scale
    if high == np.inf:
        return value if low < 0 else low + (value - low) / scale if by else np.minimum(value, 1e300) * scale
    if by and within.low_open and low > -np.inf:
        return low + (value - low) / scale
    return high - (high - value) / scale if by and within.high_open else value


def leaf_of(graph: Graph, name: str) -> Leaf:
    return next(leaf for leaf in graph.leaves if leaf.name == name)


def _rounded(value: Any, leaf: Leaf) -> Any:
    """The nearest whole or half numbers, where the leaf's interval has them."""
    array = np.asarray(value)
    if array.dtype.kind != "f":
        return array
    for step in (1.0, 0.5, 0.25):
        near = np.round(array / step) * step
        if all(x in leaf.type.interval for x in near.flat):
            return near
    return array


def exact(value: Any, decimal: bool = False) -> Any:
    """Floats as numbers of high precision: as they are, or as the shortest decimals that they are nearest to."""
    import mpmath

    array = np.asarray(value)
    if array.dtype.kind != "f":
        return array
    out = np.empty(array.shape, dtype=object)
    for place in np.ndindex(array.shape):
        number = float(array[place])
        out[place] = mpmath.mpf(repr(number) if decimal else number)
    return out


def values(
    graph: Graph,
    registry: Registry,
    sizes: Mapping[str, int],
    leaves: Leaves,
    node: int,
    axes: tuple[str, ...],
    sums: Collection[str] = (),
) -> Any:
    """A node's value in high precision, with one dimension for each of `axes`.

    Where values are tested for being equal, 0.1 is a tenth, as in the file's text, but in probabilities (`sums`), which
    sum to 1 as floats.
    """
    probe = replace(graph, outputs=(("aux.claim", node),))
    found = evaluate(probe, registry, _given(graph, leaves, sums), ["aux.claim"], "mpmath", sizes)["aux.claim"]
    own = [a for a in graph.axes if a in graph.nodes[node].type.axes]
    shape = [sizes[a] if a in own else 1 for a in axes]
    return np.broadcast_to(np.asarray(found, dtype=object).reshape(shape), [sizes[a] for a in axes])


def _given(graph: Graph, leaves: Leaves, sums: Collection[str]) -> Leaves:
    import mpmath

    with mpmath.workdps(DIGITS_OF_DECIMALS):
        tested = any(node.op in ("eq", "ne") for node in graph.nodes)  # a root keeps its digits where shifts are exact
        return {n: exact(v, tested and n not in sums) for n, v in leaves.items()}


def rounded(
    graph: Graph, registry: Registry, sizes: Mapping[str, int], leaves: Leaves, sums: Collection[str], gap: Any
) -> bool:
    """Whether so much may be the rounding of 110 digits: of the largest finite number that the graph meets, or of a
    test between what saturates, such as a probability and 1."""
    seen = trace(graph, registry, _given(graph, leaves, sums), [n for n, _ in graph.outputs], "mpmath", sizes).values
    large = [abs(x) for v in seen.values() for x in np.asarray(v).flat if not isinstance(x, bool | np.bool_)]
    if not gap > ROUNDED * max((x for x in large if x < np.inf), default=0):
        return True
    small = [abs(x) for n, v in seen.items() if graph.nodes[n].op in SATURATING for x in np.asarray(v).flat]
    if not any(0 < x < ROUNDED or FLAT < x < np.inf for x in small):
        return False
    tests = [graph.nodes[n].args for n in seen if graph.nodes[n].op in COMPARES]
    sides = [np.broadcast_arrays(seen[u], seen[v]) for u, v in tests if not _whole(graph, u, v)]
    return any(abs(x - y) <= ROUNDED * abs(x) for u, v in sides for x, y in zip(u.flat, v.flat, strict=True))


def _whole(graph: Graph, *nodes: int) -> bool:
    return all(graph.nodes[n].type.kind != "real" for n in nodes)


def differs(d: Any, size: Any, slack: float = TOLERANCE) -> bool:
    return bool(abs(d) > slack * (1 + size))


def negative(d: Any, size: Any) -> bool:
    return bool(d < -TOLERANCE * (1 + size))


def tried(
    about: Subject,
    b: Builder,
    node: int,
    fails: Fails,
    scale: int | None = None,
    first: Sequence[tuple[Mapping[str, int], Leaves]] = (),
    classes: Sequence[int] = CLASSES,
    far: Sequence[float] = FAR,
    larger: bool = False,
) -> Found:
    """Whether a node passes at every point, `first` the given ones; a counterexample is made small.

    `larger`: at sizes above those for which claims are written out, where the graph has such axes.
    """
    outputs = {"aux.node": node} | ({"aux.scale": scale} if scale is not None else {})
    graph = b.graph(outputs)
    axes = tuple(a for a in graph.axes if any(a in graph.nodes[n].type.axes for _, n in graph.outputs))
    sums, least = prob_sums(about), least_sizes(graph)

    def failing(sizes: Mapping[str, int], leaves: Leaves) -> bool | None:
        """None where the point says nothing: a value that isn't defined there, a row that isn't there."""
        if too_small(sizes, least):
            return None
        found = values(graph, about.registry, sizes, leaves, graph.output("aux.node"), axes, sums)
        large = values(graph, about.registry, sizes, leaves, graph.outputs[-1][1], axes, sums)
        defined = [i for i in np.ndindex(found.shape) if found[i] == found[i]]
        failed = [found[i] for i in defined if fails(found[i], abs(large[i]))]
        if failed and rounded(graph, about.registry, sizes, leaves, sums, max(map(abs, failed))):
            failed = []
        return bool(failed) if defined else None

    fixed = {p.name: np.asarray(p.default) for p in about.checked.params if p.integer and p.name in sizing(about)}

    def among(points: Iterable[tuple[Mapping[str, int], Leaves]]) -> tuple[Found | None, int]:
        """A counterexample among the points, and at how many of them there was a value; as long as there is time."""
        until, count = time.process_time() + SECONDS, 0
        for sizes, leaves in points:
            leaves |= {name: value for name, value in fixed.items() if name in leaves}
            failed = failing(sizes, leaves)
            if failed:
                small = shrunk(graph, sums, sizes, leaves, failing)
                return Found("refuted", shown(small, [leaf.name for leaf in graph.leaves])), count + 1
            count += failed is not None
            if time.process_time() > until:
                break
        return None, count

    drawn = draws(graph, sums, classes, far=far, sized=partial(file_sizes, about), larger=larger)
    anywhere = not larger and tuple(far) == FAR  # a limit isn't near yet far out
    count = 0
    for points in (
        itertools.chain(((s, {**_rest(graph, s), **x}) for s, x in first), drawn),
        ((s, {**_rest(graph, s), **x}) for s, x in suspects(about, graph, sums)) if anywhere else (),
    ):
        refuted, more = among(points)
        count += more
        if refuted is not None:
            return replace(refuted, points=count)
    if not count:
        return Found("undecided", "it is defined at none of the points tried")
    return Found("held", points=count, again=partial(beyond, about, b, node, fails, scale))


def beyond(about: Subject, b: Builder, node: int, fails: Fails, scale: int | None, proof: str = "") -> Found:
    """What was proved for the sizes that `proof` ends with, tried at larger ones: proved, or refuted."""
    graph = b.graph({"aux.node": node})
    own = file_sizes(about, dict.fromkeys(graph.axes, LARGER[0]))
    axes = [a for a in dict.fromkeys((*axes_of(graph), *class_axes(graph))) if a not in own]
    if not axes or ", for " not in proof:
        return Found("proved", proof)
    found = tried(about, b, node, fails, scale, far=(4.0, 64.0), larger=True)
    if found.status != "held":
        return found if found.status == "refuted" else Found("proved", proof)
    sizes = ", ".join(map(str, LARGER))
    return Found("proved", f"{proof}; held at {found.points} points at {' and '.join(axes)} = {sizes}")


def _rest(graph: Graph, sizes: Mapping[str, int]) -> Leaves:
    """Values of the leaves that a given point doesn't name."""
    return random_leaves(graph, dict(sizes), np.random.default_rng(SEED))


def shrunk(
    graph: Graph,
    sums: Mapping[str, str],
    sizes: Mapping[str, int],
    leaves: Leaves,
    failing: Callable[[Mapping[str, int], Leaves], bool | None],
) -> Leaves:
    """The same counterexample with as many plain numbers as it allows: 0, 1, -1, whole ones, few digits."""
    until = time.process_time() + SECONDS
    sizes, leaves = _one_row(graph, sizes, leaves, failing)
    sizes, leaves = _fewer_classes(graph, sums, sizes, leaves, failing)
    before = None
    while before is not leaves:  # until no entry can be made plainer by itself
        before = leaves
        leaves = _plainer_leaves(graph, sums, sizes, leaves, failing, until)
    return leaves


def _plainer_leaves(
    graph: Graph,
    sums: Mapping[str, str],
    sizes: Mapping[str, int],
    leaves: Leaves,
    failing: Callable[[Mapping[str, int], Leaves], bool | None],
    until: float,
) -> Leaves:
    for leaf in graph.leaves:
        array = np.asarray(leaves[leaf.name])
        if array.dtype.kind not in "fi" or leaf.name in sums or leaf.name == "@ignore_index":
            continue
        for place in np.ndindex(array.shape):
            for plain in _plainer(float(array[place])):
                if time.process_time() > until:
                    return leaves
                if plain not in leaf.type.interval:
                    continue
                if array.dtype.kind == "i" and (plain != int(plain) or not 0 <= plain < array[place]):
                    continue  # an index stays one of its axis
                other = np.asarray(leaves[leaf.name]).copy()
                other[place] = plain
                if failing(sizes, {**leaves, leaf.name: other}):
                    leaves = {**leaves, leaf.name: other}
                    break
    return leaves


def _one_row(
    graph: Graph, sizes: Mapping[str, int], leaves: Leaves, failing: Callable[[Mapping[str, int], Leaves], bool | None]
) -> tuple[Mapping[str, int], Leaves]:
    """The first row that fails by itself, if one does."""
    for axis in graph.batch:
        for row in range(sizes[axis]):
            fewer = {a: 1 if base_axis(a) == base_axis(axis) else n for a, n in sizes.items()}
            alone = {
                leaf.name: np.take(leaves[leaf.name], [row], leaf.axes.index(axis))
                if axis in leaf.axes
                else leaves[leaf.name]
                for leaf in graph.leaves
            }
            alone = {
                leaf.name: np.minimum(alone[leaf.name], 0) if leaf.type.kind == f"index {axis}" else alone[leaf.name]
                for leaf in graph.leaves
            }
            if failing(fewer, alone):
                sizes, leaves = fewer, alone
                break
    return sizes, leaves


def _fewer_classes(
    graph: Graph,
    sums: Mapping[str, str],
    sizes: Mapping[str, int],
    leaves: Leaves,
    failing: Callable[[Mapping[str, int], Leaves], bool | None],
) -> tuple[Mapping[str, int], Leaves]:
    """The first classes alone, as few as fail; the first of a row of probabilities takes what the others leave."""
    for axis in class_axes(graph):
        for count in range(2, max((n for a, n in sizes.items() if base_axis(a) == axis), default=0)):
            fewer = {a: count if base_axis(a) == axis else n for a, n in sizes.items()}
            kept = {}
            for leaf in graph.leaves:
                array = np.asarray(leaves[leaf.name])
                for d, a in enumerate(leaf.axes):
                    if base_axis(a) == axis:
                        array = np.take(array, range(count), d)
                        if sums.get(leaf.name) == a:
                            rest = np.take(array, range(1, count), d)
                            array = np.concatenate([1 - rest.sum(d, keepdims=True), rest], d)
                kept[leaf.name] = np.minimum(array, count - 1) if leaf.type.kind == f"index {axis}" else array
            if failing(fewer, kept):
                return fewer, kept
    return sizes, leaves


PLAIN = (
    0.0,
    1.0,
    -1.0,
    2.0,
    -2.0,
    0.5,
    -0.5,
    10.0,
    -10.0,
    0.1,
    -0.1,
    100.0,
    -100.0,
    0.01,
    1e3,
    -1e3,
    1e-3,
    1e6,
    1e-4,
    1e-6,
)


def _plainer(x: float) -> list[float]:
    """Numbers that are simpler than x, the simplest first."""
    kept: list[float] = []
    if not np.isfinite(x):
        return list(PLAIN)
    for y in (*PLAIN, float(round(x)), round(2 * x) / 2, round(x, 1), round(x, 2), float(f"{x:.1g}")):
        if y == x:
            break
        if y not in kept:
            kept.append(y)
    return kept


def shown(leaves: Leaves, names: list[str]) -> str:
    """Leaves in the form of an example; of two points or a direction (`@x`) the second, too."""
    parts = []
    for name in names:
        array = np.asarray(leaves[name])
        rows = _six(array) if array.dtype.kind == "f" else array.tolist()
        if name.startswith(ALONG):
            parts.append(f"along {rows}")
        elif not name.startswith("@"):
            parts.append(f"{name} = {rows}")
        elif name.startswith(LEFT_OUT):
            parts.append(f"{name.removeprefix(LEFT_OUT)} ignored where {rows}")
        elif name.startswith(OTHER):
            parts.append(f"with {rows} for the other {name.removeprefix(OTHER)}")
    return ", ".join(parts) or "every point"


def _six(array: Any) -> Any:
    """Six digits of each number."""
    return np.vectorize(lambda x: float(f"{x:.6g}") + 0.0, otypes=[float])(array).tolist()
