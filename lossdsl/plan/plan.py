"""JointGraph → Plan: one KernelProgram each for the value, the gradient and, where it is known, the second
derivative.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from lossdsl.check.types import Type
from lossdsl.ir.graph import Graph, JointGraph, Leaf
from lossdsl.plan.expand import expand
from lossdsl.plan.guards import Output, Rebuild
from lossdsl.plan.kernel import Buffer, Dtype, KernelProgram, Plan
from lossdsl.plan.names import buffer_names
from lossdsl.plan.schedule import schedule
from lossdsl.plan.width import why_double
from lossdsl.plan.writing import dtype_of
from lossdsl.registry import Registry

REDUCED = "reduced"


def plan(joint: JointGraph, registry: Registry, wanted: frozenset[str] | None = None, precise: bool = False) -> Plan:
    """The programs of a loss; with `precise` softmaxes carry z - max z in two floats.

    `LOSS.value` stores rows, weight (if it is not all ones) and aux.*; `LOSS.gradient` one grad.* a differentiable leaf
    in `wanted` (all by default), from the leaves and the seeds; `LOSS.second` the second.* where the JointGraph has
    them. `LOSS.both` gives value and gradient in one visit where `seed_rows` is one number for all rows, a param (with
    `reduced` for rows and weight after `with_reduced`; not for programs that are flat, or whose weights have a
    gradient). A buffer's name is `names.buffer_name` of the leaf's or output's, made distinct within the program.
    """
    graph, hints = expand(joint.graph, registry, precise)
    graph = replace(graph, leaves=joint.graph.leaves)  # arguments stay, read or not: callers count on their places
    groups: dict[str, list[str]] = {"value": [], "gradient": [], "second": [], "both": []}
    for name, _ in graph.outputs:
        head, _, leaf = name.partition(".")
        if name == REDUCED:
            groups["both"].append(name)
        elif name in ("rows", "weight") or head == "aux":
            groups["value"].append(name)
        elif head == "grad" and (wanted is None or leaf in wanted):
            groups["gradient"].append(name)
        elif head == "second":
            groups["second"].append(name)
    programs, notes = [], []
    for kind, names in groups.items():
        if names and kind != "both":
            program, reason = _program(graph, hints, kind, names, registry)
            programs.append(program)
            double = why_double(program)
            notes += [f"{kind}: in float64 on the CPU, since {double}"] if double else []
            notes += [f"{kind}: composed of whole-array operations, since {reason}"] if reason else []
    first = groups["both"] or groups["value"]
    if first and groups["gradient"] and not any(leaf.name == "@weight" for leaf in graph.leaves):
        one, renamed = _with_one_seed(graph, hints, registry)
        program, reason = _program(one, renamed, "both", first + groups["gradient"], registry)
        programs += [] if reason else [program]
    if joint.second_missing:
        notes.append(f"second: {joint.second_missing}")
    return Plan(tuple(programs), tuple(notes))


def with_reduced(joint: JointGraph, registry: Registry) -> JointGraph:
    """The outputs with `reduced` in the place of `rows` and `weight`: the sum of the rows times their seed, which is
    the reduced value where that seed is its derivative by each row. As it is for a graph without rows.
    """
    seed = next((leaf for leaf in joint.graph.leaves if leaf.name == "@rows"), None)
    if seed is None or not joint.graph.batch:
        return joint
    again = Rebuild(joint.graph, registry)
    outputs = [(name, again.present(n)) for name, n in joint.graph.outputs]
    type_ = Type(frozenset(joint.graph.batch), "real")
    product = again.raw("mul", (again.builder.leaf(seed), dict(outputs)["rows"]), type_)
    total = again.raw("reduce", (product,), Type(frozenset(), "real"), ("sum", joint.graph.batch))
    kept = tuple((name, n) for name, n in outputs if name not in ("rows", "weight"))
    graph = replace(joint.graph, nodes=tuple(again.builder.nodes), outputs=((REDUCED, total), *kept))
    return replace(joint, graph=graph)


def _program(
    graph: Graph, hints: dict[int, str], kind: str, names: Sequence[str], registry: Registry
) -> tuple[KernelProgram, str]:
    leaves = [leaf for leaf in graph.leaves if _takes(kind, leaf)]
    named = buffer_names(leaf.name for leaf in leaves)
    named_outputs = buffer_names((_short(n) for n in names), named.values())  # an input may be called weight, too
    inputs = {leaf.name: Buffer(named[leaf.name], leaf.axes, dtype_of(leaf.type.kind), _role(leaf)) for leaf in leaves}
    by_name = {leaf.name: leaf for leaf in graph.leaves}
    outputs = []
    for name in names:
        node = graph.output(name)
        axes, dtype = _shape(graph, by_name, name, node)
        outputs.append(Output(Buffer(named_outputs[_short(name)], axes, dtype, "out"), node))
    body, scratch, reason = schedule(graph, outputs, inputs, registry, hints)
    buffers = (*inputs.values(), *(o.buffer for o in outputs), *scratch)
    return KernelProgram(f"{graph.name}.{kind}", graph.axes, buffers, body), reason


def _with_one_seed(graph: Graph, hints: dict[int, str], registry: Registry) -> tuple[Graph, dict[int, str]]:
    """The graph with `@rows` the same for all rows, a param: an upstream that is known when the loss is computed."""
    leaves = tuple(
        replace(leaf, axes=(), type=replace(leaf.type, axes=frozenset()), role="param")
        if leaf.name == "@rows"
        else leaf
        for leaf in graph.leaves
    )
    again = Rebuild(replace(graph, leaves=leaves), registry)
    outputs = tuple((name, again.present(n)) for name, n in graph.outputs if not name.startswith("second."))
    renamed = {new: hints[old] for old, new in again.known.items() if old in hints}
    return replace(graph, nodes=tuple(again.builder.nodes), leaves=leaves, outputs=outputs), renamed


def _short(output: str) -> str:
    """Outputs are named as the graph has them, `aux.` apart."""
    return output.removeprefix("aux.") if output.startswith("aux.") else output


def _takes(kind: str, leaf: Leaf) -> bool:
    """Whether a leaf is an argument of a program: seeds of the first derivative come in with it, @grad.* with the
    second.
    """
    if leaf.role != "seed":
        return True
    return kind == "second" or (kind == "gradient" and not leaf.name.startswith("@grad."))


def _role(leaf: Leaf) -> Literal["in", "param"]:
    return "param" if leaf.role == "param" else "in"


def _shape(graph: Graph, leaves: dict[str, Leaf], name: str, node: int) -> tuple[tuple[str, ...], Dtype]:
    """Axes and dtype of an output's buffer."""
    type_ = graph.nodes[node].type
    head, _, leaf = name.partition(".")
    if head in ("grad", "second"):
        return (leaves[leaf].axes if leaf in leaves else graph.batch), "real"
    if head in ("rows", "weight"):
        return graph.batch, "real"
    return tuple(a for a in graph.axes if a in type_.axes), dtype_of(type_.kind)
