"""CheckedLoss → Graph: typed terms become nodes, and absence is compiled away.

Each term is lowered once, to a node and the factors of its presence (`ir/presence.py`). What a node holds where its
term is absent is finite whenever the inputs that are there are: picks are clamped, reductions have their masks, and an
input is read as a harmless number where a condition says that its entry does not exist. So NaN in a row that is left
out reaches neither value nor gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from lossdsl.check.typed import CheckedLoss, Input, Term
from lossdsl.check.types import Type, base_axis
from lossdsl.ir.bounds import within
from lossdsl.ir.builder import Builder
from lossdsl.ir.graph import Graph, Leaf
from lossdsl.ir.presence import PRESENT, Condition, Factors, conjunction, factors_of, met, split
from lossdsl.primitives.interval import FINITE, Interval
from lossdsl.registry import Registry
from lossdsl.source.diagnostic import Diagnostic, DiagnosticError, InternalError, Label
from lossdsl.source.text import Span

IGNORE = "@ignore_index"
MOST_NODES = 10_000
Lowered = tuple[int, Factors]


@dataclass(slots=True)
class _State:
    checked: CheckedLoss
    b: Builder
    inputs: dict[str, Input]
    rows: frozenset[str]  # the batch axes
    conditions: list[Condition] = field(default_factory=list)
    memo: dict[int, Lowered] = field(default_factory=dict)
    terms: list[Term] = field(default_factory=list)  # keeps those alive whose id is in `memo`

    def fail(self, code: str, message: str, span: Span, caret: str, fix: str = "") -> DiagnosticError:
        return DiagnosticError(self.checked.source, [Diagnostic(code, message, (Label(span, caret),), fix)])


def lower(checked: CheckedLoss, registry: Registry, hard: Collection[str] = ()) -> Graph:
    """The Graph of a checked loss, with the outputs that `ir/graph.py` lists.

    `hard` names inputs of kind `prob C` that are given as labels: their leaves are of kind `index C` without that axis,
    read as one-hot. A run-time leaf `@ignore_index` is there if an index input (or a hard one) has a batch axis.
    DiagnosticError where the loss is too large or uses what can't be compiled yet.
    """
    axes = [a.name for a in checked.axes]
    batch = frozenset(a.name for a in checked.axes if a.batch)
    over = _row_axes(checked, axes)
    b = Builder(registry, checked.name, axes, over)
    state = _State(checked, b, {i.name: _hardened(i) if i.name in hard else i for i in checked.inputs}, batch)
    try:
        outputs = _outputs(state, over)
    except RecursionError:
        raise state.fail("E0801", "the loss is nested too deep", Span(0, 0), "", "split it into named values") from None
    return b.graph(outputs)


def _row_axes(checked: CheckedLoss, axes: Sequence[str]) -> tuple[str, ...]:
    """The axes of `rows`: those of the caller's reduction; for a map those of its value."""
    over = set(checked.reduced) if checked.reduction is not None else set(checked.result.type.axes)
    return tuple(a for a in axes if a in over)


def _outputs(state: _State, over: tuple[str, ...]) -> dict[str, int]:
    b, checked = state.b, state.checked
    for i in state.inputs.values():  # inputs are leaves in their order, whether or not anything reads them
        _input_leaf(state, i)
    defaults = {f"default.{i.name}": _term(state, i.default)[0] for i in checked.inputs if i.default is not None}
    _conditions(state)
    body, present = _term(state, checked.result)
    if checked.keep is not None:
        keep, there = _term(state, checked.keep)
        present |= factors_of(b, keep) | there
    weight = None
    if checked.weight is not None:
        weight, there = _term(state, checked.weight)
        present |= there
    if checked.reduction is not None:
        present |= met(b, state.conditions, over)
    condition = conjunction(b, present)
    value = body if weight is None else b.node("mul", [weight, body])
    outputs = {"rows": _where(b, condition, value)}
    if checked.kind == "loss" and (weight is not None or condition is not None):
        outputs["weight"] = _where(b, condition, b.const(1) if weight is None else weight)
    for name, term in checked.outputs:
        node, there = _term(state, term)
        outputs[f"aux.{name}"] = _where(b, conjunction(b, there | met(b, state.conditions, term.type.axes)), node)
    return outputs | defaults


