"""How a loss is computed without its matrix: the frozen result of the analysis, which `dump --stage plan` prints.

Cut (matrices, the loss as a function of their entries) → Function (with its gradient) → Levels → Schedule of steps
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lossdsl.check.types import base_axis
from lossdsl.derive.errors import NotDifferentiableError
from lossdsl.ir.graph import Graph, restricted
from lossdsl.plan.tiles.cut import Cut, Matrix
from lossdsl.plan.tiles.features import Side, sides
from lossdsl.plan.tiles.function import Function, function
from lossdsl.plan.tiles.levels import NotTiledError, levels
from lossdsl.plan.tiles.steps import Give, Schedule, Step, schedule_tiles
from lossdsl.registry import Registry
from lossdsl.source.text import Span


@dataclass(frozen=True, slots=True)
class Variant:
    """A way to run the steps: for the value, or with gradients by the matrices, also by inputs, also by params."""

    name: str  # "value", "weight", "matrix", "inputs", "params"
    schedule: Schedule


@dataclass(frozen=True, slots=True)
class Tiling:
    """Everything that a tiled loss runs: the sides of its matrices, its variants, and which rows are there; `cut` is
    what it was made of."""

    cut: Cut
    axis: str
    matrices: tuple[Matrix, ...]
    sides: tuple[tuple[Side, Side, Side | None], ...]
    keep: Step | None
    picks: bool  # whether the rows that are not there are left out, or stay with harmless factors
    variants: tuple[Variant, ...]
    temporaries: int  # arrays as large as a tile of the matrix that whole-array operations hold at once


@dataclass(frozen=True, slots=True)
class Untiled:
    """Why a loss with a matrix can't do without it, and where its file says so."""

    reason: str
    origin: Span | None


def tile(cut: Cut, registry: Registry, picks: bool = True) -> Tiling | Untiled:
    """The tiling of a cut loss; with `picks` of the rows that are there alone, which wants their number beforehand."""
    try:
        made = function(cut, registry, picks)
        columns = frozenset(a for m in cut.matrices for a in m.columns)
        variants = _variants(made, cut.axis, columns, registry)
    except NotDifferentiableError as error:
        return Untiled(str(error), error.origin)
    except NotTiledError as error:
        return Untiled(str(error), error.origin)
    keep = None if made.keep is None else _keep(made.keep)
    wide = sum(1 for x in made.graph.nodes if cut.axis in x.type.axes and columns & x.type.axes)
    both = tuple(sides(cut, m, registry) for m in cut.matrices)
    return Tiling(cut, cut.axis, cut.matrices, both, keep, picks, variants, min(wide, 8))


def other_axis(tiling: Tiling, batch: Sequence[str]) -> str:
    """The axis along which a tiling's matrix may be tiled as well, "" if there is none: that of classes whose factor is
    computed, which so is never whole."""
    m, (_, right, _) = tiling.matrices[0], tiling.sides[0]
    axis = m.columns[0]
    samples = {base_axis(a) for a in (*batch, *m.rows)}
    return axis if right.step is not None and base_axis(axis) not in samples else ""


def _variants(made: Function, axis: str, columns: frozenset[str], registry: Registry) -> tuple[Variant, ...]:
    graph = made.graph
    names = [name for name, _ in graph.outputs]
    leaves = {leaf.name: leaf for leaf in graph.leaves}
    rows = [name for name in names if name in ("rows", "weight")]
    matrix = [name for name in names if name.startswith("grad.@z")]
    inputs = [n for n in names if n.startswith("grad.") and n not in matrix and leaves[n[5:]].role == "input"]
    params = [n for n in names if n.startswith("grad.") and n not in (*matrix, *inputs)]
    asked = {"value": rows, "matrix": [*rows, *matrix]}
    if len(matrix) > 1:  # two heads, of which often one has a gradient
        asked |= {f"matrix{i}": [*rows, name] for i, name in enumerate(matrix)}
    if inputs:
        asked["inputs"] = [*asked["matrix"], *inputs]
    if params:
        asked["params"] = [*asked["matrix"], *inputs, *params]
    found = []
    for name, outputs in asked.items():
        part = _part(graph, outputs)
        found.append(Variant(name, schedule_tiles(levels(part, axis, columns, registry), registry, outputs)))
    if "weight" in rows:
        known = levels(_part(graph, ["weight"]), axis, columns, registry)
        if not known.from_matrix[known.graph.output("weight")]:
            found.append(Variant("weight", schedule_tiles(known, registry, ["weight"])))
    return tuple(found)


def _part(graph: Graph, outputs: list[str]) -> Graph:
    return restricted(graph, [(name, n) for name, n in graph.outputs if name in outputs])


def _keep(graph: Graph) -> Step:
    part = restricted(graph, graph.outputs)
    axes = tuple(a for a in graph.axes if a in part.nodes[part.output("keep")].type.axes)
    leaves = tuple(replace(x, differentiable=False) for x in part.leaves)
    return Step(replace(part, leaves=leaves), False, (), (Give("keep", axes, "whole"),))
