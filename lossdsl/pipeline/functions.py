"""The functions of a module, each planned by itself."""

from __future__ import annotations

from dataclasses import replace

from lossdsl.artifacts.describe import Kernel
from lossdsl.artifacts.identifiers import identifier
from lossdsl.ir.graph import JointGraph
from lossdsl.pipeline.stages import Middle
from lossdsl.plan.plan import REDUCED, plan, with_reduced
from lossdsl.registry import Registry


def module_kernels(
    made: Middle, registry: Registry, one_visit: bool = False, only: frozenset[str] | None = None
) -> tuple[Kernel, ...]:
    """Plan each function of the module by itself, so that none computes what it does not return.

    Derivatives by params are functions of their own, since a training step rarely wants them; so is the gradient by the
    first input where there are more. `one_visit` adds those of reduced value and gradient together, and the weights
    alone, whose sum must be known before. `only` names the functions that are wanted, where not all are.
    """
    leaves = [leaf for leaf in made.graph.leaves if leaf.differentiable]
    inputs = [leaf.name for leaf in leaves if leaf.role == "input"]
    rows = ("rows", "weight")
    asked: list[tuple[JointGraph, str, str, tuple[str, ...]]] = [(made.by_inputs, "value", "value", rows)]
    if any(name.startswith("aux.") for name, _ in made.graph.outputs):
        asked.append((made.by_inputs, "value", "aux", (*rows, "aux")))
    groups = {"": ("grad",)} if inputs else {}
    if len(inputs) > 1 and (first := identifier(inputs[0])) != "params":
        groups[f"_{first}"] = (f"grad.{inputs[0]}",)
    for suffix, heads in groups.items():
        asked.append((made.by_inputs, "gradient", f"gradient{suffix}", heads))
        if one_visit:
            asked.append((made.by_inputs, "both", f"both{suffix}", (*rows, REDUCED, *heads)))
    if inputs and one_visit:
        asked.append((made.by_inputs, "value", "weight", ("weight",)))
    if inputs:
        asked.append((made.by_inputs, "second", "second", ("second",)))
    if len(inputs) < len(leaves):
        asked.append((made.joint, "gradient", "gradient_params", ("grad",)))
        asked.append((made.joint, "second", "second_params", ("second",)))
    found = [_planned(*one, registry, made.precise) for one in asked if only is None or one[2] in only]
    return tuple(kernel for kernel in found if kernel is not None)


def _planned(
    joint: JointGraph, kind: str, name: str, heads: tuple[str, ...], registry: Registry, precise: bool
) -> Kernel | None:
    """One program under the name that its function will have, or None where there is none."""
    if kind == "both":
        joint = with_reduced(joint, registry)
        if joint.graph.batch and REDUCED not in dict(joint.graph.outputs):
            return None  # every gradient is 0, whatever the upstream: nothing to make with the value
    outputs = tuple(o for o in joint.graph.outputs if o[0] in heads or o[0].partition(".")[0] in heads)
    if not outputs:
        return None
    part = replace(joint, graph=replace(joint.graph, outputs=outputs))
    for program in plan(part, registry, precise=precise).programs:
        if program.name.rpartition(".")[2] == kind:
            return Kernel(name, replace(program, name=f"{joint.graph.name}.{name}"), part.graph)
    return None
