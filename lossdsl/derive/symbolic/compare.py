"""The gradient of a written-out loss, by sympy, against the JointGraph's at points drawn for the purpose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import isinf
from random import Random
from typing import Any

import numpy as np
import sympy

from lossdsl.check.types import base_axis
from lossdsl.derive.symbolic.partials import closes
from lossdsl.derive.symbolic.written import UnsuitableError, Written, to_sympy
from lossdsl.ir.digits import DIGITS
from lossdsl.ir.graph import Graph, JointGraph, Leaf
from lossdsl.ir.inputs import GIVEN
from lossdsl.ir.interpret import evaluate
from lossdsl.primitives.interval import Interval
from lossdsl.registry import Registry

AGREE = 1e-40  # relative to the largest entry
ROUNDING = 1e-90  # of 110 digits, where the gradient is 0
IGNORED = -100


@dataclass(frozen=True, slots=True)
class Mismatch:
    """An entry of the gradient where the JointGraph and sympy differ; `at` holds the leaves' values as text."""

    entry: str
    derived: str
    sympy: str
    at: str


def small_sizes(graph: Graph) -> dict[str, int]:
    """Extents that are small enough to be written out: 2 rows of 3 classes; 3 or 4 rows where rows meet each other."""
    batch = {base_axis(a) for a in graph.batch} or {a for leaf in graph.leaves[:1] for a in leaf.axes[:1]}
    copied = {base_axis(a) for a in graph.axes if a != base_axis(a)}
    sizes = {}
    for axis in graph.axes:
        base = base_axis(axis)
        rows = 3 if base in copied else 2 if graph.batch else 4
        sizes[axis] = rows if base in batch else 2 if base in ("D", "V") else 3
    for node in graph.nodes:
        if node.op in ("order", "eigvals", "eigvecs"):  # the new axis is as long as the one it is made from
            source, target = str(node.attrs[0]), base_axis(str(node.attrs[1 if node.op == "order" else 2]))
            sizes.update({a: sizes[source] for a in graph.axes if base_axis(a) == target})
        if node.op == "lt" and graph.nodes[node.args[0]].op == "const" and graph.nodes[node.args[1]].op == "size":
            # an entry that is named by its number must be there, or every row is left out and nothing is compared
            least, axis = int(graph.nodes[node.args[0]].attrs[0]) + 1, str(graph.nodes[node.args[1]].attrs[0])  # type: ignore[arg-type]
            sizes.update({a: max(sizes[a], least) for a in graph.axes if base_axis(a) == base_axis(axis)})
    return sizes


def draw(graph: Graph, sizes: Mapping[str, int], seed: int) -> dict[str, Any]:
    """Values for all leaves, as fractions that floats and sympy hold exactly. Every third point has an ignored row."""
    random = Random(seed)
    values: dict[str, Any] = {}
    for leaf in graph.leaves:
        shape = tuple(sizes[a] for a in leaf.axes)
        found = np.empty(shape, dtype=object)
        for index in product(*map(range, shape)):
            found[index] = _entry(leaf, sizes, random)
        values[leaf.name] = found if leaf.type.kind == "real" else found.astype(np.int64)
    if "@ignore_index" in values and seed % 3 == 2:
        for leaf in graph.leaves:
            if leaf.type.kind.startswith("index ") and leaf.role == "input" and leaf.axes:
                values[leaf.name].flat[0] = IGNORED
    return values


def _entry(leaf: Leaf, sizes: Mapping[str, int], random: Random) -> Any:
    kind = leaf.type.kind
    if leaf.name == "@ignore_index":
        return IGNORED
    if leaf.name.startswith(GIVEN):
        return random.randrange(2)
    if kind.startswith("index "):
        return random.randrange(sizes[kind.split()[1]])
    if kind == "label":
        return random.randrange(2)
    if kind == "bool":
        return random.randrange(4) > 0
    low = leaf.type.interval.low
    if kind == "int":
        return (0 if isinf(low) else int(low)) + random.randrange(1, 5)
    return _real(leaf.type.interval, random)


def _real(within: Interval, random: Random) -> Fraction:
    low, high = within.low, within.high
    if isinf(low) and isinf(high):
        return Fraction(random.randrange(-640, 640) * 2 + 1, 512)
    step = Fraction(random.randrange(100, 900), 1000)
    if isinf(high):
        return Fraction(low) + 2 * step
    if isinf(low):
        return Fraction(high) - 2 * step
    return Fraction(low) + (Fraction(high) - Fraction(low)) * step


@dataclass(frozen=True, slots=True)
class Case:
    """A loss written out at one point: `loss` is what the cotangents `@rows` and `@weight` make of its rows."""

    sizes: Mapping[str, int]
    leaves: Mapping[str, Any]
    written: Written
    loss: Any
    gradients: tuple[str, ...]  # names of the JointGraph's outputs


def case(graph: Graph, joint: JointGraph, registry: Registry, seed: int, given: Mapping[str, Any]) -> Case:
    """The Graph written out at the point that `seed` draws; `given` replaces values of leaves.

    UnsuitableError where the loss is not finite, or has a kink, at that point.
    """
    sizes = small_sizes(graph)
    leaves = draw(joint.graph, sizes, seed) | draw(graph, sizes, seed)
    leaves |= {name: np.asarray(Fraction(x), dtype=object) for name, x in given.items() if leaves[name].ndim == 0}
    seeded = {o: f"@{o}" for o in ("rows", "weight") if any(leaf.name == f"@{o}" for leaf in joint.graph.leaves)}
    for name, value in evaluate(graph, registry, _for(graph, leaves), list(seeded), sizes=sizes).items():
        if not np.all(np.isfinite(value)):
            raise UnsuitableError(f"{name} is not finite")
    written = to_sympy(graph, registry, leaves, sizes, list(seeded))
    loss = sympy.Add(
        *(_fraction(leaves[s], index) * e for o, s in seeded.items() for index, e in written.outputs[o].items())
    )
    names = tuple(name for name, _ in joint.graph.outputs if name.startswith("grad."))
    return Case(sizes, leaves, written, loss, names)


