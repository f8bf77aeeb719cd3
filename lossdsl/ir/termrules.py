"""Typed terms to nodes, one rule an operation: each gives a node and the factors of its presence."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

from lossdsl.check.typed import Term
from lossdsl.check.types import base_axis
from lossdsl.ir.bounds import within
from lossdsl.ir.builder import Builder
from lossdsl.ir.graph import reachable
from lossdsl.ir.inputs import Lowered, State, computed_default, read_leaf, where
from lossdsl.ir.limits import MOST_NODES
from lossdsl.ir.presence import PRESENT, Factors, conjunction, factors_of, met, split
from lossdsl.source.diagnostic import InternalError


def lower_term(state: State, root: Term) -> Lowered:
    """The node of a term and its presence; arguments first, without recursion."""
    stack = [root]
    while stack:
        term = stack[-1]
        if id(term) in state.memo:
            stack.pop()
            continue
        waiting = [a for a in _before(state, term) if id(a) not in state.memo]
        if waiting:
            stack.extend(waiting)
            continue
        stack.pop()
        if len(state.b.nodes) > MOST_NODES:
            message = f"the loss written out needs more than {MOST_NODES} operations"
            raise state.fail("E0801", message, term.span, "too large by here", "say it with a reduction")
        outer, state.b.origin = state.b.origin, term.span
        state.memo[id(term)] = _lower(state, term, [state.memo[id(a)] for a in term.args])
        state.b.origin = outer
        state.terms.append(term)
    return state.memo[id(root)]


def _before(state: State, term: Term) -> tuple[Term, ...]:
    """The terms that this one reads: an input's computed default is one."""
    found = state.inputs.get(str(term.attrs[0])) if term.op == "leaf" else None
    default = None if found is None else computed_default(state.checked, found)
    return term.args if default is None else (default,)


def _lower(state: State, term: Term, args: Sequence[Lowered]) -> Lowered:
    rule = _RULES.get(term.op)
    if rule is not None:
        return rule(state, term, args)
    if term.op in state.b.registry.primitives:
        present = PRESENT.union(*(p for _, p in args))
        return state.b.node(term.op, [n for n, _ in args]), present
    raise state.fail("E0802", f"`{term.op}` can't be compiled yet", term.span, "here")


def _const(state: State, term: Term, args: Sequence[Lowered]) -> Lowered:
    value = term.attrs[0]
    if isinstance(value, str | tuple):
        raise InternalError(f"a constant {value!r}")
    if isinstance(value, float) and math.isfinite(value) and value != math.pi:
        return state.b.const(Fraction(repr(value))), PRESENT  # the decimal as written
    return state.b.const(value), PRESENT


def _index(state: State, term: Term, args: Sequence[Lowered]) -> Lowered:
    return state.b.index(str(term.attrs[0])), PRESENT


def _size(state: State, term: Term, args: Sequence[Lowered]) -> Lowered:
    """The extent; of a batch axis, how many of its entries exist."""
    b, axis = state.b, str(term.attrs[0])
    if base_axis(axis) not in state.rows:
        return b.size(axis), PRESENT
    mask = conjunction(b, met(b, [c for c in state.conditions if len(c.axes) == 1], (axis,)))
    return b.reduce("count", (axis,), b.const(True), mask), PRESENT


def _select(state: State, term: Term, args: Sequence[Lowered]) -> Lowered:
    b = state.b
    (c, there), (yes, here), (no, other) = args
    shared = here & other
    branch = b.node("select", [c, _true(b, here - shared), _true(b, other - shared)])
    return b.node("select", [c, yes, no]), there | shared | factors_of(b, branch)


def _true(b: Builder, factors: Factors) -> int:
    node = conjunction(b, factors)
    return b.const(True) if node is None else node


def _where_term(state: State, term: Term, args: Sequence[Lowered]) -> Lowered:
    """e where every m holds."""
    (node, present), *masks = args
    for mask, there in masks:
        present |= factors_of(state.b, mask) | there
    return node, present


