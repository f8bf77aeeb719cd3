"""Losses as Graphs, made by hand as `ir/lower` makes them from text: what the planner and the backends are tried on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lossdsl.check.types import Type
from lossdsl.derive.derive import derive
from lossdsl.ir.builder import Builder
from lossdsl.ir.graph import Graph, JointGraph, Leaf
from lossdsl.ir.namespace import Ref
from lossdsl.primitives.interval import FINITE, REALS, UNIT, Interval
from lossdsl.registry import Registry

Arrays = dict[str, Any]


class Draft:
    """A Builder with the leaves that losses have."""

    def __init__(self, registry: Registry, name: str, axes: tuple[str, ...], batch: tuple[str, ...]) -> None:
        self.b = Builder(registry, name, axes, batch)
        self.f = self.b.f

    def real(self, name: str, *axes: str, within: Interval = REALS, gradient: bool = True) -> Ref:
        return self._leaf(name, axes, "real", within, gradient, "input")

    def index(self, name: str, axis: str, *axes: str) -> Ref:
        return self._leaf(name, axes, f"index {axis}", REALS, False, "input")

    def bool(self, name: str, *axes: str) -> Ref:
        return self._leaf(name, axes, "bool", UNIT, False, "input")

    def param(self, name: str, within: Interval = FINITE, kind: str = "real", gradient: bool = False) -> Ref:
        return self._leaf(name, (), kind, within, gradient, "param")

    def _leaf(self, name: str, axes: tuple[str, ...], kind: str, within: Interval, gradient: bool, role: Any) -> Ref:
        leaf = Leaf(name, axes, Type(frozenset(axes), kind, within), role, gradient)
        return self.b.ref(self.b.leaf(leaf))

    def axis(self, name: str) -> Ref:
        return self.b.ref(self.b.index(name))

    def call(self, op: str, axes: Any, *args: Ref) -> Ref:
        return self.b.ref(self.b.node(op, [a.node for a in args], (axes,)))

    def reduce(self, name: str, axes: tuple[str, ...], e: Ref, mask: Ref | None = None) -> Ref:
        return self.b.ref(self.b.reduce(name, axes, e.node, None if mask is None else mask.node))

    def pick(self, e: Ref, **pairs: Ref) -> Ref:
        return self.b.ref(self.b.pick(e.node, {a: i.node for a, i in pairs.items()}))

    def copy(self, e: Ref, axis: str) -> Ref:
        """e', along the first copy of an axis."""
        return self.b.ref(self.b.pick(e.node, {axis: self.b.index(axis + "'")}))

    def graph(self, **outputs: Ref) -> Graph:
        return self.b.graph({name.replace("__", "."): node.node for name, node in outputs.items()})


def cross_entropy(r: Registry) -> Graph:
    """With ignored rows: their index is clamped, their logits are not read into the value."""
    d = Draft(r, "cross_entropy", ("N", "C"), ("N",))
    z, y, ignored = d.real("logits", "N", "C"), d.index("target", "C", "N"), d.param("@ignore_index", kind="int")
    keep = d.f.ne(y, ignored)
    there = d.f.select(keep, y, 0)
    safe = d.f.select(keep, z, 0)
    loss = -d.pick(d.call("log_softmax", "C", safe), C=there)
    return d.graph(rows=d.f.select(keep, loss, 0), weight=d.f.select(keep, 1, 0))


def focal(r: Registry) -> Graph:
    d = Draft(r, "focal", ("N", "C"), ("N",))
    z, y = d.real("logits", "N", "C"), d.index("target", "C", "N")
    gamma = d.param("γ", Interval(0.0, float("inf"), high_open=True), gradient=True)
    p = d.pick(d.call("softmax", "C", z), C=y)
    return d.graph(rows=-((1 - p) ** gamma * d.f.log(p)), aux__p=p)


def soft_target(r: Registry) -> Graph:
    """Two tensors, a class vector, and smoothing by a size."""
    d = Draft(r, "soft_target", ("N", "C"), ("N",))
    z, t = d.real("logits", "N", "C"), d.real("target", "N", "C", within=UNIT)
    w, eps = d.real("weight", "C", within=FINITE), d.param("eps", UNIT)
    classes = d.b.ref(d.b.size("C"))
    smooth = (1 - eps) * t + eps / classes
    return d.graph(rows=-d.reduce("sum", ("C",), w * smooth * d.call("log_softmax", "C", z)))


