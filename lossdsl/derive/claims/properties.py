"""Claims of one input: shift invariance, symmetry, convexity, gradients, Lipschitz constants, properness."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from math import isfinite
from typing import Any

from lossdsl.check.types import Type
from lossdsl.derive.claims import at_points, breaks, by_rules, shifts
from lossdsl.derive.claims.cases import CLASSES, rows_alone
from lossdsl.derive.claims.comparisons import asked, same
from lossdsl.derive.claims.everywhere import OTHER, never_negative_everywhere
from lossdsl.derive.claims.setting import Replacement, Subject, place
from lossdsl.derive.claims.verdict import Found
from lossdsl.derive.claims.weight import LOG, by_one
from lossdsl.derive.derive import derive
from lossdsl.ir.builder import Builder
from lossdsl.ir.graph import Graph, Leaf, reachable
from lossdsl.primitives.interval import FINITE
from lossdsl.syntax import ast


def shift_invariant(about: Subject, name: str) -> Found:
    """The same number added to all of a row's entries."""
    b = about.builder()
    rows = place(b, about.graph, {})["rows"]
    leaf = at_points.leaf_of(about.graph, name)
    batch = tuple(a for a in leaf.axes if a in about.graph.batch)
    c = Leaf("@shift", batch, Type(frozenset(batch), "real", FINITE), "input", False)
    moved = place(b, about.graph, {name: lambda b: b.node("add", [b.leaf(leaf), b.leaf(c)])})["rows"]
    if by_rules.equal(b, rows, moved):
        return Found("proved", "the shift is rewritten away")
    if shifts.invariant(b, rows, b.leaf(leaf), about.graph.batch):
        return Found("proved", "what moves cancels, for any number of classes")
    if not _free(leaf):
        return Found("undecided", f"`{name}` lies in {leaf.type.interval}, which a shift leaves")
    difference = b.node("sub", [moved, rows])
    found = at_points.tried(about, b, difference, at_points.differs, rows)
    return asked(about, found, b, difference, "zero")


def symmetric(about: Subject, name: str) -> Found:
    """The sum over all targets depends on nothing else."""
    b = about.builder()
    target = at_points.leaf_of(about.graph, name)
    axis = target.type.kind.removeprefix("index ")
    if axis == target.type.kind:
        return Found("undecided", f"{name} is of kind {target.type.kind}; symmetry is about an index")
    if not set(target.axes) <= set(about.graph.batch) or not _alone(about.graph):
        return Found("undecided", f"a row reads several entries of `{name}`; symmetry is about one")
    copy = b.fresh_axis(axis)
    rows = place(b, about.graph, {name: lambda b: b.index(copy)})["rows"]
    over = copy
    if axis not in b.type(rows).axes:  # under the axis's own name, known sums are known
        over, rows = axis, b.pick(rows, {copy: b.index(axis)})
    inputs = [leaf for leaf in about.graph.leaves if leaf.differentiable and leaf.role == "input"]
    if by_rules.settles(b, rows, over, [b.leaf(leaf) for leaf in inputs]):
        return Found("proved", "the sum over all targets is rewritten to one without the inputs")
    total = b.reduce("sum", (over,), rows)
    other = {leaf.name: renamed(leaf) for leaf in inputs}
    again = place(b, about.graph, {name: lambda b: b.index(copy), **other})["rows"]
    difference = b.node("sub", [total, b.reduce("sum", (copy,), again)])
    found = at_points.tried(about, b, difference, at_points.differs, total)
    return asked(about, found, b, total, "constant")


def _alone(graph: Graph) -> bool:
    return rows_alone(graph, reachable(graph.nodes, [graph.output("rows")]))


def yes_or_no(about: Subject) -> list[str]:
    """The targets that are a truth, or a number from 0 to 1, for each row."""
    found = []
    for leaf in about.graph.leaves:
        if leaf.role != "input" or leaf.differentiable or not set(leaf.axes) <= set(about.graph.batch):
            continue
        unit = leaf.type.kind == "real" and (leaf.type.interval.low, leaf.type.interval.high) == (0, 1)
        if leaf.type.kind == "bool" or unit:
            found.append(leaf.name)
    return found


def symmetric_in_two(about: Subject, name: str) -> Found:
    """The sum over both values of such a target depends on nothing else."""
    b = about.builder()
    inputs = [leaf for leaf in about.graph.leaves if leaf.differentiable and leaf.role == "input"]
    real = at_points.leaf_of(about.graph, name).type.kind == "real"

    def total(others: dict[str, Replacement]) -> int:
        parts = []
        for value in (0, 1) if real else (False, True):
            parts.append(place(b, about.graph, {name: partial(Builder.const, value=value), **others})["rows"])
        return b.node("add", parts)

    both = total({})
    difference = b.node("sub", [both, total({leaf.name: renamed(leaf) for leaf in inputs})])
    found = at_points.tried(about, b, difference, at_points.differs, both)
    return asked(about, found, b, both, "constant")


