"""A claim's Graph written out case by case: every target and mask by itself, reals as variables of a box.

A row of logits that is read only up to a shift is given by its probabilities, cut from the unit interval one after the
other (u, (1 - u)·v, …), the target's first: so the whole domain is a cube, with the model's certainties as its faces.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import isinf
from typing import Any

import numpy as np

from lossdsl.check.types import base_axis
from lossdsl.derive.claims.entries import Index, written
from lossdsl.derive.claims.scalars import NotWrittenError, Scalars
from lossdsl.derive.points import IGNORE_INDEX
from lossdsl.ir.builder import bound_axes
from lossdsl.ir.graph import Graph, Leaf
from lossdsl.primitives.interval import UNIT, Interval

CLASSES = (2, 3)
INSIDE = Interval(0.0, 1.0, True, True)
OTHERS = 2  # the extent of axes that aren't the classes'
MOST = 64  # cases


@dataclass(frozen=True, slots=True)
class Case:
    """One case: its scalars, the entries of the wanted outputs, and the domain of the variables.

    `leaves` has the scalar of each leaf's entries, `fixed` the values of those that are no reals.
    """

    scalars: Scalars
    outputs: Mapping[str, Mapping[Index, int]]
    domain: Mapping[str, Interval]
    sizes: Mapping[str, int]
    leaves: Mapping[str, Mapping[Index, int]]
    fixed: Mapping[str, Any]


def rows_alone(graph: Graph, nodes: Collection[int]) -> bool:
    """Whether no row reads another, nor which it is or how many there are: what is shown of one is shown of all."""
    batch = set(graph.batch)
    if any(graph.nodes[n].op in ("index", "size") and base_axis(str(graph.nodes[n].attrs[0])) in batch for n in nodes):
        return False
    if any(base_axis(graph.nodes[n].type.kind.removeprefix("index ")) in batch for n in nodes):  # another row's number
        return False
    axes = {a for n in nodes for a in graph.nodes[n].type.axes}
    bound = {a for n in nodes for a in bound_axes(graph.nodes[n])}
    return not any(base_axis(a) in batch and (a not in batch or a in bound) for a in axes | bound)


def least_sizes(graph: Graph) -> dict[str, int]:
    """How many entries an axis needs, by base axis: a row that reads its fourth, `x[D -> 3]`, is absent without it."""
    found: dict[str, int] = {}
    for node in graph.nodes:
        if node.op != "pick":
            continue
        axes = node.attrs[0]
        assert isinstance(axes, tuple)
        for axis, place in zip(axes, node.args[1:], strict=True):
            test, entry, _ = graph.nodes[place].args if graph.nodes[place].op == "select" else (0, 0, 0)
            known, condition = graph.nodes[entry], graph.nodes[test]
            there = known.op == "const" and condition.op == "lt" and condition.args[0] == entry
            if there and graph.nodes[condition.args[1]].op == "size":
                found[base_axis(axis)] = max(found.get(base_axis(axis), 0), int(known.attrs[0]) + 1)  # type: ignore[arg-type]
    return found


def too_small(sizes: Mapping[str, int], least: Mapping[str, int]) -> bool:
    return any(n < least.get(base_axis(a), 0) for a, n in sizes.items())


def class_axes(graph: Graph) -> tuple[str, ...]:
    """The base axes over which classes are counted: of the index inputs, or that a softmax runs over."""
    kinds = [leaf.type.kind.removeprefix("index ") for leaf in graph.leaves if leaf.type.kind.startswith("index ")]
    softmax = [str(a) for node in graph.nodes if node.op == "logp" for a in node.attrs[0]]  # type: ignore[union-attr]
    batch = {base_axis(a) for a in graph.batch}
    return tuple(sorted({base_axis(a) for a in (*kinds, *softmax)} - batch))


def cases(
    graph: Graph,
    outputs: Sequence[str],
    classes: int,
    shifts: Collection[str] = (),
    sums: Mapping[str, str] | None = None,
    known: Mapping[int, str] | None = None,
    stick: bool = True,
    logs: Collection[str] = (),
    extents: Mapping[str, int] | None = None,
    alone: bool = False,
) -> Iterator[Case]:
    """Every case of the outputs for so many classes. NotWrittenError where they have no written form, or too many.

    `shifts` names leaves that are read only up to a shift, `sums` those that sum to 1 along an axis; `known` gives
    nodes, and `logs` leaves, that are the logarithm of a variable of the unit interval. Without `stick`, probabilities
    are variables that are known to sum to 1, which is what algebra needs. `extents` are those of axes of another size;
    `alone`: the class of a known probability may be the only one, which has all of it.
    """
    wanted = [graph.output(name) for name in outputs]
    nodes = _above(graph, wanted, known or {})
    if not rows_alone(graph, nodes):
        raise NotWrittenError("rows that read other rows")
    over = class_axes(graph)
    sizes = {a: 1 if a in graph.batch else classes if base_axis(a) in over else OTHERS for a in graph.axes}
    sizes |= {a: (extents or {})[base_axis(a)] for a in graph.axes if base_axis(a) in (extents or {})}
    if too_small(sizes, least_sizes(graph)):
        raise NotWrittenError("an entry that isn't there")
    for node in graph.nodes:
        if node.op == "order":
            raise NotWrittenError("order")
    used = {str(graph.nodes[n].attrs[0]) for n in nodes if graph.nodes[n].op == "leaf"}
    leaves = [leaf for leaf in graph.leaves if leaf.name in used]
    whole = [leaf for leaf in leaves if leaf.type.kind != "real"]
    labels = sum(int(np.prod([sizes[a] for a in leaf.axes])) for leaf in whole if leaf.type.kind == "label")
    choices = [_choices(leaf, sizes, labels) for leaf in whole]
    if np.prod([float(len(c)) for c in choices]) > MOST:
        raise NotWrittenError("too many cases")
    for chosen in product(*choices):
        fixed = dict(zip((leaf.name for leaf in whole), chosen, strict=True))
        yield _case(graph, outputs, sizes, leaves, fixed, shifts, sums or {}, known or {}, stick, logs, alone)


def _above(graph: Graph, wanted: Sequence[int], known: Mapping[int, str]) -> list[int]:
    """What the outputs need, without what only known nodes need."""
    seen: set[int] = set()
    stack = list(wanted)
    while stack:
        n = stack.pop()
        if n not in seen:
            seen.add(n)
            if n not in known:
                stack.extend(graph.nodes[n].args)
    return sorted(seen)


def _choices(leaf: Leaf, sizes: Mapping[str, int], labels: int) -> list[Any]:
    """All values of a leaf that isn't real; of labels, which are equal or not, as many as there are of them."""
    shape = tuple(sizes[a] for a in leaf.axes)
    kind, count = leaf.type.kind, int(np.prod(shape))
    if leaf.name == "@ignore_index":
        return [np.asarray(IGNORE_INDEX)]
    if kind.startswith("index "):
        values = range(sizes[kind.removeprefix("index ")])
    elif kind in ("bool", "label"):
        values = range(2 if kind == "bool" else labels)
    else:
        low, high = leaf.type.interval.low, leaf.type.interval.high
        if isinf(low) or isinf(high) or high - low > 8:
            raise NotWrittenError(f"all values of the int {leaf.name}")
        values = range(int(low), int(high) + 1)
    if len(values) ** count > MOST:
        raise NotWrittenError("too many cases")
    return [np.array(v).reshape(shape) for v in product(values, repeat=count)]


