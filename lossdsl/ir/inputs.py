"""How a loss reads its inputs and params: under the conditions that say which of their entries exist."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from lossdsl.check.typed import CheckedLoss, Input, Term
from lossdsl.check.types import Type
from lossdsl.ir.bounds import within
from lossdsl.ir.builder import Builder
from lossdsl.ir.graph import Leaf
from lossdsl.ir.presence import PRESENT, Condition, Factors, conjunction, factors_of, met
from lossdsl.primitives.interval import FINITE, Interval
from lossdsl.source.diagnostic import Diagnostic, DiagnosticError, Label
from lossdsl.source.text import Span

Lowered = tuple[int, Factors]  # a term's node, and what must hold for it to be there

GIVEN = "@given."  # @given.X is 1 if the input X is passed, 0 if its computed default stands for it


@dataclass(slots=True)
class State:
    checked: CheckedLoss
    b: Builder
    inputs: dict[str, Input]
    rows: frozenset[str]  # the batch axes
    conditions: list[Condition] = field(default_factory=list)
    memo: dict[int, Lowered] = field(default_factory=dict)
    terms: list[Term] = field(default_factory=list)  # keeps those alive whose id is in `memo`

    def fail(self, code: str, message: str, span: Span, caret: str, fix: str = "") -> DiagnosticError:
        return DiagnosticError(self.checked.source, [Diagnostic(code, message, (Label(span, caret),), fix)])


def where(b: Builder, condition: int | None, value: int, otherwise: int | None = None) -> int:
    """value where the condition holds, else 0 (or false)."""
    if condition is None:
        return value
    if otherwise is None:
        otherwise = b.const(False) if b.type(value).kind == "bool" else b.const(0)
    return b.node("select", [condition, value, otherwise])


def hardened(i: Input) -> Input:
    """A `prob C` input as labels."""
    axis = i.kind.removeprefix("prob ")
    axes = tuple(a for a in i.axes if a != axis)
    return replace(i, axes=axes, kind=f"index {axis}", fixed=True, bounds=None, default=None)


def input_leaf(state: State, i: Input) -> int:
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


def computed_default(checked: CheckedLoss, i: Input) -> Term | None:
    """The default of an input if it is more than a number or a scalar param, with which the caller fills a tensor.

    The graph chooses by `@given.X` between the tensor and such a default, so that it is derived like all the rest.
    """
    term = i.default
    while term is not None and term.op == "neg":
        term = term.args[0]
    if term is None or term.op == "const":
        return None
    param = i.default is term and term.op == "leaf" and not term.type.axes
    return None if param and any(p.name == term.attrs[0] for p in checked.params) else i.default


def input_value(state: State, i: Input) -> Lowered:
    """The entries of an input whatever conditions say of them: those of the call, or of its computed default."""
    b, leaf = state.b, input_leaf(state, i)
    default = computed_default(state.checked, i)
    if default is None:
        return leaf, PRESENT
    node, present = state.memo[id(default)]
    if i.kind.startswith("index ") and default.type.kind != i.kind:  # it may be no index of the axis
        present |= (outside := within(b, node, i.kind.removeprefix("index ")))
        node = where(b, conjunction(b, outside), node)
    if i.fixed:
        node = b.node("detach", [node])
    given = b.leaf(Leaf(f"{GIVEN}{i.name}", (), Type(kind="int", interval=FINITE), "param", False))
    passed = b.node("ne", [given, b.const(0)])
    there = conjunction(b, present)
    if there is not None:
        present = factors_of(b, b.node("select", [passed, b.const(True), there]))
    return b.node("select", [passed, leaf, node]), present


def read_leaf(state: State, term: Term, args: Sequence[Lowered]) -> Lowered:
    b, name = state.b, str(term.attrs[0])
    found = state.inputs.get(name)
    if found is None:
        param = next(p for p in state.checked.params if p.name == name)
        type = term.type
        return b.leaf(
            Leaf(name, param.axes, type, "param", not param.integer and type.kind == "real"), param.span
        ), PRESENT
    node, present = input_value(state, found)
    present |= met(b, state.conditions, found.axes)
    if found.kind == "real" or found.kind.startswith(("prob ", "index ")):
        node = where(b, conjunction(b, present), node, b.const(_harmless(_interval(found))))
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
