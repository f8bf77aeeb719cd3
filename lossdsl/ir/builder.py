"""Building Graphs: every node is typed, rewritten by rule and hash-consed as it is made.

The rules of `ir/rewrite.py` run on construction, from the arguments up, so the same simplifications serve what the user
wrote, what the reverse pass derives and what the planner expands.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import inf

from lossdsl.check.types import Type, base_axis
from lossdsl.ir.graph import Attr, Graph, Leaf, Node, Scalar
from lossdsl.ir.limits import MOST_DERIVED, TooLargeError
from lossdsl.ir.namespace import Namespace, Ref
from lossdsl.ir.typing import infer
from lossdsl.registry import Registry
from lossdsl.source.diagnostic import InternalError
from lossdsl.source.text import Span

# Picks are pushed through these besides the pointwise primitives: their value at an index needs no other index.
_TRANSPARENT = ("detach",)
_Key = tuple[str, tuple[int, ...], tuple[Attr, ...], bool]


def bound_axes(node: Node) -> frozenset[str]:
    """The axes that an operation runs over: in its arguments they are not those of what it gives."""
    match node.op:
        case "reduce" | "scatter":
            return frozenset(node.attrs[1])  # type: ignore[arg-type]
        case "logp" | "pick":
            return frozenset(node.attrs[0])  # type: ignore[arg-type]
        case "log_softmax" | "softmax" | "cumsum" | "order":
            return frozenset({str(node.attrs[0])})
        case "logdet" | "inverse" | "transpose_inverse" | "solve" | "eigvals" | "eigvecs":
            return frozenset(str(a) for a in node.attrs[:2])
    return frozenset()


def _key(op: str, args: Sequence[int], attrs: tuple[Attr, ...]) -> _Key:
    # 1, 1.0 and True are one dictionary key: a bool constant must not become a number.
    return op, tuple(args), attrs, bool(attrs) and isinstance(attrs[0], bool)


class Builder:
    """A Graph under construction. The one mutable thing of the compiler; stages hand on what `graph` returns."""

    def __init__(
        self, registry: Registry, name: str, axes: Sequence[str], batch: Sequence[str], rewriting: bool = True
    ) -> None:
        """`rewriting=False` leaves every node as it is written (but for the names of the softmax family): what
        rewritten graphs are compared with."""
        self.registry = registry
        self.rewriting = rewriting
        self.name = name
        self.axes = list(axes)
        self.batch = tuple(batch)
        self.nodes: list[Node] = []
        self.leaves: dict[str, Leaf] = {}
        self.f = Namespace(self)
        self.picked: dict[str, list[int]] = {}  # axis -> index nodes it was replaced by: what rules look for
        self._ids: dict[_Key, int] = {}
        self._picks: dict[tuple[tuple[str, int], ...], dict[int, int]] = {}
        self.origin: Span | None = None  # what nodes are made from now, unless they say
        self.logs: dict[int, int | None] = {}  # what `rules/match.as_log` has found

    # --- nodes -----------------------------------------------------------------------------------------------------

    def node(self, op: str, args: Sequence[int], attrs: tuple[Attr, ...] = (), origin: Span | None = None) -> int:
        """The node for op(args), or an equal and better one that the rules know. InternalError on an unknown op."""
        from lossdsl.ir.rewrite import definitions, rewrite  # the rules build nodes: they import this module's type

        outer, self.origin = self.origin, origin or self.origin
        try:
            better = (rewrite if self.rewriting else definitions)(self, op, tuple(args), attrs)
            return self.raw(op, args, attrs) if better is None else better
        finally:
            self.origin = outer

    def raw(self, op: str, args: Sequence[int], attrs: tuple[Attr, ...] = (), type: Type | None = None) -> int:
        """The node as said, without rewriting; `type` where it can't be inferred (a leaf, the unknown of a root)."""
        found = self.known(op, args, attrs)
        if found is None:
            typed = type or infer(self, op, tuple(args), attrs)
            self._ids[_key(op, args, attrs)] = found = len(self.nodes)
            if found >= MOST_DERIVED:
                raise TooLargeError(f"the loss with its derivatives needs more than {MOST_DERIVED} operations")
            self.nodes.append(Node(op, tuple(args), attrs, typed, self.origin))
            self._note_axes(typed.axes)
        return found

    def known(self, op: str, args: Sequence[int], attrs: tuple[Attr, ...] = ()) -> int | None:
        """The node as said, if it is there already."""
        return self._ids.get(_key(op, args, attrs))

    def _note_axes(self, axes: Iterable[str]) -> None:
        """Axes that appear on the way (fresh copies, `C -> K`) join the canonical order behind their base."""
        for axis in sorted(set(axes) - set(self.axes)):
            kin = [i for i, a in enumerate(self.axes) if base_axis(a) == base_axis(axis)]
            self.axes.insert(kin[-1] + 1 if kin else len(self.axes), axis)

    def const(self, value: Scalar | int, origin: Span | None = None) -> int:
        if isinstance(value, bool):
            return self.node("const", (), (value,), origin)
        if isinstance(value, float) and abs(value) != inf:
            value = Fraction(value)
        return self.node("const", (), (Fraction(value) if isinstance(value, int) else value,), origin)

    def leaf(self, leaf: Leaf, origin: Span | None = None) -> int:
        known = self.leaves.setdefault(leaf.name, leaf)
        if known != leaf:
            raise InternalError(f"two leaves are called {leaf.name}")
        outer, self.origin = self.origin, origin
        node = self.raw("leaf", (), (leaf.name,), leaf.type)
        self.origin = outer
        return node

    def var(self, number: int, type: Type) -> int:
        """The unknown of root `number`."""
        return self.raw("var", (), (number,), type)

    def index(self, axis: str) -> int:
        return self.node("index", (), (axis,))

    def size(self, axis: str) -> int:
        return self.node("size", (), (axis,))

    def reduce(self, name: str, axes: Sequence[str], e: int, mask: int | None = None) -> int:
        args = (e,) if mask is None else (e, mask)
        return self.node("reduce", args, (name, tuple(axes)))

    # --- reading --------------------------------------------------------------------------------------------------

    def __getitem__(self, node: int) -> Node:
        return self.nodes[node]

    def type(self, node: int) -> Type:
        return self.nodes[node].type

    def value(self, node: int) -> Scalar | None:
        """The value of a constant, else None."""
        n = self.nodes[node]
        return n.attrs[0] if n.op == "const" else None  # type: ignore[return-value]

    def ref(self, node: int) -> Ref:
        return Ref(self, node)

    def is_pointwise(self, op: str) -> bool:
        return op in self.registry.primitives

    def fresh_axis(self, axis: str) -> str:
        """A copy of `axis` that nothing uses yet."""
        copy = axis + "'"
        while copy in self.axes:
            copy += "'"
        self._note_axes([copy])
        return copy

    # --- rebuilding -------------------------------------------------------------------------------------------------

    def pick(self, e: int, pairs: Mapping[str, int], origin: Span | None = None) -> int:
        """e with the index of each axis replaced, simultaneously: e[A -> i, B -> j].

        Goes through pointwise operations to where a value comes from: leaves, reductions, logp, order, root, islands.
        """
        for axis, index in pairs.items():
            seen = self.picked.setdefault(axis, [])
            if index not in seen:
                seen.append(index)
        outer, self.origin = self.origin, origin or self.origin
        found = self._pick(e, dict(pairs), self._picked_by(pairs))
        self.origin = outer
        return found

    def _picked_by(self, pairs: Mapping[str, int]) -> dict[int, int]:
        """What nodes are at these indices, as far as that is known: rules read at an index what they look at, again and
        again, and what is below it too."""
        return self._picks.setdefault(tuple(sorted(pairs.items())), {})

    def _pick(self, e: int, pairs: dict[str, int], memo: dict[int, int]) -> int:
        if e in memo:
            return memo[e]
        node = self.nodes[e]
        live = {
            a: i
            for a, i in pairs.items()
            if a in node.type.axes and not (self.nodes[i].op == "index" and self.nodes[i].attrs == (a,))
        }
        if not live:
            result = e
        elif node.op == "index":
            result = live[str(node.attrs[0])]
        elif self.is_pointwise(node.op) or node.op in _TRANSPARENT:
            result = self.node(node.op, [self._pick(a, pairs, memo) for a in node.args], node.attrs)
        elif node.op == "pick":
            source, *indices = node.args
            inner = {str(a): self._pick(i, pairs, memo) for a, i in zip(node.attrs[0], indices, strict=True)}  # type: ignore[arg-type]
            through = {a: i for a, i in live.items() if a in self.type(source).axes and a not in inner}
            result = self._pick(source, {**through, **inner}, self._picked_by({**through, **inner}))
        else:
            axes = tuple(a for a in self.axes if a in live)
            result = self.raw("pick", (e, *(live[a] for a in axes)), (axes,))
        memo[e] = result
        return result

    def rebuild(self, e: int, replace: Mapping[int, int]) -> int:
        """e with some nodes replaced by others, everything above them made anew.

        What an operation binds is another index of the same name: Σ over N of (C == y[N]) is not at the N of a
        replaced C == y[N], and stays.
        """
        memo = dict(replace)
        low = min(replace, default=0)
        free = frozenset().union(*(self.nodes[n].type.axes for n in replace))

        def walk(n: int) -> int:
            if n in memo or n < low:
                return memo.get(n, n)
            node = self.nodes[n]
            if free & bound_axes(node):
                return n
            args = [walk(a) for a in node.args]
            same = tuple(args) == node.args
            memo[n] = n if same else self.again(node, args)
            return memo[n]

        return walk(e)

    def again(self, node: Node, args: Sequence[int]) -> int:
        """A node of another graph with these arguments, rewritten as a new one would be."""
        if node.op == "pick":
            return self.pick(args[0], dict(zip(node.attrs[0], args[1:], strict=True)))  # type: ignore[arg-type]
        return self.node(node.op, args, node.attrs, node.origin)

    def replay(self, graph: Graph, instead: Mapping[int, int] | None = None, attached: bool = False) -> list[int]:
        """Adds all nodes of a finished Graph, those in `instead` as the nodes named there; returns where each lies.
        `attached`: a `detach` as its argument, of a graph that is derived no more."""
        for axis in graph.axes:
            self._note_axes([axis])
        ids: list[int] = []
        leaves = {leaf.name: leaf for leaf in graph.leaves}
        for n, node in enumerate(graph.nodes):
            args = [ids[a] for a in node.args]
            if instead is not None and n in instead:
                ids.append(instead[n])
            elif attached and node.op == "detach":
                ids.append(args[0])
            elif node.op == "leaf":
                ids.append(self.leaf(leaves[str(node.attrs[0])], node.origin))
            elif node.op == "var":
                ids.append(self.var(int(node.attrs[0]), node.type))  # type: ignore[arg-type]
            else:
                outer, self.origin = self.origin, node.origin
                ids.append(self.again(node, args))
                self.origin = outer
        return ids

    def graph(self, outputs: Mapping[str, int]) -> Graph:
        """What the outputs need, in topological order."""
        needed: set[int] = set()
        stack = list(outputs.values())
        while stack:
            n = stack.pop()
            if n not in needed:
                needed.add(n)
                stack.extend(self.nodes[n].args)
        new = {old: i for i, old in enumerate(sorted(needed))}
        nodes = []
        for old in new:
            node = self.nodes[old]
            nodes.append(Node(node.op, tuple(new[a] for a in node.args), node.attrs, node.type, node.origin))
        used = {n.attrs[0] for n in nodes if n.op == "leaf"}
        leaves = tuple(leaf for leaf in self.leaves.values() if leaf.name in used or leaf.role == "input")
        return Graph(
            self.name,
            tuple(nodes),
            leaves,
            tuple(self.axes),
            self.batch,
            tuple((k, new[n]) for k, n in outputs.items()),
        )