def _pick(state: State, term: Term, args: Sequence[Lowered]) -> Lowered:
    b, axes = state.b, _axes(term)
    (source, there), *indices = args
    pairs: dict[str, int] = {}
    present = PRESENT
    for axis, (index, seen), given in zip(axes, indices, term.args[1:], strict=True):
        inside = given.type.kind.startswith("index ") and _as_long(state, given.type.kind.removeprefix("index "), axis)
        outside = PRESENT if inside else within(b, index, axis)
        pairs[axis] = where(b, conjunction(b, outside), index)
        present |= seen | outside
    for factor in there:
        present |= factors_of(b, b.pick(factor, pairs))
    return b.pick(source, pairs, term.span), present


def _as_long(state: State, own: str, axis: str) -> bool:
    """Whether every index of one axis is an index of another: they are copies, or one has the other's size."""
    if own == base_axis(axis):
        return True
    size = next((a.size for a in state.checked.axes if a.name == own), None)
    return size is not None and size.op == "size" and base_axis(str(size.attrs[0])) == base_axis(axis)


def _axes(term: Term, at: int = 0) -> tuple[str, ...]:
    axes = term.attrs[at]
    return axes if isinstance(axes, tuple) else (str(axes),)


def _mask(state: State, term: Term, args: Sequence[Lowered], over: Sequence[str]) -> tuple[Factors, Factors]:
    """The factors of a mask for an operation along `over`, and those of the presence of its result."""
    b = state.b
    inner, outer = split(b, args[0][1], over)
    for mask, there in args[1:]:
        inner |= factors_of(b, mask) | there
    have = frozenset(over).union(*(a.type.axes for a in term.args))
    return inner | met(b, state.conditions, have, over), outer


def _reduce(state: State, term: Term, args: Sequence[Lowered]) -> Lowered:
    b, name, over = state.b, str(term.attrs[0]), _axes(term, 1)
    inner, outer = _mask(state, term, args, over)
    mask = conjunction(b, inner)
    body = b.const(True) if name == "count" else args[0][0]
    if name == "argmax" and mask is not None:
        some = b.node("gt", [b.reduce("count", over, b.const(True), mask), b.const(0)])
        outer |= factors_of(b, some)
    return b.reduce(name, over, body, mask), outer


def _keeping(state: State, term: Term, args: Sequence[Lowered]) -> Lowered:
    """softmax, log_softmax, cumsum: the axis stays, so an absent entry's own value stays absent."""
    b, over = state.b, _axes(term)
    inner, _ = _mask(state, term, args, over)
    mask = conjunction(b, inner)
    node = b.node(term.op, [args[0][0], *([] if mask is None else [mask])], (over[0],))
    return node, args[0][1]


def _order(state: State, term: Term, args: Sequence[Lowered]) -> Lowered:
    """The order has as many entries as there are; the places behind them are absent."""
    b = state.b
    axis, to = str(term.attrs[0]), str(term.attrs[1])
    inner, outer = _mask(state, term, args, (axis,))
    mask = conjunction(b, inner)
    node = b.node("order", [args[0][0], *([] if mask is None else [mask])], (axis, to, bool(term.attrs[2])))
    declared = next((a.size for a in state.checked.axes if a.name == base_axis(to)), None)
    full = declared is not None and declared.op == "size" and declared.attrs == (axis,)
    if mask is not None or not full:
        entries = b.reduce("count", (axis,), b.const(True), mask)
        outer |= factors_of(b, b.node("lt", [b.index(to), entries]))
    return node, outer


def _detach(state: State, term: Term, args: Sequence[Lowered]) -> Lowered:
    return state.b.node("detach", [args[0][0]]), args[0][1]


def _var(state: State, term: Term, args: Sequence[Lowered]) -> Lowered:
    return state.b.var(_number(term), term.type), PRESENT


