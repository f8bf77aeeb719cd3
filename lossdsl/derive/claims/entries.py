"""A Graph written out as scalars: every entry of every tensor by itself, at small sizes, for all real inputs at once.

Indices, booleans and sizes are numbers here (a proof goes through all of them). Entries of a row of logits may be
given as logarithms of probabilities, which is all that a loss sees of them if it doesn't change with a shift.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import inf
from typing import Any

from lossdsl.derive.claims.scalars import NotWrittenError, Scalars
from lossdsl.ir.graph import Graph, Leaf, Node

COMPARES = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})
Index = tuple[int, ...]
Place = Mapping[str, int]
Entry = Callable[[Scalars, Leaf, Index], int]


def written(
    s: Scalars,
    graph: Graph,
    sizes: Mapping[str, int],
    entry: Entry,
    outputs: Sequence[str],
    known: Mapping[int, int] | None = None,
) -> dict[str, dict[Index, int]]:
    """The entries of some outputs, by index along the output's axes in canonical order. NotWrittenError.

    `sizes` gives the extent of every axis; `entry` the scalar of a leaf's entry at an index along `Leaf.axes`: a number
    for what isn't real; `known` scalars for some nodes, at every index.
    """
    writer = _Writer(s, graph, sizes, entry, {leaf.name: leaf for leaf in graph.leaves}, known or {})
    found: dict[str, dict[Index, int]] = {}
    for name in outputs:
        n = graph.output(name)
        axes = writer.axes(n)
        found[name] = {i: writer.at(n, dict(zip(axes, i, strict=True))) for i in writer.indices(axes)}
    return found


@dataclass(slots=True)
class _Writer:
    s: Scalars
    graph: Graph
    sizes: Mapping[str, int]
    entry: Entry
    leaves: Mapping[str, Leaf]
    known: Mapping[int, int]
    memo: dict[tuple[int, Index], int] = field(default_factory=dict)

    def axes(self, n: int) -> tuple[str, ...]:
        return tuple(a for a in self.graph.axes if a in self.graph.nodes[n].type.axes)

    def indices(self, axes: Sequence[str]) -> list[Index]:
        return list(product(*(range(self.sizes[a]) for a in axes)))

    def at(self, n: int, place: Place) -> int:
        if n in self.known:
            return self.known[n]
        key = (n, tuple(place[a] for a in self.axes(n)))
        if key not in self.memo:
            made = self.memo[key] = self.made(self.graph.nodes[n], place)
            within = self.graph.nodes[n].type.interval  # where it may be none, what it was folded to lies anywhere
            bounded = (within.low > -inf or within.high < inf) and not within.nan
            if bounded and self.s.nodes[made][0] not in ("const", "var"):
                self.s.narrow(made, within)
        return self.memo[key]

    def number(self, n: int, place: Place) -> Any:
        """What must be known: an index, a condition of a mask."""
        value = self.s.value(self.at(n, place))
        if value is None:
            raise NotWrittenError(f"{self.graph.nodes[n].op} that depends on reals")
        return value

    def inside(self, node: Node, axes: Any, place: Place) -> list[tuple[int, Any]]:
        """(entry, index) over the axes, where the mask holds."""
        found = []
        for index in self.indices(axes):
            here = {**place, **dict(zip(axes, index, strict=True))}
            if len(node.args) == 1 or self.number(node.args[1], here):
                found.append((self.at(node.args[0], here), index))
        return found

    def made(self, node: Node, place: Place) -> int:
        s, args = self.s, node.args
        match node.op:
            case "const":
                return s.const(node.attrs[0])  # type: ignore[arg-type]
            case "leaf":
                leaf = self.leaves[str(node.attrs[0])]
                return self.entry(s, leaf, tuple(place[a] for a in leaf.axes))
            case "index":
                return s.const(place[str(node.attrs[0])])
            case "size":
                return s.const(self.sizes[str(node.attrs[0])])
            case "reduce":
                return self.reduce(node, place)
            case "logp":
                whole = s.lse([x for x, _ in self.inside(node, node.attrs[0], place)])
                return s.node("sub", [self.at(args[0], place), whole])
            case "pick":
                axes = node.attrs[0]
                assert isinstance(axes, tuple)
                read = {a: int(self.number(i, place)) for a, i in zip(axes, args[1:], strict=True)}
                return self.at(args[0], {**place, **read})
            case "scatter":
                axis, over = str(node.attrs[0]), node.attrs[1]
                assert isinstance(over, tuple)
                places = [{**place, **dict(zip(over, i, strict=True))} for i in self.indices(over)]
                return s.total([self.at(args[0], p) for p in places if int(self.number(args[1], p)) == place[axis]])
            case "cumsum":
                axis, back = str(node.attrs[0]), len(node.attrs) > 1
                here = place[axis]
                inside = self.inside(node, (axis,), place)
                return s.total([x for x, (i,) in inside if (i >= here if back else i <= here)])
            case "select":  # the branch that isn't taken need not be written
                condition = s.value(self.at(args[0], place))
                if condition is not None:
                    return self.at(args[1] if condition else args[2], place)
            case "var" | "root" | "order" | "logdet" | "inverse" | "solve" | "eigvals" | "eigvecs":
                raise NotWrittenError(node.op)
        made = s.node(node.op, [self.at(a, place) for a in args])
        if node.op in COMPARES and any(self.graph.nodes[a].type.interval.nan for a in args):
            return s.node("or" if node.op == "ne" else "and", [made, s.unknown()])  # it fails of what is none
        return made

    def reduce(self, node: Node, place: Place) -> int:
        s = self.s
        inside = [x for x, _ in self.inside(node, node.attrs[1], place)]
        match node.attrs[0]:
            case "sum":
                return s.total(inside)
            case "count":
                return s.const(len(inside))
            case "logsumexp":
                return s.lse(inside)
            case "prod" | "max" | "min":
                name = str(node.attrs[0])
                op = {"prod": "mul", "max": "maximum", "min": "minimum"}[name]
                result = s.const({"prod": 1, "max": -inf, "min": inf}[name])
                for x in inside:
                    result = s.node(op, [result, x])
                return result
        raise NotWrittenError(f"reduce {node.attrs[0]}")
