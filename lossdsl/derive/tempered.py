"""Softmaxes of scaled logits, of what these are less their largest: z/T would be rounded at the size of a common offset
before that goes, (z - max z)/T is not.

Not by rule: what is claimed of a loss is proved of its logits as they are.
"""

from __future__ import annotations

from math import inf

from lossdsl.ir.builder import Builder
from lossdsl.ir.graph import Graph
from lossdsl.ir.rules.match import rational
from lossdsl.registry import Registry


def tempered(graph: Graph, registry: Registry) -> Graph:
    """logp(z/T) as logp((z - max z)/T), the maximum detached, in all of the graph.

    For a scale that is one along the row and whose sign is known, unless it is a literal that rounds nothing, a power
    of 2; and for logits that have no bounds.
    """
    b = Builder(registry, graph.name, graph.axes, graph.batch)
    for leaf in graph.leaves:
        b.leaf(leaf)
    ids, instead = b.replay(graph), dict[int, int]()
    for n, node in enumerate(graph.nodes):
        axes = node.attrs[0] if node.op == "logp" else None
        scaled = _less_largest(b, [ids[a] for a in node.args], axes) if isinstance(axes, tuple) else None
        if scaled is not None:
            instead[n] = b.node("logp", [scaled, *(ids[a] for a in node.args[1:])], node.attrs)
            ids = b.replay(graph, instead)
    return b.graph({name: ids[n] for name, n in graph.outputs}) if instead else graph


def less(b: Builder, z: int, top: int) -> int:
    """z - top, or z where top is infinite; top detached."""
    finite = b.node("lt", [b.node("abs", [top]), b.const(inf)])
    return b.node("sub", [z, b.node("detach", [b.node("select", [finite, top, b.const(0)])])])


def _less_largest(b: Builder, args: list[int], axes: tuple[str, ...]) -> int | None:
    """(z - max z)/T for z/T, be it negative."""
    node = b[args[0]]
    negative = node.op == "neg"
    node = b[node.args[0]] if negative else node
    if node.op not in ("mul", "div"):
        return None
    k, z = node.args if node.op == "mul" else node.args[::-1]
    if node.op == "mul" and b.type(z).axes.isdisjoint(axes):
        k, z = z, k
    sign = _sign(b, k)
    if not sign or b.type(k).axes & set(axes) or _exact(b, k) or not b.type(z).axes >= set(axes):
        return None
    if b.type(z).interval.finite or b[z].op == "logp" or _is_centred(b, z, axes):
        return None
    largest = "min" if (sign < 0) != negative else "max"  # which the scale makes the largest
    below = less(b, z, b.node("reduce", [z, *args[1:]], (largest, axes)))
    scaled = b.node(node.op, [k, below] if node.op == "mul" else [below, k])
    return b.node("neg", [scaled]) if negative else scaled


def _sign(b: Builder, k: int) -> int:
    """1 or -1 where k is never of the other sign, else 0."""
    known = b.type(k).interval
    return 1 if known.low >= 0 else -1 if known.high <= 0 else 0


def _exact(b: Builder, k: int) -> bool:
    """Whether k is a literal that a product is exact by."""
    c = rational(b, k)
    return c is not None and all(n & (n - 1) == 0 for n in (abs(c.numerator), c.denominator))


def _is_centred(b: Builder, z: int, axes: tuple[str, ...]) -> bool:
    """Whether something has been taken from all of a row, for a claim or as it is written."""
    if b[z].op == "select":
        return any(_is_centred(b, a, axes) for a in b[z].args[1:])
    return b[z].op == "sub" and any(not b.type(a).axes >= set(axes) for a in b[z].args)