def brier(r: Registry) -> Graph:
    d = Draft(r, "brier", ("N", "C"), ("N",))
    z, y = d.real("logits", "N", "C"), d.index("target", "C", "N")
    t = d.f.eq(d.axis("C"), y)
    e = d.call("softmax", "C", z) - t
    return d.graph(rows=d.reduce("sum", ("C",), e * e))


def jsd(r: Registry) -> Graph:
    """Two logits tensors, and the mixture in log space."""
    d = Draft(r, "jsd", ("N", "C"), ("N",))
    p, q = (d.call("log_softmax", "C", d.real(n, "N", "C")) for n in ("student", "teacher"))
    half = d.f.log(d.b.ref(d.b.const(2)))
    m = d.f.logaddexp(p, q) - half
    e = d.f.exp(p) * (p - m) + d.f.exp(q) * (q - m)
    return d.graph(rows=d.reduce("sum", ("C",), e) / 2)


def binary(r: Registry) -> Graph:
    d = Draft(r, "binary", ("N", "C"), ("N", "C"))
    z, y = d.real("logits", "N", "C"), d.bool("target", "N", "C")
    return d.graph(rows=d.f.select(y, d.f.softplus(-z), d.f.softplus(z)))


def margin(r: Registry) -> Graph:
    """A masked maximum, and a mask by class."""
    d = Draft(r, "margin", ("N", "C"), ("N",))
    z, y, active = d.real("logits", "N", "C"), d.index("target", "C", "N"), d.bool("active", "C")
    other = d.f.not_(d.f.eq(d.axis("C"), y))
    best = d.reduce("max", ("C",), z, d.f.and_(other, active))
    return d.graph(rows=d.f.relu(best - d.pick(z, C=y) + 1))


def masked(r: Registry) -> Graph:
    """A log-sum-exp over the other classes."""
    d = Draft(r, "masked", ("N", "C"), ("N",))
    z, y = d.real("logits", "N", "C"), d.index("target", "C", "N")
    other = d.f.not_(d.f.eq(d.axis("C"), y))
    return d.graph(rows=d.f.softplus(d.reduce("logsumexp", ("C",), z, other) - d.pick(z, C=y)))


def class_weights(r: Registry) -> Graph:
    """Picks from class vectors, one of them computed; the vector has a gradient: a scatter."""
    d = Draft(r, "class_weights", ("N", "C"), ("N",))
    z, y, w = d.real("logits", "N", "C"), d.index("target", "C", "N"), d.real("w", "C", within=Interval(0.1, 10.0))
    share = w / d.reduce("sum", ("C",), w)
    return d.graph(rows=-d.pick(share, C=y) * d.pick(d.call("log_softmax", "C", z + d.f.log(share)), C=y))


def dice(r: Registry) -> Graph:
    """A batch loss: sums over rows."""
    d = Draft(r, "dice", ("N", "C"), ())
    z, y = d.real("logits", "N", "C"), d.index("target", "C", "N")
    p, t = d.call("softmax", "C", z), d.f.eq(d.axis("C"), y)
    both, total = d.reduce("sum", ("N",), p * t), d.reduce("sum", ("N",), p + t)
    return d.graph(rows=d.reduce("sum", ("C",), 1 - (2 * both + 1) / (total + 1)))


def contrastive(r: Registry) -> Graph:
    """Similarities of all pairs: a matrix product, a mask, a diagonal."""
    d = Draft(r, "contrastive", ("N", "N'", "D"), ("N",))
    x, z = d.real("x", "N", "D"), d.real("z", "N", "D")
    s = d.reduce("sum", ("D",), x * d.copy(z, "N"))
    lse = d.reduce("logsumexp", ("N'",), s)
    return d.graph(rows=lse - d.b.ref(d.b.pick(s.node, {"N'": d.b.index("N")})))


def tokens(r: Registry) -> Graph:
    """Two batch axes, a sum over one of them, and a mask with both."""
    d = Draft(r, "tokens", ("B", "T", "C"), ("B",))
    z, y, m = d.real("logits", "B", "T", "C"), d.index("target", "C", "B", "T"), d.bool("mask", "B", "T")
    safe = d.f.select(m, z, 0)
    logp = d.pick(d.call("log_softmax", "C", safe), C=d.f.select(m, y, 0))
    n = d.reduce("sum", ("T",), d.f.select(m, 1, 0))
    return d.graph(rows=-d.reduce("sum", ("T",), logp, m) / d.f.maximum(n, 1))


