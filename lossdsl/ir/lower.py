"""CheckedLoss → Graph: typed terms become nodes, and absence is compiled away.

Each term is lowered once, to a node and the factors of its presence (`ir/presence.py`). What a node holds where its
term is absent is finite whenever the inputs that are there are: picks are clamped, reductions have their masks, and an
input is read as a harmless number where a condition says that its entry does not exist. So NaN in a row that is left
out reaches neither value nor gradient.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from lossdsl.check.typed import CheckedLoss
from lossdsl.check.types import Type, base_axis
from lossdsl.ir.beyond import by_the_others
from lossdsl.ir.builder import Builder
from lossdsl.ir.graph import Graph, Leaf
from lossdsl.ir.inputs import State, computed_default, hardened, input_leaf, input_value, where
from lossdsl.ir.presence import Condition, conjunction, factors_of, met
from lossdsl.ir.termrules import lower_term
from lossdsl.primitives.interval import FINITE
from lossdsl.registry import Registry
from lossdsl.source.text import Span

IGNORE = "@ignore_index"


def lower(checked: CheckedLoss, registry: Registry, hard: Collection[str] = (), rewriting: bool = True) -> Graph:
    """The Graph of a checked loss, with the outputs that `ir/graph.py` lists.

    `hard` names inputs of kind `prob C` that are given as labels: their leaves are of kind `index C` without that axis,
    read as one-hot. `rewriting=False` leaves the equation as it is written. A run-time leaf `@ignore_index` is there
    if an index input (or a hard one) has a batch axis.
    DiagnosticError where the loss is too large or uses what can't be compiled yet.
    """
    axes = [a.name for a in checked.axes]
    batch = frozenset(a.name for a in checked.axes if a.batch)
    over = _row_axes(checked, axes)
    b = Builder(registry, checked.name, axes, over, rewriting)
    state = State(checked, b, {i.name: hardened(i) if i.name in hard else i for i in checked.inputs}, batch)
    try:
        outputs = _outputs(state, over)
    except RecursionError:
        raise state.fail("E0801", "the loss is nested too deep", Span(0, 0), "", "split it into named values") from None
    graph = b.graph(outputs)
    return by_the_others(graph, registry) if rewriting else graph


def _row_axes(checked: CheckedLoss, axes: Sequence[str]) -> tuple[str, ...]:
    """The axes of `rows`: those of the caller's reduction; for a map those of its value."""
    over = set(checked.reduced) if checked.reduction is not None else set(checked.result.type.axes)
    return tuple(a for a in axes if a in over)


def _outputs(state: State, over: tuple[str, ...]) -> dict[str, int]:
    b, checked = state.b, state.checked
    for i in state.inputs.values():  # inputs are leaves in their order, whether or not anything reads them
        input_leaf(state, i)
    defaults = {f"default.{i.name}": lower_term(state, i.default)[0] for i in checked.inputs if i.default is not None}
    _conditions(state)
    body, present = lower_term(state, checked.result)
    if checked.keep is not None:
        keep, there = lower_term(state, checked.keep)
        present |= factors_of(b, keep) | there
    weight = None
    if checked.weight is not None:
        weight, there = lower_term(state, checked.weight)
        present |= there
    if checked.reduction is not None:
        present |= met(b, state.conditions, over)
    condition = conjunction(b, present)
    value = body if weight is None else b.node("mul", [weight, body])
    outputs = {"rows": where(b, condition, value)}
    if checked.kind == "loss" and (weight is not None or condition is not None):
        outputs["weight"] = where(b, condition, b.const(1) if weight is None else weight)
    for name, term in checked.outputs:
        node, there = lower_term(state, term)
        outputs[f"aux.{name}"] = where(b, conjunction(b, there | met(b, state.conditions, term.type.axes)), node)
    return outputs | defaults | _sizes(state)


def _sizes(state: State) -> dict[str, int]:
    """The sizes of axes that are arithmetic, counted as the tensors of a call have them."""
    whole = State(state.checked, state.b, {}, frozenset())
    sizes = {a.name: a.size for a in state.checked.axes if a.size is not None}
    return {f"size.{a}": lower_term(whole, s)[0] for a, s in sizes.items() if s.op not in ("const", "leaf", "size")}


def _conditions(state: State) -> None:
    """The conditions that `ignore_index` makes, then those of the file, which are false where they are absent."""
    b, checked = state.b, state.checked
    for i in state.inputs.values():
        if i.kind.startswith("index ") and state.rows & {base_axis(a) for a in i.axes}:
            if (default := computed_default(checked, i)) is not None:
                lower_term(state, default)
            node, there = input_value(state, i)
            ignored = b.leaf(Leaf(IGNORE, (), Type(kind="int", interval=FINITE), "param", False))
            kept = conjunction(b, there | {b.node("ne", [node, ignored])})
            assert kept is not None
            state.conditions.append(Condition(i.axes, kept))
    state.memo.clear()  # inputs are read under these conditions now, and under all of them below
    found: list[Condition] = []
    for _, mask in checked.conditions:
        node, there = lower_term(state, mask)
        whole = conjunction(b, factors_of(b, node) | there)
        if whole is not None:
            found.append(Condition(tuple(sorted(mask.type.axes)), whole))
    state.conditions += found
    state.memo.clear()