def _case(
    graph: Graph,
    outputs: Sequence[str],
    sizes: Mapping[str, int],
    leaves: Sequence[Leaf],
    fixed: Mapping[str, Any],
    shifts: Collection[str],
    sums: Mapping[str, str],
    known: Mapping[int, str],
    stick: bool,
    logs: Collection[str],
    alone: bool,
) -> Case:
    s = Scalars()
    domain: dict[str, Interval] = {}
    entries: dict[str, dict[Index, int]] = {}
    first = next((int(v.flat[0]) for n, v in fixed.items() if _kind(graph, n).startswith("index ")), 0)
    for leaf in leaves:
        shape = tuple(sizes[a] for a in leaf.axes)
        if leaf.name in fixed:
            value = fixed[leaf.name]
            of = bool if leaf.type.kind == "bool" else int
            entries[leaf.name] = {i: s.const(of(value[i])) for i in np.ndindex(shape)}
        elif leaf.name in sums or (leaf.name in shifts and leaf.axes):
            axis = leaf.axes.index(sums[leaf.name]) if leaf.name in sums else len(leaf.axes) - 1
            sure = leaf.name in sums
            parts = _simplices(s, leaf, shape, axis, first, domain, stick, sure)
            entries[leaf.name] = {i: p if sure else s.node("log", [p]) for i, p in parts.items()}
        else:
            entries[leaf.name] = {}
            for i in np.ndindex(shape):
                name = leaf.name + (str(list(i)) if i else "")
                domain[name] = UNIT if leaf.name in logs else leaf.type.interval
                x = s.var(name, domain[name])
                entries[leaf.name][i] = s.node("log", [x]) if leaf.name in logs else x
    found = _written(s, graph, sizes, entries, outputs, known, domain, Interval(0.0, 1.0, True) if alone else INSIDE)
    return Case(s, found, domain, sizes, entries, fixed)