def _where(b: Builder, condition: int | None, value: int, otherwise: int | None = None) -> int:
    """value where the condition holds, else 0 (or false)."""
    if condition is None:
        return value
    if otherwise is None:
        otherwise = b.const(False) if b.type(value).kind == "bool" else b.const(0)
    return b.node("select", [condition, value, otherwise])


# --- inputs, params, conditions -----------------------------------------------------------------------------------


def _conditions(state: _State) -> None:
    """The conditions that `ignore_index` makes, then those of the file, which are false where they are absent."""
    b, checked = state.b, state.checked
    for i in state.inputs.values():
        if i.kind.startswith("index ") and state.rows & {base_axis(a) for a in i.axes}:
            ignored = b.leaf(Leaf(IGNORE, (), Type(kind="int", interval=FINITE), "param", False))
            state.conditions.append(Condition(i.axes, b.node("ne", [_input_leaf(state, i), ignored])))
    state.memo.clear()  # inputs are read under these conditions now, and under all of them below
    found: list[Condition] = []
    for _, mask in checked.conditions:
        node, there = _term(state, mask)
        whole = conjunction(b, factors_of(b, node) | there)
        if whole is not None:
            found.append(Condition(tuple(sorted(mask.type.axes)), whole))
    state.conditions += found
    state.memo.clear()


def _hardened(i: Input) -> Input:
    """A `prob C` input as labels."""
    axis = i.kind.removeprefix("prob ")
    axes = tuple(a for a in i.axes if a != axis)
    return replace(i, axes=axes, kind=f"index {axis}", fixed=True, bounds=None)


def _input_leaf(state: _State, i: Input) -> int:
    kind = "real" if i.kind.startswith("prob ") else i.kind
    differentiable = kind == "real" and not i.fixed and i.draw is None
    return state.b.leaf(
        Leaf(i.name, i.axes, Type(frozenset(i.axes), kind, _interval(i)), "input", differentiable), i.span
    )


def _interval(i: Input) -> Interval:
    if i.bounds is not None:
        return i.bounds
    if i.kind.startswith("prob ") or i.kind == "bool" or i.draw == "uniform":
        return Interval(0.0, 1.0)
    if i.kind.startswith("index "):
        return Interval(0.0, math.inf, False, True)
    return FINITE if i.kind in ("int", "label") or i.draw is not None else Interval()


def _leaf(state: _State, term: Term, args: Sequence[Lowered]) -> Lowered:
    b, name = state.b, str(term.attrs[0])
    found = state.inputs.get(name)
    if found is None:
        param = next(p for p in state.checked.params if p.name == name)
        type = term.type
        return b.leaf(
            Leaf(name, param.axes, type, "param", not param.integer and type.kind == "real"), param.span
        ), PRESENT
    node = _input_leaf(state, found)
    present = met(b, state.conditions, found.axes)
    if found.kind == "real" or found.kind.startswith(("prob ", "index ")):
        node = _where(b, conjunction(b, present), node, b.const(_harmless(_interval(found))))
    if term.type.kind == "real" and found.kind.startswith("index "):  # labels for probabilities: one-hot
        hit = b.node("eq", [b.index(found.kind.removeprefix("index ")), node])
        node = b.node("select", [hit, b.const(1), b.const(0)])
    return node, present


def _harmless(interval: Interval) -> Fraction:
    """A number that the input may have: what is read where there is no entry."""
    for x in (0.0, 1.0, interval.low, interval.high, (interval.low + interval.high) / 2, interval.low + 1):
        if x in interval and math.isfinite(x):
            return Fraction(x)
    return Fraction(0)


