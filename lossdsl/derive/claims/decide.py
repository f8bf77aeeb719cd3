"""Deciding the claims of a file, one by one: a proof by rules where there is one, else points."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any

import numpy as np

from lossdsl.check.typed import CheckedLoss
from lossdsl.check.types import Type
from lossdsl.derive.claims import at_points, by_rules, shifts
from lossdsl.derive.claims.at_points import DIGITS
from lossdsl.derive.claims.setting import Replacement, Subject, place, subject
from lossdsl.derive.claims.verdict import Status, Verdict
from lossdsl.derive.derive import derive
from lossdsl.ir.builder import Builder
from lossdsl.ir.graph import Graph, Leaf
from lossdsl.primitives.interval import FINITE
from lossdsl.registry import Registry
from lossdsl.syntax import ast

SECONDS = 3.0  # for the points of one claim; at least one is tried


@dataclass(frozen=True, slots=True)
class Found:
    """A verdict in the making; `points` were tried."""

    status: Status
    detail: str = ""
    points: int = 0


LIMIT_STEP = 1e-12


def decide(lossdef: ast.LossDef, checked: CheckedLoss, registry: Registry) -> tuple[Verdict, ...]:
    """Every claim's verdict, in the order of the file. DiagnosticError where a claim itself is wrong."""
    if not lossdef.claims:
        return ()
    about = subject(lossdef, checked, registry)
    return tuple(_verdict(about, claim) for claim in lossdef.claims)


def _verdict(about: Subject, claim: ast.Claim) -> Verdict:
    text = about.source.text[claim.span.start : claim.span.end].removeprefix("claim").strip()
    found = _decided(about, claim)
    return Verdict(text, found.status, found.detail, claim.span, found.points, DIGITS if found.points else 0)


def _decided(about: Subject, claim: ast.Claim) -> Found:
    value = claim.value
    match value:
        case ast.Name("proper"):
            return _proper(about)
        case ast.Call(function="shift_invariant" | "symmetric" | "convex" as kind, args=[argument]):
            return {"shift_invariant": _shift, "symmetric": _symmetric, "convex": _convex}[kind](
                about, _name(argument.value)
            )
        case ast.Binary(op="==" | ">=" | "<=" as op, left=ast.Name("loss"), right=right):
            return _compared(about, op, right, claim.when)
        case ast.Binary(op="==", left=ast.Call(function="grad", args=[argument]), right=right):
            return _gradient(about, _name(argument.value), right, claim.when)
        case ast.Binary(op="<=", left=ast.Call(function="lipschitz", args=[argument]), right=right):
            return _lipschitz(about, _name(argument.value), right)
    return Found("undecided", "claims of this form are not decided yet")


def _name(expr: ast.Expr) -> str:
    return expr.name if isinstance(expr, ast.Name) else ""


def _differs(d: Any, size: Any, slack: float = at_points.TOLERANCE) -> bool:
    return bool(abs(d) > slack * (1 + size))


def _negative(d: Any, size: Any) -> bool:
    return bool(d < -at_points.TOLERANCE * (1 + size))


# --- identities and bounds --------------------------------------------------------------------------------------------


def _settings(about: Subject, when: Sequence[ast.Condition], offset: float = 0.0) -> dict[str, Replacement]:
    """Leaves replaced by the values of the conditions; a limit's by a number near it."""
    found: dict[str, Replacement] = {}
    for condition in when:
        number = _number(condition.value) + (offset if condition.limit else 0.0)
        found[condition.name] = partial(Builder.const, value=number)
    return found


def _number(expr: ast.Expr) -> float:
    match expr:
        case ast.Number(text):
            return float(text)
        case ast.Unary("-", inner):
            return -_number(inner)
        case ast.Name("inf"):
            return inf
    raise ValueError("a condition's value is a number")


