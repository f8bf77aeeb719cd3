"""From text to the plan: what is the same for all backends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from lossdsl.check.check import check, remarks
from lossdsl.check.heads import Head, with_heads
from lossdsl.check.typed import CheckedLoss
from lossdsl.derive.centring import centred
from lossdsl.derive.derive import derive
from lossdsl.derive.errors import NotDifferentiableError
from lossdsl.derive.others import by_the_others
from lossdsl.ir.graph import Graph, JointGraph
from lossdsl.ir.limits import TooLargeError
from lossdsl.ir.lower import lower
from lossdsl.plan.kernel import Plan
from lossdsl.plan.plan import plan
from lossdsl.plan.tiles.cut import Cut, cut, cut_head
from lossdsl.plan.tiles.tiling import Tiling, Untiled, other_axis, tile
from lossdsl.registry import Registry
from lossdsl.source.diagnostic import Diagnostic, DiagnosticError, Label, in_order
from lossdsl.source.text import Source
from lossdsl.syntax.ast import LossDef
from lossdsl.syntax.parse import read


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """A file that is right."""

    source: Source
    lossdef: LossDef
    checked: CheckedLoss


@dataclass(frozen=True, slots=True, kw_only=True)
class Middle(Front):
    """A loss derived and planned, not yet for any backend.

    `joint` has the derivatives by inputs and by params, `by_inputs` those by inputs alone; `plan` holds the programs of
    the first, as `lossdsl dump` shows them. `tiling` says how to do without the loss's matrix, or why that can't be
    (None: it has none), `across` how to take tiles along its columns instead; `heads` are those that were put in front
    of logits.
    """

    graph: Graph
    joint: JointGraph
    by_inputs: JointGraph
    plan: Plan
    tiling: Tiling | Untiled | None
    across: Tiling | None = None
    heads: tuple[Head, ...] = ()
    precise: bool = False


def front(source: Source, registry: Registry, modes: Mapping[str, str] | None = None) -> Front:
    """Parse and check; DiagnosticError with all that is wrong with the file."""
    reading = read(source)
    if reading.problems or reading.loss is None:
        raise DiagnosticError(source, in_order([*reading.problems, *remarks(reading, source, registry, modes)]))
    checked = check(reading.loss, source, registry, modes)
    return Front(source=source, lossdef=reading.loss, checked=checked)


def middle(source: Source, registry: Registry, modes: Mapping[str, str] | None = None, precise: bool = False) -> Middle:
    """Everything that is the same for all backends; DiagnosticError where a construct can't be compiled.

    `modes` are functions by param; the words "head" (of the first logits) and "head.NAME" in it are heads: HeadError
    for one that is no head of this loss, DiagnosticError where the loss needs all rows of its logits at once.
    """
    chosen, asked = split_heads(modes or {})
    first = front(source, registry, chosen)
    checked, heads = with_heads(first.checked, asked) if asked else (first.checked, ())
    with bounded(first):
        graph = by_the_others(centred(lower(checked, registry), checked, registry), registry)
        joint = derive(graph, registry)
        by_inputs = derive(_constant_params(graph), registry)
        planned = plan(joint, registry, precise=precise)
        found = _cut(first.checked, graph, heads, registry)
        tiling = None if found is None else tile(found, registry)
        across = None if heads or not isinstance(tiling, Tiling) else _across(graph, tiling, registry)
    if heads and isinstance(tiling, Untiled):
        raise DiagnosticError(source, [_no_head(first, tiling)])
    return Middle(
        source=source,
        lossdef=first.lossdef,
        checked=checked,
        graph=graph,
        joint=joint,
        by_inputs=by_inputs,
        plan=planned,
        tiling=tiling,
        across=across,
        heads=heads,
        precise=precise,
    )


def split_heads(modes: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Modes proper, and heads by the name of their logits ("" for the first)."""
    heads = {n.partition(".")[2]: kind for n, kind in modes.items() if n == "head" or n.startswith("head.")}
    return {n: m for n, m in modes.items() if n != "head" and not n.startswith("head.")}, heads


def _cut(checked: CheckedLoss, graph: Graph, heads: tuple[Head, ...], registry: Registry) -> Cut | None:
    """Where the loss multiplies matrices: at its heads, or where its file says so."""
    if not heads:
        return cut(graph, registry)
    leaves = {leaf.name: leaf for leaf in graph.leaves}
    named = {h.logits: [leaves[h.hidden], leaves[h.weight], leaves[h.bias]] for h in heads}
    graph = by_the_others(centred(lower(checked, registry), checked, registry), registry)
    return cut_head(graph, named, registry)


def _across(graph: Graph, tiling: Tiling, registry: Registry) -> Tiling | None:
    axis = other_axis(tiling, graph.batch)
    found = cut(graph, registry, axis) if axis else None
    made = None if found is None else tile(found, registry)
    return made if isinstance(made, Tiling) else None


def _no_head(first: Front, found: Untiled) -> Diagnostic:
    label = Label(found.origin or first.lossdef.name_span, found.reason)
    fix = "compute the logits before the loss, which then takes them whole"
    return Diagnostic("E0803", f"{first.checked.name} can't have a head", (label,), fix)


def where_from(source: Source, found: Untiled) -> str:
    """Why a matrix has to be whole, with the expression and the line."""
    if found.origin is None:
        return found.reason
    text = " ".join(source.text[found.origin.start : found.origin.end].split())
    line = source.text.count("\n", 0, found.origin.start) + 1
    return f"{found.reason}: `{text}`, line {line} of {source.name}"


def _constant_params(graph: Graph) -> Graph:
    leaves = tuple(replace(x, differentiable=False) if x.role == "param" else x for x in graph.leaves)
    return replace(graph, leaves=leaves)


@contextmanager
def bounded(first: Front) -> Iterator[None]:
    """What a stage can't do, or only beyond its bounds, as a Diagnostic."""
    try:
        yield
    except NotDifferentiableError as error:
        span = error.origin or first.lossdef.name_span
        label = Label(span, "no gradient is known here")
        fix = "write detach(…) around it if no gradient is meant to flow"
        raise DiagnosticError(first.source, [Diagnostic("E0802", str(error), (label,), fix)]) from None
    except (TooLargeError, RecursionError) as error:
        message = str(error) if isinstance(error, TooLargeError) else "the loss is nested too deep"
        label = Label(first.lossdef.name_span, "this loss is too large to compile")
        fix = "say it with a reduction over an axis, or split the file"
        raise DiagnosticError(first.source, [Diagnostic("E0801", message, (label,), fix)]) from None
