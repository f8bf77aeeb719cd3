"""The typed tree: names resolved, functions inlined, every term with its type and its place in the source.

Terms share structure: equal terms are one object, so a walk memoises by `id(term)`. The operations are those of
`ir/graph.py` with these differences, which `ir/lower.py` compiles away:

* absence is still implicit: a `pick` may read outside its axis, and conditions on axes are in `CheckedLoss.conditions`;
* `where(e, m, …)` is e where every m holds, else absent. It comes from masked arguments of functions and from losses
  used as functions; `check/terms.py` moves it outwards into the masks of reductions, so that little of it is left;
* a reduction's mask is its second argument and has not yet met the conditions on its axes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from lossdsl.check.types import Type
from lossdsl.primitives.interval import Interval
from lossdsl.source.diagnostic import Diagnostic
from lossdsl.source.text import Source, Span
from lossdsl.syntax.ast import Claim, Example

Attribute = str | Fraction | float | int | bool | tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """`op` with its arguments; `attrs` are what the operation needs besides (axes, names, a constant's value)."""

    op: str
    args: tuple[Term, ...]
    attrs: tuple[Attribute, ...]
    type: Type
    span: Span


@dataclass(frozen=True, slots=True)
class Input:
    """A tensor of the call. `axes` in the declared order; `default` is a term of params and earlier inputs."""

    name: str
    axes: tuple[str, ...]
    kind: str  # "real", "prob C", "bool", "int", "index C", "label"
    fixed: bool
    default: Term | None
    draw: str | None
    bounds: Interval | None
    span: Span


@dataclass(frozen=True, slots=True)
class Param:
    """A run-time scalar or vector. A mode has `modes` and its chosen name in `default`."""

    name: str
    axes: tuple[str, ...]
    integer: bool
    default: float | tuple[float, ...] | str
    bounds: Interval | None
    modes: tuple[str, ...]
    learnable: bool
    span: Span


@dataclass(frozen=True, slots=True)
class AxisInfo:
    """A declared or inferred axis. `size` is a term (of int params and sizes) where no input binds it."""

    name: str
    batch: bool
    size: Term | None


@dataclass(frozen=True, slots=True)
class CheckedLoss:
    """A loss that is right: what `lossdsl.load` gives and every later stage reads.

    `result` is the body of the caller's reduction, over the axes `reduced`: `reduction` is the file's word for it
    ("mean" or "sum"), or None for a batch loss or a map, whose result is returned as it is. `keep` and `weight` are its
    `where` and `weighted`.
    """

    name: str
    kind: str  # "loss" or "map"
    aliases: tuple[str, ...]
    doc: str
    cites: tuple[str, ...]
    tags: tuple[str, ...]
    inputs: tuple[Input, ...]
    params: tuple[Param, ...]
    axes: tuple[AxisInfo, ...]  # canonical order: batch axes first, then by appearance; copies follow their axis
    conditions: tuple[tuple[str, Term], ...]  # axis T where mask; ignore_index is added when lowered
    result: Term
    reduction: str | None
    reduced: tuple[str, ...]
    keep: Term | None
    weight: Term | None
    outputs: tuple[tuple[str, Term], ...]
    claims: tuple[Claim, ...]
    examples: tuple[Example, ...]
    warnings: tuple[Diagnostic, ...]
    source: Source
    dependencies: tuple[tuple[str, str], ...] = field(default=())  # (loss used as a function, sha256 of its text)