def renamed(leaf: Leaf) -> Replacement:
    """A leaf of the same kind, by another name."""
    second = Leaf(f"{OTHER}{leaf.name}", leaf.axes, leaf.type, leaf.role, False)
    return lambda b: b.leaf(second)


SHORT = 10**12  # of a step across a jump, in which a slope changes next to nothing


def _step(leaf: Leaf, sign: int, parts: int = at_points.STEPS) -> Replacement:
    """The leaf a short step along another of its kind, so that what is seen is its slope or curvature here."""
    along = Leaf(f"{at_points.ALONG}{leaf.name}", leaf.axes, leaf.type, leaf.role, False)
    within = leaf.type.interval

    def of(b: Builder) -> int:
        moved = b.node("add", [b.leaf(leaf), b.node("mul", [b.const(Fraction(sign, parts)), b.leaf(along)])])
        return moved if _free(leaf) else b.node("clip", [moved, b.const(within.low), b.const(within.high)])

    return of


def _free(leaf: Leaf) -> bool:
    """Whether it may be any real."""
    return not (isfinite(leaf.type.interval.low) or isfinite(leaf.type.interval.high))


def _bend(about: Subject, b: Builder, leaf: Leaf, rows: int) -> int:
    """By how much the loss at a point lies below its mean on both sides, on a short line in the input's domain."""
    if _free(leaf):
        middle, *ends = (rows, *(place(b, about.graph, {leaf.name: _step(leaf, k)})["rows"] for k in (-1, 1)))
    else:  # from the point towards another
        second = renamed(leaf)

        def towards(parts: int, b: Builder) -> int:
            way = b.node("sub", [second(b), b.leaf(leaf)])
            return b.node("add", [b.leaf(leaf), b.node("mul", [b.const(Fraction(parts, at_points.STEPS)), way])])

        middle, end = (place(b, about.graph, {leaf.name: partial(towards, k)})["rows"] for k in (1, 2))
        ends = [rows, end]
    return b.node("sub", [b.node("mul", [b.const(0.5), b.node("add", ends)]), middle])


def convex(about: Subject, name: str) -> Found:
    """Along every line in a row: by the rules of convex parts, by a second derivative that is never negative."""
    b = about.builder()
    rows = place(b, about.graph, {})["rows"]
    leaf = at_points.leaf_of(about.graph, name)
    if by_rules.curvature(b, rows, b.leaf(leaf)) in ("constant", "affine", "convex"):
        return Found("proved", "composed of convex parts")
    second = renamed(leaf)
    half = b.const(0.5)
    middle = place(b, about.graph, {name: lambda b: b.node("mul", [half, b.node("add", [b.leaf(leaf), second(b)])])})[
        "rows"
    ]
    ends = b.node("add", [rows, place(b, about.graph, {name: second})["rows"]])
    gap = b.node("sub", [b.node("mul", [half, ends]), middle])
    found = at_points.tried(about, b, gap, at_points.negative, rows)
    if found.status == "held":  # two points far apart may lie about what bends the other way
        near = at_points.tried(about, b, _bend(about, b, leaf, rows), at_points.negative, rows)
        found = near if near.status == "refuted" else found
    if found.status == "held" and set(leaf.axes) <= set(about.graph.batch):
        curved = _second(about, name)
        if curved is not None:
            b, node = curved
            shown = never_negative_everywhere(about, b, node)
            if shown is not None and not shown.points:
                proof = f"the second derivative is never negative, {shown.detail}"
                return found if found.again is None else found.again(proof=proof)
    return found


def detached(graph: Graph, name: str) -> bool:
    """Whether the value moves with an input where no derivative sees it."""
    below: dict[int, bool] = {}
    for n in reachable(graph.nodes, [graph.output("rows")]):
        node = graph.nodes[n]
        below[n] = (node.op == "leaf" and node.attrs[0] == name) or any(below[a] for a in node.args)
        if node.op == "detach" and below[n]:
            return True
    return False


def _second(about: Subject, name: str) -> tuple[Builder, int] | None:
    """The second derivative of a row in its one number; None where a kink has none."""
    joint = derive(about.graph, about.registry)
    names = [output for output, _ in joint.graph.outputs]
    if f"second.{name}" not in names or breaks.bends(about, name) or detached(about.graph, name):
        return None
    b = about.builder()
    seeds = {leaf.name: (lambda b: b.const(0)) for leaf in joint.graph.leaves if leaf.name.startswith("@grad.")}
    seeds |= {"@rows": lambda b: b.const(1), f"@grad.{name}": lambda b: b.const(1)}
    return b, place(b, joint.graph, seeds)[f"second.{name}"]


