"""A loss explained: equation, gradient, sweeps over the data, cost, and the backend that is chosen."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import wrap
from typing import Any

from lossdsl.backends.manager import BackendError
from lossdsl.check.typed import CheckedLoss
from lossdsl.check.types import base_axis
from lossdsl.derive.formula import formulas, plain
from lossdsl.ir.builder import bound_axes
from lossdsl.ir.graph import Graph, reachable
from lossdsl.pipeline import Middle, build, chosen, middle, where_from
from lossdsl.plan.cost import count
from lossdsl.plan.tiles.text import memory_in_words, schedule_in_words
from lossdsl.plan.tiles.tiling import Untiled
from lossdsl.registry import Registry
from lossdsl.source.text import Source
from lossdsl.syntax.ast import Claim
from lossdsl.syntax.parse import parse
from lossdsl.syntax.printing import print_statement


def loss_record(
    source: Source,
    registry: Registry,
    device: str,
    heads: Mapping[str, str] | None = None,
    sizes: Mapping[str, int] | None = None,
    memory: str = "64MiB",
) -> dict[str, Any]:
    """Everything that the command shows of a loss, as plain data; DiagnosticError if the file is wrong.

    `heads` are as `pipeline.middle` takes them among the modes; HeadError if the loss can't have one. With `sizes` of
    its axes a loss that is computed by tiles says which, under the cap `memory`; ValueError where one is missing.
    """
    made = middle(source, registry, heads)
    backend: dict[str, str | None]
    try:
        choice = chosen(made, registry, device)
        backend = {"name": choice.spec.name, "reason": choice.reason}
    except BackendError as error:
        backend = {"name": None, "reason": str(error)}
    programs = []
    for program in made.plan.programs:
        cost = count(program)
        programs.append(
            {
                "name": program.name.rsplit(".", 1)[-1],
                "sweeps": cost.sweeps,
                "reads": round(cost.reads, 4),
                "writes": round(cost.writes, 4),
                "transcendentals": round(cost.exps, 4),
                "bytes": round(cost.bytes, 4),
            }
        )
    tiles = _tiles_at(source, registry, backend["name"], device, heads, sizes, memory) if sizes else []
    notes = [*batch_notes(made.checked, made.graph), *_tile_notes(made), *tiles, *made.plan.notes]
    return {**mathematics(made, registry), "cost": programs, "notes": notes, "backend": backend}


def mathematics(made: Middle, registry: Registry) -> dict[str, Any]:
    """What a loss is, whatever runs it: its head, what it takes, equation, compiled form and gradient."""
    checked, joint = made.checked, made.joint
    graph = plain(joint, registry)
    names = [name for name, _ in graph.outputs if name == "rows" or name.startswith("grad.")]
    written = formulas(graph, names)
    outputs = dict(written.outputs)
    axes = {leaf.name: leaf.axes for leaf in graph.leaves}
    return {
        "name": checked.name,
        "kind": checked.kind,
        "file": made.source.name,
        "doc": " ".join(checked.doc.split()),
        "cites": list(checked.cites),
        "inputs": [_input(checked, i) for i in range(len(checked.inputs))],
        "params": [_param(checked, i) for i in range(len(checked.params))],
        "reduction": checked.reduction,
        "over": list(checked.reduced),
        "equation": _equation(made.source),
        "compiled": outputs.pop("rows"),
        "where": [f"{name} = {text}" for name, text in written.lets],
        "gradient": [
            {"input": name[5:], "axes": list(axes.get(name[5:], ())), "formula": text} for name, text in outputs.items()
        ],
        "second_derivative": joint.second_missing or "derived",
        "claims": [_claim(made.source, claim) for claim in checked.claims],
    }


def _claim(source: Source, claim: Claim) -> str:
    """A claim as the file spells it."""
    text = source.text[claim.span.start : claim.span.end]
    return " ".join(text.removeprefix("claim").split())


def _tile_notes(made: Middle) -> list[str]:
    """How the loss's matrix is avoided, or why it can't be."""
    if made.tiling is None:
        return []
    if isinstance(made.tiling, Untiled):
        return [f"the matrix is in memory whole: {where_from(made.source, made.tiling)}"]
    notes = [
        f"tiles, {v.name}: {schedule_in_words(made.tiling, v)}" for v in made.tiling.variants if v.name != "weight"
    ]
    if made.tiling.keep is not None:
        notes.append(
            "rows that are left out are not computed; by a backend for devices alone (Triton) they are, as weight 0, "
            "since nothing waits there to count them"
        )
    if any(m.kind == "sqdist" for m in made.tiling.matrices):
        notes.append("distances that nearly cancel are summed anew; on a device their number is waited for")
    return [memory_in_words(made.tiling), *notes]


def _tiles_at(
    source: Source,
    registry: Registry,
    backend: str | None,
    device: str,
    heads: Mapping[str, str] | None,
    sizes: Mapping[str, int],
    memory: str,
) -> list[str]:
    from lossdsl.explain_tiles import tiles_at

    module = build(source, registry, backend or "torch", device=device, modes=heads).artifact.load()
    tiling = module.COMPILED.tiling
    return ["no matrix is tiled: --size changes nothing"] if tiling is None else tiles_at(tiling, sizes, memory)


def batch_notes(checked: CheckedLoss, graph: Graph) -> list[str]:
    """Says of a loss whose rows read other rows that it isn't the same for a batch and for its parts."""
    batch = {axis.name for axis in checked.axes if axis.batch}
    bound = frozenset[str]().union(
        *(bound_axes(graph.nodes[n]) for n in reachable(graph.nodes, [graph.output("rows")]))
    )
    if not batch & {base_axis(axis) for axis in bound}:
        return []
    return ["the value depends on which samples share the batch: accumulating over smaller batches gives another"]