def compare(
    graph: Graph, joint: JointGraph, registry: Registry, seed: int, given: Mapping[str, Any] | None = None
) -> list[Mismatch]:
    """Where grad.* of the JointGraph is not sympy's derivative of the Graph's rows (and weight), at one point.

    NotWrittenError where the Graph has no written form, UnsuitableError where the point is not one for a comparison.
    """
    c = case(graph, joint, registry, seed, given or {})
    derived = evaluate(joint, registry, _for(joint.graph, c.leaves), list(c.gradients), "mpmath", c.sizes)
    wanted = {
        (name, index): c.written.entries[name.removeprefix("grad."), index]
        for name in c.gradients
        for index in np.ndindex(derived[name].shape)
        if (name.removeprefix("grad."), index) in c.written.entries
    }
    right = dict(zip(wanted, numbers(c.written, derivatives(c.written, c.loss, list(wanted.values()))), strict=True))
    found = []
    for name in c.gradients:
        places = list(np.ndindex(derived[name].shape))
        scale = max((abs(right.get((name, i), 0)) for i in places), default=0)
        for index in places:
            said, expected = derived[name][index], right.get((name, index), 0)
            if not abs(said - expected) <= AGREE * scale + ROUNDING:
                where = f"{name}{list(index) if index else ''}"
                at = ", ".join(f"{k} = {_plain(v)}" for k, v in c.leaves.items())
                found.append(Mismatch(where, _short(said), _short(expected), at))
    return found


def symbolically(
    graph: Graph, joint: JointGraph, registry: Registry, seed: int, given: Mapping[str, Any] | None = None
) -> bool:
    """Whether sympy reduces the difference of the two gradients to 0, in all entries, with every input a symbol.

    The branches are those of the point. False says nothing: quick means did not close it.
    """
    c = case(graph, joint, registry, seed, given or {})
    if c.written.roots:
        return False
    derived = to_sympy(joint.graph, registry, c.leaves, c.sizes, c.gradients)
    same = {symbol: _named(c, key) for key, symbol in derived.entries.items()}
    for name in c.gradients:
        leaf = next(leaf for leaf in joint.graph.leaves if leaf.name == name.removeprefix("grad."))
        axes = [a for a in joint.graph.axes if a in joint.graph.nodes[joint.graph.output(name)].type.axes]
        for index in product(*(range(c.sizes[a]) for a in leaf.axes)):
            place = dict(zip(leaf.axes, index, strict=True))
            said = derived.outputs[name][tuple(place[a] for a in axes)].xreplace(same)
            symbol = c.written.entries.get((leaf.name, index))
            right = sympy.Integer(0) if symbol is None else sympy.diff(c.loss, symbol)
            if not closes(said - right):
                return False
    return True


def _named(c: Case, key: tuple[str, tuple[int, ...]]) -> Any:
    name, index = key
    if name.startswith("@"):
        return _fraction(c.leaves[name], index)
    return c.written.entries.get(key, sympy.Dummy(name))


def _for(graph: Graph, leaves: Mapping[str, Any]) -> dict[str, Any]:
    return {leaf.name: leaves[leaf.name] for leaf in graph.leaves}


def _fraction(values: Any, index: tuple[int, ...]) -> Any:
    value = np.asarray(values, dtype=object)[index]
    return sympy.Rational(value.numerator, value.denominator)


def derivatives(written: Written, e: Any, symbols: list[Any]) -> list[Any]:
    """The total derivative in each symbol: unknowns of roots move as the implicit function theorem says."""
    inner: dict[tuple[Any, Any], Any] = {}

    def total(e: Any, s: Any, fixed: frozenset[Any]) -> Any:
        moving = (set(written.roots) & e.free_symbols) - fixed
        return sympy.Add(sympy.diff(e, s), *(sympy.diff(e, t) * of_root(t, s) for t in moving))

    def of_root(t: Any, s: Any) -> Any:
        if (t, s) not in inner:
            equation = written.roots[t]
            inner[t, s] = -total(equation, s, frozenset([t])) / sympy.diff(equation, t)
        return inner[t, s]

    return [total(e, s, frozenset()) for s in symbols]


def numbers(written: Written, expressions: list[Any]) -> list[Any]:
    """The expressions' values at the point, at 110 digits."""
    import mpmath

    symbols = sorted(set().union(*(sympy.sympify(e).free_symbols for e in expressions)), key=str)
    with mpmath.workdps(DIGITS):
        function = sympy.lambdify(symbols, expressions, modules="mpmath", cse=True)
        arguments = [sympy.N(written.point[s], DIGITS) for s in symbols]
        return [mpmath.mpf(x) for x in function(*(mpmath.mpf(a._mpf_) if a.is_Float else a for a in arguments))]


def _plain(values: Any) -> Any:
    array = np.asarray(values)
    return (np.vectorize(float, otypes=[float])(array) if array.dtype == object else array).tolist()


def _short(x: Any) -> str:
    return f"{float(x):.17g}"