# --- terms --------------------------------------------------------------------------------------------------------


def _term(state: _State, root: Term) -> Lowered:
    """The node of a term and its presence; arguments first, without recursion."""
    stack = [root]
    while stack:
        term = stack[-1]
        if id(term) in state.memo:
            stack.pop()
            continue
        waiting = [a for a in term.args if id(a) not in state.memo]
        if waiting:
            stack.extend(waiting)
            continue
        stack.pop()
        if len(state.b.nodes) > MOST_NODES:
            message = f"the loss written out needs more than {MOST_NODES} operations"
            raise state.fail("E0801", message, term.span, "too large by here", "say it with a reduction")
        outer, state.b._from = state.b._from, term.span
        state.memo[id(term)] = _lower(state, term, [state.memo[id(a)] for a in term.args])
        state.b._from = outer
        state.terms.append(term)
    return state.memo[id(root)]


def _lower(state: _State, term: Term, args: Sequence[Lowered]) -> Lowered:
    rule = _RULES.get(term.op)
    if rule is not None:
        return rule(state, term, args)
    if term.op in state.b.registry.primitives:
        present = PRESENT.union(*(p for _, p in args))
        return state.b.node(term.op, [n for n, _ in args]), present
    raise state.fail("E0802", f"`{term.op}` can't be compiled yet", term.span, "here")


def _const(state: _State, term: Term, args: Sequence[Lowered]) -> Lowered:
    value = term.attrs[0]
    if isinstance(value, str | tuple):
        raise InternalError(f"a constant {value!r}")
    if isinstance(value, float) and math.isfinite(value) and value != math.pi:
        return state.b.const(Fraction(repr(value))), PRESENT  # the decimal as written
    return state.b.const(value), PRESENT


def _index(state: _State, term: Term, args: Sequence[Lowered]) -> Lowered:
    return state.b.index(str(term.attrs[0])), PRESENT


def _size(state: _State, term: Term, args: Sequence[Lowered]) -> Lowered:
    """The extent; of a batch axis, how many of its entries exist."""
    b, axis = state.b, str(term.attrs[0])
    if base_axis(axis) not in state.rows:
        return b.size(axis), PRESENT
    mask = conjunction(b, met(b, [c for c in state.conditions if len(c.axes) == 1], (axis,)))
    return b.reduce("count", (axis,), b.const(True), mask), PRESENT


def _select(state: _State, term: Term, args: Sequence[Lowered]) -> Lowered:
    b = state.b
    (c, there), (yes, here), (no, other) = args
    shared = here & other
    branch = b.node("select", [c, _true(b, here - shared), _true(b, other - shared)])
    return b.node("select", [c, yes, no]), there | shared | factors_of(b, branch)


def _true(b: Builder, factors: Factors) -> int:
    node = conjunction(b, factors)
    return b.const(True) if node is None else node


def _where_term(state: _State, term: Term, args: Sequence[Lowered]) -> Lowered:
    """e where every m holds."""
    (node, present), *masks = args
    for mask, there in masks:
        present |= factors_of(state.b, mask) | there
    return node, present


def _pick(state: _State, term: Term, args: Sequence[Lowered]) -> Lowered:
    b, axes = state.b, _axes(term)
    (source, there), *indices = args
    pairs: dict[str, int] = {}
    present = PRESENT
    for axis, (index, seen), given in zip(axes, indices, term.args[1:], strict=True):
        outside = PRESENT if given.type.kind.startswith("index ") else within(b, index, axis)
        pairs[axis] = _where(b, conjunction(b, outside), index)
        present |= seen | outside
    for factor in there:
        present |= factors_of(b, b.pick(factor, pairs))
    return b.pick(source, pairs, term.span), present


def _axes(term: Term, at: int = 0) -> tuple[str, ...]:
    axes = term.attrs[at]
    return axes if isinstance(axes, tuple) else (str(axes),)