# --- gradients --------------------------------------------------------------------------------------------------------


def gradient_of(about: Subject, name: str, b: Builder, replaced: dict[str, Replacement]) -> int:
    """The gradient of one row's loss in an input."""
    joint = _any_reference(derive(about.graph, about.registry).graph, about.graph)
    return place(b, joint, {**replaced, "@rows": lambda b: b.const(1)}).get(f"grad.{name}", b.const(0))


def _any_reference(joint: Graph, primal: Graph) -> Graph:
    """The reverse pass keeps digits by what it subtracts at the largest entry, and may do so at any: here the first."""
    largest = [n.op == "reduce" and n.attrs[0] == "argmax" for n in joint.nodes]
    if not any(largest) or any(n.op == "reduce" and n.attrs[0] == "argmax" for n in primal.nodes):
        return joint
    first = tuple(
        replace(n, op="const", args=(), attrs=(Fraction(0),)) if here else n
        for n, here in zip(joint.nodes, largest, strict=True)
    )
    return replace(joint, nodes=first)


def gradient(about: Subject, name: str, right: ast.Expr, replaced: dict[str, Replacement]) -> Found:
    """grad(name) == right."""
    b = about.builder()
    grad = gradient_of(about, name, b, {})
    other = place(b, about.expression(right), replaced)["rows"]
    return same(about, b, grad, other)


def lipschitz(about: Subject, name: str, right: ast.Expr, replaced: dict[str, Replacement]) -> Found:
    """The Euclidean length of the gradient of a row.

    By the form weight·(p - e_y), of which the length is at most sqrt(2)·|weight|·(1 - p_y), else by its entries.
    """
    b = about.builder()
    leaf = at_points.leaf_of(about.graph, name)
    over = tuple(a for a in leaf.axes if a not in about.graph.batch)
    grad = gradient_of(about, name, b, {})
    square = b.node("pow", [grad, b.const(2)])
    total = b.reduce("sum", over, square) if over else square
    length = b.node("sqrt", [total]) if over else b.node("abs", [grad])
    bound = place(b, about.expression(right), replaced)["rows"]
    first: list[tuple[Mapping[str, int], dict[str, Any]]] = []
    if by_rules.nonnegative(b, bound) and not breaks.jumps(about, name):
        weighted = _weighted(about, name, right, replaced)
        if weighted is not None:
            return weighted
        squares = b.node("sub", [b.node("pow", [bound, b.const(2)]), total])
        shown = never_negative_everywhere(about, b, squares)
        if shown is not None and not shown.points:
            gap = b.node("sub", [bound, length])
            return at_points.beyond(about, b, gap, at_points.negative, bound, shown.detail)
        if shown is not None:
            first = shown.first
    found = at_points.tried(about, b, b.node("sub", [bound, length]), at_points.negative, bound, first)
    return _secant(about, leaf, right, replaced) if found.status == "held" and breaks.jumps(about, name) else found


def _secant(about: Subject, leaf: Leaf, right: ast.Expr, replaced: dict[str, Replacement]) -> Found:
    """The bound against what a short step changes: a jump has no gradient."""
    b = about.builder()
    ends = [place(b, about.graph, {leaf.name: _step(leaf, sign, SHORT)})["rows"] for sign in (1, -1)]
    along = b.leaf(Leaf(f"{at_points.ALONG}{leaf.name}", leaf.axes, leaf.type, leaf.role, False))
    over = tuple(a for a in leaf.axes if a not in about.graph.batch)
    square = b.node("pow", [along, b.const(2)])
    length = b.node("sqrt", [b.reduce("sum", over, square)]) if over else b.node("abs", [along])
    bound = place(b, about.expression(right), replaced)["rows"]
    most = b.node("mul", [b.const(Fraction(2, SHORT)), b.node("mul", [bound, length])])
    gap = b.node("sub", [most, b.node("abs", [b.node("sub", ends)])])
    return at_points.tried(about, b, gap, at_points.negative, ends[0])


def _weighted(about: Subject, name: str, right: ast.Expr, replaced: dict[str, Replacement]) -> Found | None:
    one = by_one(about)
    if one is None or one.leaf != name:
        return None
    b = about.builder()
    made = place(b, one.graph, {})
    logp = b.leaf(at_points.leaf_of(one.graph, LOG))
    bound = place(b, about.expression(right), replaced)["rows"]
    product = b.node("mul", [made["aux.weight"], b.node("expm1", [logp])])
    gap = b.node(
        "sub", [b.node("pow", [bound, b.const(2)]), b.node("mul", [b.const(2), b.node("pow", [product, b.const(2)])])]
    )
    shown = never_negative_everywhere(about, b, gap, [LOG])
    if shown is None or shown.points:
        return None
    return Found("proved", "by the form weight·(p - e) of the gradient, for any number of classes")


