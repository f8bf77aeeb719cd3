"""Derived gradients and second derivatives against central differences at 110 digits, elementwise.

Over losses of the standard pack and the reference cases of the language: a sign error in the reverse pass shows. The
quick run leaves most first derivatives to `test_symbolic.py`, which compares all of them with sympy's.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest

from lossdsl.check.check import check
from lossdsl.derive.derive import derive
from lossdsl.derive.points import random_leaves, sizes_for
from lossdsl.ir.graph import Graph, JointGraph, Leaf
from lossdsl.ir.interpret import evaluate
from lossdsl.ir.lower import lower
from lossdsl.plugins import discover
from lossdsl.source.text import Source
from lossdsl.syntax.parse import parse
from tests.losses import CASES, FULL, STANDARD, sampled

REGISTRY = discover({})  # found once: looking takes longer than most of what is tested here

FILES = [*sampled(others=2), *sorted(CASES.glob("*.loss"))]
ORDERS = [(p, "grad") for p in FILES[:: 1 if FULL else 4]] + [(p, "second") for p in FILES]
STEP = mpmath.mpf("1e-30")
SIZES = {"N": 3, "C": 3, "D": 2, "B": 2, "T": 3, "V": 2}
Leaves = dict[str, Any]


@cache
def joint_of(path: Path) -> JointGraph:
    source = Source(path.name, path.read_text())
    return derive(lower(check(parse(source), source, REGISTRY), REGISTRY), REGISTRY)


def exact(array: Any) -> Any:
    return (
        np.vectorize(lambda x: mpmath.mpf(float(x)), otypes=[object])(array)
        if np.asarray(array).dtype.kind == "f"
        else array
    )


def draw(joint: JointGraph, seed: int) -> tuple[dict[str, int], Leaves]:
    sizes = sizes_for(joint.graph, **SIZES)
    leaves = random_leaves(joint.graph, sizes, np.random.default_rng(seed))
    return sizes, {name: exact(value) for name, value in leaves.items()}


def outputs(graph: Graph, sizes: dict[str, int], leaves: Leaves, names: list[str]) -> Leaves:
    return evaluate(graph, REGISTRY, leaves, names, "mpmath", sizes)


def directional(joint: JointGraph, sizes: dict[str, int], leaves: Leaves, pairs: dict[str, str]) -> Any:
    """Σ seed · output over output → seed leaf: what the reverse pass differentiates."""
    found = outputs(joint.graph, sizes, leaves, list(pairs))
    return sum((np.sum(found[o] * leaves[s]) for o, s in pairs.items()), mpmath.mpf(0))


def differences(joint: JointGraph, sizes: dict[str, int], leaves: Leaves, pairs: dict[str, str], leaf: str) -> Any:
    result = np.empty(np.shape(leaves[leaf]), dtype=object)
    for place in np.ndindex(result.shape):
        values = []
        for step in (STEP, -STEP):
            moved = np.array(leaves[leaf], dtype=object)
            moved[place] += step
            values.append(directional(joint, sizes, {**leaves, leaf: moved}, pairs))
        result[place] = (values[0] - values[1]) / (2 * STEP)
    return result


def held(joint: JointGraph, sizes: dict[str, int], leaves: Leaves) -> tuple[JointGraph, Leaves]:
    """The graph with every detached value as a constant input, which is what detach means to a derivative."""
    graph = joint.graph
    nodes, new, values = list(graph.nodes), [], dict(leaves)
    for n, node in enumerate(graph.nodes):
        if node.op == "detach":
            name = f"@held.{n}"
            axes = tuple(a for a in graph.axes if a in node.type.axes)
            values[name] = outputs(replace(graph, outputs=(("aux.held", n),)), sizes, leaves, ["aux.held"])["aux.held"]
            nodes[n] = replace(node, op="leaf", args=(), attrs=(name,))
            new.append(Leaf(name, axes, node.type, "input", False))
    return replace(joint, graph=replace(graph, nodes=tuple(nodes), leaves=(*graph.leaves, *new))), values


def seeds_of(joint: JointGraph, order: str) -> dict[str, str]:
    """output → seed leaf, for the first or the second application."""
    names = {leaf.name for leaf in joint.graph.leaves}
    have = dict(joint.graph.outputs)
    if order == "grad":
        return {o: f"@{o}" for o in ("rows", "weight") if o in have and f"@{o}" in names}
    return {o: f"@{o}" for o in have if o.startswith("grad.") and f"@{o}" in names}


@pytest.mark.parametrize(("path", "order"), ORDERS, ids=lambda x: x if isinstance(x, str) else x.stem)
@mpmath.workdps(110)
def test_against_differences(path: Path, order: str) -> None:
    joint = joint_of(path)
    if order == "second" and joint.second_missing:
        assert "eigvecs" in joint.second_missing
        return
    sizes, leaves = draw(joint, seed=7)
    pairs = seeds_of(joint, order)
    found = {n: k for n, k in joint.graph.outputs if n.startswith(f"{order}.")}
    assert found, "nothing was differentiated"
    frozen, frozen_leaves = held(joint, sizes, leaves)
    for name in found:
        leaf = name.removeprefix(f"{order}.")
        derived = outputs(joint.graph, sizes, leaves, [name])[name]
        expected = differences(frozen, sizes, frozen_leaves, pairs, leaf)
        scale = max((abs(x) for x in expected.flat), default=mpmath.mpf(1)) + STEP
        for place in np.ndindex(expected.shape):
            error = abs(np.broadcast_to(derived, expected.shape)[place] - expected[place])
            assert error <= mpmath.mpf("1e-25") * scale, (
                f"{name}{list(place)}: {derived[place]} is not {expected[place]}"
            )


def test_a_planted_sign_error_is_noticed() -> None:
    """The check above must be able to fail: negate one node of a JointGraph and see that it does."""
    joint = joint_of(STANDARD / "focal.loss")
    graph = joint.graph
    target = graph.output("grad.logits")
    chosen = graph.nodes[target]
    assert chosen.op == "select"
    away = chosen.args[2]
    wrong = replace(graph.nodes[away], op="neg", args=(graph.nodes[away].args[0],))
    nodes = (*graph.nodes[:away], wrong, *graph.nodes[away + 1 :]) if graph.nodes[away].op != "neg" else None
    if nodes is None:  # the branch is a negation: drop it
        inner = graph.nodes[away].args[0]
        nodes = (*graph.nodes[:target], replace(chosen, args=(*chosen.args[:2], inner)), *graph.nodes[target + 1 :])
    planted = JointGraph(replace(graph, nodes=nodes))
    sizes, leaves = draw(planted, seed=7)
    with mpmath.workdps(110):
        expected = differences(planted, sizes, leaves, seeds_of(planted, "grad"), "logits")
        derived = outputs(planted.graph, sizes, leaves, ["grad.logits"])["grad.logits"]
        assert max(abs(a - b) for a, b in zip(derived.flat, expected.flat, strict=True)) > 1e-3