def _root(state: State, term: Term, args: Sequence[Lowered]) -> Lowered:
    present = PRESENT.union(*(p for _, p in args))
    b, (low, high, f) = state.b, [n for n, _ in args]
    unknown = state.memo[id(_unknown(term))][0]
    if f == unknown:
        return b.node("clip", [b.const(0), low, high]), present
    if unknown not in reachable(b.nodes, [f]):
        message = "the equation of this root is the same for every value of its unknown"
        raise state.fail("E0412", message, term.args[2].span, "flat", "let the unknown change what stands here")
    return b.node("root", [low, high, f], (_number(term),)), present


def _unknown(term: Term) -> Term:
    """The unknown of a root, which its equation holds."""
    stack, seen = [term.args[2]], {id(term.args[2])}
    while True:
        found = stack.pop()
        if found.op == "var" and found.attrs[0] == term.attrs[0]:
            return found
        for a in found.args:
            if id(a) not in seen:
                seen.add(id(a))
                stack.append(a)


def _number(term: Term) -> int:
    return int(str(term.attrs[0]))


def _matrix(state: State, term: Term, args: Sequence[Lowered]) -> Lowered:
    """logdet, solve, eigvals. A row that isn't there is as if it had been removed: it becomes one of the identity."""
    b = state.b
    rows, columns = str(term.attrs[0]), str(term.attrs[1])
    matrix, present = args[0]
    inner, outer = split(b, present, (rows, columns))
    inner |= met(b, state.conditions, {*term.args[0].type.axes, rows, columns}, (rows, columns))
    condition = conjunction(b, inner)
    nodes = [n for n, _ in args]
    if condition is not None:
        filler = b.const(1)
        if term.op == "eigvals":
            filler, entries = _above(b, matrix, condition, rows, columns)
            outer |= factors_of(b, b.node("lt", [b.index(str(term.attrs[2])), entries]))
        one = b.node("select", [b.node("eq", [b.index(rows), b.index(columns)]), filler, b.const(0)])
        nodes[0] = b.node("select", [condition, matrix, one])
    if term.op == "solve":
        right, there = args[1]
        missing, others = split(b, there, (rows,))
        missing |= met(b, state.conditions, {*term.args[1].type.axes, rows}, (rows,))
        nodes[1] = where(b, conjunction(b, missing), right)
        outer |= others | met(b, state.conditions, term.type.axes, (columns,))
    return b.node(term.op, nodes, _plain(term.attrs)), outer


def _above(b: Builder, matrix: int, condition: int, rows: str, columns: str) -> tuple[int, int]:
    """A number a row above all eigenvalues of the rows that are there (Gershgorin's circles), and how many these are.

    On the diagonal of the other rows they are eigenvalues that come last, where the result is absent.
    """
    there = b.pick(condition, {columns: b.index(rows)})
    circles = b.reduce("sum", (columns,), b.node("abs", [matrix]), condition)
    widest = b.node("maximum", [b.const(0), b.reduce("max", (rows,), circles, there)])
    step = b.node("div", [b.node("add", [b.index(rows), b.const(1)]), b.size(rows)])  # no two alike
    above = b.node("mul", [b.node("add", [widest, b.const(1)]), b.node("add", [b.const(1), step])])
    return b.node("detach", [above]), b.reduce("count", (rows,), b.const(True), there)


def _plain(attrs: Iterable[object]) -> tuple[str, ...]:
    return tuple(str(a) for a in attrs)


_RULES: dict[str, Callable[[State, Term, Sequence[Lowered]], Lowered]] = {
    "const": _const,
    "leaf": read_leaf,
    "index": _index,
    "size": _size,
    "select": _select,
    "where": _where_term,
    "pick": _pick,
    "reduce": _reduce,
    "softmax": _keeping,
    "log_softmax": _keeping,
    "cumsum": _keeping,
    "order": _order,
    "detach": _detach,
    "var": _var,
    "root": _root,
    "logdet": _matrix,
    "solve": _matrix,
    "eigvals": _matrix,
}