# --- properness -------------------------------------------------------------------------------------------------------


def proper(about: Subject) -> Found:
    """The expected loss under any q is least where the softmax (of a single logit: the sigmoid) is q."""
    told = scores(about)
    if told is None:
        return Found("undecided", _no_scores(about))
    b, q = told.builder, b_softmax(told)
    found = Found("undecided", "")
    for other in (_step(told.logits, 1), renamed(told.logits)):  # near by, where the slope shows, and far off
        risks = [told.losses(other), told.losses(None)]
        gap = b.node("sub", [b.reduce("sum", (told.copy,), b.node("mul", [q, e])) for e in risks])
        found = at_points.tried(about, b, gap, at_points.negative, None, classes=told.classes)
        if found.status == "refuted":
            break
    if breaks.bends(about, told.read):
        return found
    return asked(about, found, b, told.losses(None), "proper", classes=told.classes)


def _no_scores(about: Subject) -> str:
    moving = [i.name for i in about.checked.inputs if i.kind.startswith("prob ") and not i.fixed]
    if moving:
        return f"a target of kind prob is known: say `fixed` behind the kind of `{moving[0]}`"
    return "it is about losses of a row of logits, or of one, and a target"


@dataclass(frozen=True, slots=True)
class Scores:
    """A loss for every target along the axis `copy` of its classes, in one builder.

    `logits` is the leaf of a row of logits (of a binary loss: two, whose difference is its logit); `losses` gives the
    loss for each target, of these logits or of a replacement.
    """

    builder: Builder
    logits: Leaf
    axis: str
    copy: str
    losses: Callable[[Replacement | None], int]
    classes: tuple[int, ...]
    read: str  # the input's name


def b_softmax(told: Scores) -> int:
    """The probabilities along the targets' axis."""
    b = told.builder
    return b.pick(b.node("softmax", [b.leaf(told.logits)], (told.axis,)), {told.axis: b.index(told.copy)})


def scores(about: Subject) -> Scores | None:
    """The losses of all targets: an index, a distribution of kind `prob`, or a number from 0 to 1; else None."""
    graph = about.graph
    kinds = {i.name: i.kind for i in about.checked.inputs}
    inputs = [leaf for leaf in graph.leaves if leaf.role == "input" and not leaf.name.startswith("@")]
    reals = [leaf for leaf in inputs if leaf.differentiable]
    if len(reals) != 1 or isfinite(reals[0].type.interval.low) or isfinite(reals[0].type.interval.high):
        return None
    (real,) = reals
    row = [a for a in real.axes if a not in graph.batch]
    targets = [leaf for leaf in inputs if leaf != real and _is_target(leaf, kinds.get(leaf.name, ""), bool(row))]
    if len(targets) != 1 or len(row) > 1:
        return None
    (target,) = targets
    b = about.builder()
    axis = row[0] if row else b.fresh_axis(BINARY)
    copy = b.fresh_axis(axis)
    logits = real if row else Leaf(f"{real.name}'", (*real.axes, axis), _with(real.type, axis), "input", True)

    def losses(other: Replacement | None) -> int:
        replaced: dict[str, Replacement] = {target.name: lambda b: _certain(b, target, graph, copy)}
        if not row:
            z = b.leaf(logits) if other is None else other(b)
            one, none = (b.pick(z, {axis: b.const(k)}) for k in (1, 0))
            replaced[real.name] = lambda b: b.node("sub", [one, none])
        elif other is not None:
            replaced[real.name] = other
        return place(b, graph, replaced)["rows"]

    return Scores(b, logits, axis, copy, losses, CLASSES if row else CLASSES[:1], real.name)


BINARY = "Y"


def _with(type: Type, axis: str) -> Type:
    return Type(type.axes | {axis}, "real", FINITE)


def _is_target(leaf: Leaf, kind: str, rows: bool) -> bool:
    if rows:
        return leaf.type.kind.startswith("index ") or kind.startswith("prob ")
    return leaf.type.kind == "bool" or (leaf.type.interval.low, leaf.type.interval.high) == (0, 1)


def _certain(b: Builder, target: Leaf, graph: Graph, copy: str) -> int:
    """The target that says: the class at the index of `copy`."""
    here = b.index(copy)
    axes = [a for a in target.axes if a not in graph.batch]
    if target.type.kind.startswith("index "):
        return here
    if axes:
        return b.node("select", [b.node("eq", [b.index(axes[0]), here]), b.const(1), b.const(0)])
    one = b.node("eq", [here, b.const(1)])
    return one if target.type.kind == "bool" else b.node("select", [one, b.const(1), b.const(0)])