def _written(
    s: Scalars,
    graph: Graph,
    sizes: Mapping[str, int],
    entries: Mapping[str, Mapping[Index, int]],
    outputs: Sequence[str],
    known: Mapping[int, str],
    domain: dict[str, Interval],
    share: Interval,
) -> dict[str, dict[Index, int]]:
    given = {}
    for n, name in known.items():
        domain[name] = UNIT
        given[n] = s.node("log", [s.var(name, share)])
    found = written(s, graph, sizes, lambda s, leaf, i: entries[leaf.name][i], outputs, given)
    domain |= dict.fromkeys(s.unknowns, UNIT)
    return found


def _kind(graph: Graph, name: str) -> str:
    return next(leaf.type.kind for leaf in graph.leaves if leaf.name == name)


def _simplices(
    s: Scalars,
    leaf: Leaf,
    shape: Sequence[int],
    axis: int,
    first: int,
    domain: dict[str, Interval],
    stick: bool,
    closed: bool,
) -> dict[Index, int]:
    """Scalars that sum to 1 along an axis, for every index of the others; `closed`: they may be 0 and 1."""
    found: dict[Index, int] = {}
    size = shape[axis]
    order = [first, *(c for c in range(size) if c != first)] if first < size else list(range(size))
    for other in np.ndindex(*(n for d, n in enumerate(shape) if d != axis)):
        places = [(*other[:axis], c, *other[axis:]) for c in order]
        parts: list[int] = []
        rest = s.const(1)
        for k, place in enumerate(places):
            name = f"p.{leaf.name}{list(place)}"
            if stick and k == size - 1:
                parts.append(rest)
                continue
            domain[name] = UNIT
            share = s.var(name, UNIT if closed else INSIDE)
            parts.append(s.node("mul", [rest, share]) if stick else share)
            rest = s.node("mul", [rest, s.node("sub", [s.const(1), share])])
        if size > 1:
            s.simplices.append(frozenset(parts))
        found.update(zip(places, parts, strict=True))
    return found


def probability(graph: Graph, wanted: int, leaves: Sequence[str]) -> int | None:
    """The node log p of one class (a pick of a log-softmax) through which alone the leaves are read, if there is one.

    Then the claim is about a number p in (0, 1), for any number of classes; None too where classes are counted.
    """
    reading = _reading(graph, leaves)
    found: set[int] = set()
    stack, seen = [wanted], set()
    while stack:
        n = stack.pop()
        if n in seen:
            continue
        seen.add(n)
        node = graph.nodes[n]
        if node.op == "pick" and graph.nodes[node.args[0]].op == "logp" and n in reading:
            source = graph.nodes[node.args[0]]
            alone = node.type.axes <= set(graph.batch)  # else there are several
            alone &= graph.nodes[source.args[0]].type.interval.finite  # else it may be 0, or 1 beside others
            if alone and len(source.args) == 1 and set(node.attrs[0]) == set(source.attrs[0]):  # type: ignore[arg-type]
                found.add(n)
                continue
        stack.extend(node.args)
    over = set(class_axes(graph))
    above = _above(graph, [wanted], dict.fromkeys(found, ""))
    counted = any(
        base_axis(a) in over
        for n in above
        if n not in found
        for a in (*graph.nodes[n].type.axes, *bound_axes(graph.nodes[n]), *_named(graph, n))
    )
    leaks = any(graph.nodes[n].op == "leaf" and graph.nodes[n].attrs[0] in leaves for n in above)
    return found.pop() if len(found) == 1 and not counted and not leaks else None


def _named(graph: Graph, n: int) -> tuple[str, ...]:
    node = graph.nodes[n]
    return (str(node.attrs[0]),) if node.op in ("size", "index") else ()


def _reading(graph: Graph, leaves: Sequence[str]) -> set[int]:
    """The nodes that read one of the leaves."""
    found: set[int] = set()
    for n, node in enumerate(graph.nodes):
        own = node.op == "leaf" and node.attrs[0] in leaves
        if own or any(a in found for a in node.args):
            found.add(n)
    return found