def _equation(source: Source) -> list[str]:
    """The file's own definitions and what it returns, as it spells them."""
    loss = parse(source)
    width = max((len(s.name) for s in loss.body if hasattr(s, "name_span")), default=0)
    lines = [print_statement(s, width if hasattr(s, "name_span") else 0) for s in loss.body]
    result = source.text[loss.result.span.start : loss.result.span.end]
    return [*lines, "return " + " ".join(result.split())]


def _input(checked: CheckedLoss, i: int) -> dict[str, Any]:
    item = checked.inputs[i]
    return {
        "name": item.name,
        "axes": list(item.axes),
        "kind": item.kind,
        "fixed": item.fixed,
        "optional": item.default is not None or item.draw is not None,
        "in": str(item.bounds) if item.bounds else None,
    }


def _param(checked: CheckedLoss, i: int) -> dict[str, Any]:
    item = checked.params[i]
    bounds = str(item.bounds) if item.bounds else f"{{{', '.join(item.modes)}}}" if item.modes else None
    return {"name": item.name, "default": item.default, "in": bounds, "learnable": item.learnable}


def mathematics_in_words(record: dict[str, Any]) -> list[str]:
    """What a loss is, in lines."""
    lines = [f"{record['kind']} {record['name']}  ({record['file']})"]
    lines += wrap(record["doc"], 100)
    lines += record["cites"]
    lines += ["", "Inputs"]
    for item in record["inputs"]:
        extra = [", fixed" * item["fixed"], ", optional" * item["optional"], f" in {item['in']}" if item["in"] else ""]
        lines.append(f"  {_named(item['name'], item['axes'])}: {item['kind']}{''.join(extra)}")
    for item in record["params"]:
        bounds = f" in {item['in']}" if item["in"] else ""
        lines.append(f"  {item['name']} = {item['default']}{bounds}" + ", learnable" * item["learnable"])
    over = f": the {record['reduction']} over {', '.join(record['over'])} of what is returned"
    lines += ["", f"Equation{over if record['reduction'] else ''}"]
    lines += [f"  {line}" for text in record["equation"] for line in text.splitlines()]
    lines += ["", "As it is computed, and its gradient (of one entry, for an upstream of 1)"]
    lines += [f"  {line}" for line in record["where"]]
    lines.append(f"  loss = {record['compiled']}")
    for item in record["gradient"]:
        lines.append(f"  d loss / d {_named(item['input'], item['axes'])} = {item['formula']}")
    if record["second_derivative"] != "derived":
        lines.append(f"  no second derivative: {record['second_derivative']}")
    return lines


def loss_in_words(record: dict[str, Any]) -> str:
    """The record as a person reads it."""
    lines = mathematics_in_words(record)
    lines += ["", "Cost an element of the largest input, float32, long axes"]
    columns = ("sweeps", "reads", "writes", "transcendentals", "bytes")
    lines.append(" " * 12 + "  ".join(columns))
    for program in record["cost"]:
        cells = [f"{program[column]:>{len(column)}.3g}" for column in columns]
        lines.append(f"  {program['name']:<10}" + "  ".join(cells))
    lines += [f"  {note}" for note in record["notes"]]
    lines += ["", f"Backend: {record['backend']['name'] or 'none'} ({record['backend']['reason']})"]
    return "\n".join(lines)


def _named(name: str, axes: list[str]) -> str:
    return f"{name}[{', '.join(axes)}]" if axes else name