def ranked(r: Registry) -> Graph:
    """Sorted scores and a running sum."""
    d = Draft(r, "ranked", ("N", "C", "K"), ("N",))
    z, t = d.real("logits", "N", "C"), d.real("target", "N", "C", within=FINITE, gradient=False)
    order = d.b.ref(d.b.node("order", [t.node], ("C", "K", True)))
    s = d.b.ref(d.b.pick(z.node, {"C": order.node}))
    total = d.b.ref(d.b.node("cumsum", [s.node], ("K",)))
    k = d.axis("K")
    return d.graph(rows=d.reduce("sum", ("K",), total / (k + 1)))


def sparse(r: Registry) -> Graph:
    """A root a row, with its implicit gradient."""
    d = Draft(r, "sparse", ("N", "C"), ("N",))
    z, y = d.real("logits", "N", "C"), d.index("target", "C", "N")
    high = d.reduce("max", ("C",), z)
    t = d.b.ref(d.b.var(0, Type(frozenset({"N"}))))
    f = d.reduce("sum", ("C",), d.f.relu(z - t)) - 1
    root = d.b.ref(d.b.node("root", [(high - 1).node, high.node, f.node], (0,)))
    over = d.f.select(d.f.gt(z, root), z * z - root * root, 0)
    return d.graph(rows=(1 + d.reduce("sum", ("C",), over)) / 2 - d.pick(z, C=y))


def hardest(r: Registry) -> Graph:
    """Distances of all pairs without a matrix product, and the nearest other."""
    d = Draft(r, "hardest", ("N", "N'", "D"), ("N",))
    x = d.real("x", "N", "D")
    gap = x - d.copy(x, "N")
    distance = d.f.sqrt(d.reduce("sum", ("D",), gap * gap) + 1)
    other = d.f.not_(d.f.eq(d.axis("N"), d.axis("N'")))
    return d.graph(rows=d.reduce("min", ("N'",), distance, other))


def joint_distribution(r: Registry) -> Graph:
    """A matrix summed over rows, of which a condition decides most entries."""
    d = Draft(r, "joint_distribution", ("N", "C", "C'"), ())
    z, y = d.real("logits", "N", "C"), d.index("target", "C", "N")
    p = d.call("softmax", "C", z)
    matrix = d.reduce("sum", ("N",), d.f.eq(d.axis("C'"), y) * p)
    return d.graph(rows=d.reduce("sum", ("C", "C'"), d.f.exp(matrix)))


GRAPHS: dict[str, Callable[[Registry], Graph]] = {
    g.__name__: g
    for g in (
        *(cross_entropy, focal, soft_target, brier, jsd, binary, margin, masked, class_weights, dice, contrastive),
        *(tokens, ranked, sparse, hardest, joint_distribution),
    )
}


def joint(name: str, registry: Registry) -> JointGraph:
    return derive(GRAPHS[name](registry), registry)


def arrays(graph: Graph, seed: int, kind: str = "plain") -> Arrays:
    """Values for all leaves by their names. `kind`: plain, ties, offset (1e4), wide (spread of 300), infinite
    (-inf).
    """
    rng = np.random.default_rng(seed)
    sizes = {"N": 5, "C": 4, "D": 3, "B": 3, "T": 4}
    found: Arrays = {}
    for leaf in graph.leaves:
        shape = tuple(sizes[a.rstrip("'")] for a in leaf.axes)
        inside = leaf.type.interval
        if leaf.type.kind == "bool":
            found[leaf.name] = rng.random(shape) < 0.7
        elif leaf.type.kind != "real":
            found[leaf.name] = rng.integers(0, sizes["C"], shape) if leaf.name != "@ignore_index" else np.int64(-100)
        elif leaf.role != "input" or inside != REALS:
            low, high = max(inside.low, -2.0), min(inside.high, 2.0)
            found[leaf.name] = rng.uniform(low + 0.1 * (high - low), high - 0.1 * (high - low), shape)
        else:
            x = rng.normal(size=shape) * (300 if kind == "wide" else 2)
            x = np.round(x) if kind == "ties" else x
            x = x + 1e4 if kind == "offset" else x
            if kind == "infinite":
                x[rng.random(shape) < 0.3] = -np.inf
            found[leaf.name] = x
    if "target" in found and "@ignore_index" in found:
        found["target"].flat[1] = -100
        found["logits"][1] = np.nan  # an ignored row
    if "mask" in found:
        found["logits"][~found["mask"]] = np.nan
    return found
