"""The Graph: a hash-consed SSA of operations over named axes. A node's index is its place in topological order.

Operations (attrs in brackets; a value's axes are the union of its arguments' unless said):

    const [value]                 a number, ±inf or a bool; Fraction where it is rational
    leaf [name]                   an input, a param or a seed of the reverse pass: see `Leaf`
    index [A]                     the index along A, from 0
    size [A]                      the plain extent of A, an int
    PRIMITIVE(x, …)               pointwise: add, mul, exp, select(c, a, b), eq, … of `lossdsl/primitives/`
    reduce [name, (A, …)](e[, m]) a reduction of `lossdsl/reductions/` over those axes where m holds
    logp [(A, …)](z[, m])         z less the log-sum-exp of z over A, … where m holds; keeps A. It stands for the whole
                                  softmax family: a builder asked for log_softmax [A](z[, m]) or softmax [A](z[, m])
                                  makes select(m, logp, -inf) or its exp
    cumsum [A](e[, m])            inclusive, in index order; [A, True] runs from the end
    order [A, K, down](key[, m])  the entries of A in key order as indices along the new axis K; stable, masked last
    pick [(A, …)](e, i, …)        e with A's index replaced by i, …, simultaneously; indices are in range (lowering
                                  clamps them and keeps the presence apart)
    scatter [A, (B, …)](e, i)     the adjoint of a pick: at index a of A, the sum over B, … of e where i == a
    detach(e)
    var [n]                       the unknown of root n
    root [n](lo, hi, f)           the zero of f in var n, f monotone, per index of f's axes
    logdet [A, B](m), inverse [A, B](m), solve [A, B](m, b), eigvals [A, B, K](m), eigvecs [A, B, K](m)
                                  islands: M has rows A and columns B; solve gives x along B with Σ_B m·x = b

Absence has been compiled away: masks are explicit, a value that may be absent is selected before it is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from lossdsl.check.types import Type
from lossdsl.source.text import Span

Scalar = Fraction | float | bool
Attr = str | int | bool | Scalar | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Node:
    """One operation; `args` are indices into `Graph.nodes`; `origin` is the text it came from (None for derived
    ones)."""

    op: str
    args: tuple[int, ...]
    attrs: tuple[Attr, ...]
    type: Type
    origin: Span | None


@dataclass(frozen=True, slots=True)
class Leaf:
    """What a `leaf` node stands for. `axes` in the order of the tensor's dimensions.

    A seed is a cotangent: `@rows` for that of the rows, `@weight`, and `@grad.x` in the second application.
    """

    name: str
    axes: tuple[str, ...]
    type: Type
    role: Literal["input", "param", "seed"]
    differentiable: bool


@dataclass(frozen=True, slots=True)
class Graph:
    """`axes` is the canonical order; `outputs` name nodes:

    rows            the body of the caller's reduction, already times its weight, 0 where absent; or the batch loss
    weight          what the "valid" denominator sums: 1 or the weight where present, else 0; missing when it is all
                    ones
    aux.NAME        named outputs;  default.NAME  defaults of inputs;  size.A  sizes that are arithmetic
    grad.NAME       (JointGraph) the cotangent of a differentiable leaf, given the seeds
    second.NAME     (JointGraph) cotangents of leaves and of the seeds `@rows`, `@weight`, given seeds `@grad.NAME`
    """

    name: str
    nodes: tuple[Node, ...]
    leaves: tuple[Leaf, ...]
    axes: tuple[str, ...]
    batch: tuple[str, ...]  # the axes of rows, in canonical order; () for a batch loss
    outputs: tuple[tuple[str, int], ...]

    def output(self, name: str) -> int:
        """The node of a named output; KeyError if there is none."""
        return dict(self.outputs)[name]


@dataclass(frozen=True, slots=True)
class JointGraph:
    """A Graph together with its derivatives: `graph.outputs` holds grad.* and, where it exists, second.*.

    `second_missing` says why there is no second derivative, or is empty.
    """

    graph: Graph
    second_missing: str = ""


MOST_EXACT = 2**53  # from here on a float64 has no two numbers that are 1 apart, and soon no int64 any


def is_whole(x: Scalar | int) -> bool:
    """Whether a constant is an integer of kernels: a literal such as 1e30 is real, whatever its digits."""
    return not isinstance(x, float) and Fraction(x).denominator == 1 and abs(Fraction(x)) <= MOST_EXACT


def reachable(nodes: Sequence[Node], roots: Iterable[int]) -> list[int]:
    """What the roots need, in topological order."""
    seen: set[int] = set()
    stack = list(roots)
    while stack:
        n = stack.pop()
        if n not in seen:
            seen.add(n)
            stack.extend(nodes[n].args)
    return sorted(seen)


def restricted(graph: Graph, outputs: Iterable[tuple[str, int]]) -> Graph:
    """The graph with these outputs alone, and with the nodes and leaves that they need."""
    kept = tuple(outputs)
    needed = reachable(graph.nodes, [n for _, n in kept])
    new = {old: i for i, old in enumerate(needed)}
    nodes = tuple(replace(graph.nodes[o], args=tuple(new[a] for a in graph.nodes[o].args)) for o in needed)
    read = {node.attrs[0] for node in nodes if node.op == "leaf"}
    leaves = tuple(leaf for leaf in graph.leaves if leaf.name in read)
    return replace(graph, nodes=nodes, leaves=leaves, outputs=tuple((name, new[n]) for name, n in kept))