def _compared(about: Subject, op: str, right: ast.Expr, when: Sequence[ast.Condition]) -> Found:
    limit = any(c.limit for c in when)
    b = about.builder()
    replaced = _settings(about, when, LIMIT_STEP)
    loss = place(b, about.graph, replaced)["rows"]
    other = place(b, about.expression(right), replaced)["rows"]
    low, high = (other, loss) if op == ">=" else (loss, other)
    difference = b.node("sub", [high, low])
    if op == "==":
        if not limit and by_rules.equal(b, loss, other):
            return Found("proved", "both sides are rewritten to one expression")
        # near a limit both sides may differ by about the step
        fails = partial(_differs, slack=1e4 * LIMIT_STEP) if limit else _differs
        return _at_points(about, b, difference, fails, other)
    if by_rules.nonnegative(b, difference):
        return Found("proved", "by the signs of its parts")
    return _at_points(about, b, difference, _negative, other)


def _at_points(
    about: Subject, b: Builder, node: int, fails: Callable[[Any, Any], bool], scale: int | None = None
) -> Found:
    """Whether a node passes at every point; `fails` sees a value and the size of what it is made of."""
    outputs = {"aux.node": node} | ({"aux.scale": scale} if scale is not None else {})
    graph = b.graph(outputs)
    axes = tuple(a for a in graph.axes if any(a in graph.nodes[n].type.axes for _, n in graph.outputs))
    until, tried = time.monotonic() + SECONDS, 0
    sums = {i.name: i.kind.removeprefix("prob ") for i in about.checked.inputs if i.kind.startswith("prob ")}
    for sizes, leaves in at_points.draws(graph, sums):
        found = at_points.values(graph, about.registry, sizes, leaves, graph.output("aux.node"), axes)
        large = at_points.values(graph, about.registry, sizes, leaves, graph.outputs[-1][1], axes)
        for index in np.ndindex(found.shape):
            if fails(found[index], abs(large[index])):
                return Found("refuted", at_points.shown(leaves, [leaf.name for leaf in graph.leaves]), tried + 1)
        tried += 1
        if time.monotonic() > until:
            break
    return Found("held", points=tried)


# --- properties in one input ------------------------------------------------------------------------------------------


def _leaf(graph: Graph, name: str) -> Leaf:
    return at_points.leaf_of(graph, name)


def _shift(about: Subject, name: str) -> Found:
    """The same number added to all of a row's entries."""
    b = about.builder()
    rows = place(b, about.graph, {})["rows"]
    leaf = _leaf(about.graph, name)
    batch = tuple(a for a in leaf.axes if a in about.graph.batch)
    c = Leaf("@shift", batch, Type(frozenset(batch), "real", FINITE), "input", False)
    moved = place(b, about.graph, {name: lambda b: b.node("add", [b.leaf(leaf), b.leaf(c)])})["rows"]
    if by_rules.equal(b, rows, moved):
        return Found("proved", "the shift is rewritten away")
    if shifts.invariant(b, rows, b.leaf(leaf), about.graph.batch):
        return Found("proved", "what moves cancels, for any number of classes")
    return _at_points(about, b, b.node("sub", [moved, rows]), _differs, rows)


def _symmetric(about: Subject, name: str) -> Found:
    """The sum over all targets depends on nothing else."""
    b = about.builder()
    target = _leaf(about.graph, name)
    axis = target.type.kind.removeprefix("index ")
    if axis == target.type.kind:
        return Found("undecided", f"{name} is of kind {target.type.kind}; symmetry is about an index")
    copy = b.fresh_axis(axis)
    rows = place(b, about.graph, {name: lambda b: b.index(copy)})["rows"]
    if axis not in b.type(rows).axes:  # under the axis's own name, known sums are known
        copy_back, rows = axis, b.pick(rows, {copy: b.index(axis)})
    else:
        copy_back = copy
    total = b.reduce("sum", (copy_back,), rows)
    reals = [b.leaf(leaf) for leaf in about.graph.leaves if leaf.differentiable and leaf.role == "input"]
    if by_rules.settles(b, rows, copy_back, reals):
        return Found("proved", "the sum over all targets is rewritten to one without the inputs")
    other = {leaf.name: _renamed(leaf) for leaf in about.graph.leaves if leaf.differentiable and leaf.role == "input"}
    again = place(b, about.graph, {name: lambda b: b.index(copy), **other})["rows"]
    difference = b.node("sub", [total, b.reduce("sum", (copy,), again)])
    return _at_points(about, b, difference, _differs, total)