def _mask(state: _State, term: Term, args: Sequence[Lowered], over: Sequence[str]) -> tuple[Factors, Factors]:
    """The factors of a mask for an operation along `over`, and those of the presence of its result."""
    b = state.b
    inner, outer = split(b, args[0][1], over)
    for mask, there in args[1:]:
        inner |= factors_of(b, mask) | there
    have = frozenset(over).union(*(a.type.axes for a in term.args))
    return inner | met(b, state.conditions, have, over), outer


def _reduce(state: _State, term: Term, args: Sequence[Lowered]) -> Lowered:
    b, name, over = state.b, str(term.attrs[0]), _axes(term, 1)
    inner, outer = _mask(state, term, args, over)
    mask = conjunction(b, inner)
    body = b.const(True) if name == "count" else args[0][0]
    if name == "argmax" and mask is not None:
        some = b.node("gt", [b.reduce("count", over, b.const(True), mask), b.const(0)])
        outer |= factors_of(b, some)
    return b.reduce(name, over, body, mask), outer


def _keeping(state: _State, term: Term, args: Sequence[Lowered]) -> Lowered:
    """softmax, log_softmax, cumsum: the axis stays, so an absent entry's own value stays absent."""
    b, over = state.b, _axes(term)
    inner, _ = _mask(state, term, args, over)
    mask = conjunction(b, inner)
    node = b.node(term.op, [args[0][0], *([] if mask is None else [mask])], (over[0],))
    return node, args[0][1]


def _order(state: _State, term: Term, args: Sequence[Lowered]) -> Lowered:
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


def _detach(state: _State, term: Term, args: Sequence[Lowered]) -> Lowered:
    return state.b.node("detach", [args[0][0]]), args[0][1]


def _var(state: _State, term: Term, args: Sequence[Lowered]) -> Lowered:
    return state.b.var(_number(term), term.type), PRESENT


def _root(state: _State, term: Term, args: Sequence[Lowered]) -> Lowered:
    present = PRESENT.union(*(p for _, p in args))
    return state.b.node("root", [n for n, _ in args], (_number(term),)), present


def _number(term: Term) -> int:
    return int(str(term.attrs[0]))


def _matrix(state: _State, term: Term, args: Sequence[Lowered]) -> Lowered:
    """logdet, solve, eigvals. A row that isn't there becomes a row of the identity, as if it had been removed."""
    b = state.b
    rows, columns = str(term.attrs[0]), str(term.attrs[1])
    matrix, present = args[0]
    inner, outer = split(b, present, (rows, columns))
    inner |= met(b, state.conditions, {*term.args[0].type.axes, rows, columns}, (rows, columns))
    condition = conjunction(b, inner)
    nodes = [n for n, _ in args]
    if condition is not None and term.op == "eigvals":
        message = "eigenvalues of a matrix with rows that may be absent can't be compiled yet"
        raise state.fail("E0802", message, term.span, "of this matrix")
    if condition is not None:
        one = b.node("select", [b.node("eq", [b.index(rows), b.index(columns)]), b.const(1), b.const(0)])
        nodes[0] = b.node("select", [condition, matrix, one])
    if term.op == "solve":
        right, there = args[1]
        missing, others = split(b, there, (rows,))
        missing |= met(b, state.conditions, {*term.args[1].type.axes, rows}, (rows,))
        nodes[1] = _where(b, conjunction(b, missing), right)
        outer |= others | met(b, state.conditions, term.type.axes, (columns,))
    return b.node(term.op, nodes, _plain(term.attrs)), outer


def _plain(attrs: Iterable[object]) -> tuple[str, ...]:
    return tuple(str(a) for a in attrs)


_RULES: dict[str, Callable[[_State, Term, Sequence[Lowered]], Lowered]] = {
    "const": _const,
    "leaf": _leaf,
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