def _renamed(leaf: Leaf) -> Replacement:
    second = Leaf(f"@{leaf.name}", leaf.axes, leaf.type, leaf.role, False)
    return lambda b: b.leaf(second)


def _convex(about: Subject, name: str) -> Found:
    b = about.builder()
    rows = place(b, about.graph, {})["rows"]
    leaf = _leaf(about.graph, name)
    if by_rules.curvature(b, rows, b.leaf(leaf)) in ("constant", "affine", "convex"):
        return Found("proved", "composed of convex parts")
    second = _renamed(leaf)
    half = b.const(0.5)
    middle = place(b, about.graph, {name: lambda b: b.node("mul", [half, b.node("add", [b.leaf(leaf), second(b)])])})[
        "rows"
    ]
    ends = b.node("add", [rows, place(b, about.graph, {name: second})["rows"]])
    gap = b.node("sub", [b.node("mul", [half, ends]), middle])
    return _at_points(about, b, gap, _negative, rows)


# --- gradients --------------------------------------------------------------------------------------------------------


def _joined(about: Subject, name: str, b: Builder, replaced: Mapping[str, Replacement]) -> int:
    """The gradient of one row's loss in an input."""
    joint = derive(about.graph, about.registry).graph
    return place(b, joint, {**replaced, "@rows": lambda b: b.const(1)})[f"grad.{name}"]


def _gradient(about: Subject, name: str, right: ast.Expr, when: Sequence[ast.Condition]) -> Found:
    b = about.builder()
    replaced = _settings(about, when)
    grad = _joined(about, name, b, replaced)
    other = place(b, about.expression(right), replaced)["rows"]
    if by_rules.equal(b, grad, other):
        return Found("proved", "both sides are rewritten to one expression")
    return _at_points(about, b, b.node("sub", [grad, other]), _differs, other)


def _lipschitz(about: Subject, name: str, right: ast.Expr) -> Found:
    """The length of the gradient of a row."""
    b = about.builder()
    leaf = _leaf(about.graph, name)
    over = tuple(a for a in leaf.axes if a not in about.graph.batch)
    grad = _joined(about, name, b, {})
    square = b.node("pow", [grad, b.const(2)])
    length = b.node("sqrt", [b.reduce("sum", over, square)]) if over else b.node("abs", [grad])
    bound = place(b, about.expression(right), {})["rows"]
    gap = b.node("sub", [bound, length])
    return _at_points(about, b, gap, _negative, bound)


def _proper(about: Subject) -> Found:
    """At logits log q, the gradient of the expected loss under q is 0; with convexity that is its least value."""
    indices = [leaf for leaf in about.graph.leaves if leaf.type.kind.startswith("index ")]
    reals = [leaf for leaf in about.graph.leaves if leaf.differentiable and leaf.role == "input"]
    if len(indices) != 1 or len(reals) != 1 or len(reals[0].axes) != 2:
        return Found("undecided", "it is about losses of logits and a target")
    target, logits = indices[0], reals[0]
    axis = logits.axes[1]
    b = about.builder()
    copy = b.fresh_axis(axis)
    grad = _joined(about, logits.name, b, {target.name: lambda b: b.index(copy)})
    loss = place(b, about.graph, {target.name: lambda b: b.index(copy)})["rows"]
    q = b.pick(b.node("softmax", [b.leaf(logits)], (axis,)), {axis: b.index(copy)})
    slope = b.reduce("sum", (copy,), b.node("mul", [q, grad]))
    level = _at_points(about, b, slope, _differs, None)
    if level.status == "refuted":
        return level
    other = place(b, about.graph, {target.name: lambda b: b.index(copy), logits.name: _renamed(logits)})["rows"]
    gap = b.node("sub", [b.reduce("sum", (copy,), b.node("mul", [q, e])) for e in (other, loss)])
    return _at_points(about, b, gap, _negative, None)
