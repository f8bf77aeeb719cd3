"""Second derivatives of every loss, and the function transforms, at points where the loss is smooth.

Held against are differences of the value: of the equation itself, in the interpreter's float64. What stands in `detach`
is held at its value at the point, which is what a derivative that stops there is the derivative of; torch's own
checkers know nothing of that, so they are asked about the losses without `detach` alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

import lossdsl
from lossdsl.api import registry
from lossdsl.check.typed import CheckedLoss
from lossdsl.check.types import base_axis
from lossdsl.derive.points import random_leaves, sizes_for
from lossdsl.ir.graph import Graph, Leaf
from lossdsl.ir.interpret import evaluate, trace
from lossdsl.pipeline import middle
from lossdsl.runtime.module import Loss
from lossdsl.source.text import Source
from tests.losses import FULL

ALL = sorted(full for full in registry().losses if "/" in full)
DRAWN = ("metric/arcface_straight_through", "llm/gem", "std/entmax_loss", "segmentation/lovasz_softmax")
DRAWN += ("info/gini_simpson",)  # powers of probabilities
DRAWN = tuple(ALL) if FULL else tuple(sorted({*(d for d in DRAWN if d in ALL), *random.Random(4).sample(ALL, 4)}))
# A determinant is 0 where a class has no sample; the second derivative of its exponential is NaN there.
EVERY_CLASS = ("std/dmi",)
STEP = 1e-4  # of second differences: what is cut off and what is rounded are both about 1e-8 of a value around 1


@dataclass(frozen=True)
class Point:
    """A built loss and its inputs at a point; `free` are those with a gradient."""

    loss: Loss
    graph: Graph
    given: dict[str, Tensor]
    free: tuple[str, ...]
    value: Callable[[dict[str, Any]], float]  # the mean or sum of the equation's rows

    def call(self, *varied: Tensor) -> Tensor:
        found = self.loss(**self.given | dict(zip(self.free, varied, strict=True)))
        assert isinstance(found, Tensor)
        return found.sum()  # of a map

    def leaves(self) -> list[Tensor]:
        return [self.given[name].clone().requires_grad_() for name in self.free]


def held(graph: Graph, leaves: dict[str, Any], sizes: dict[str, int]) -> tuple[Graph, dict[str, Any]]:
    """The graph with its detached values as inputs, and these at the point."""
    found = trace(graph, registry(), leaves, [name for name, _ in graph.outputs if name == "rows"], sizes=sizes)
    nodes, more, values = list(graph.nodes), list(graph.leaves), dict(leaves)
    for n, node in enumerate(graph.nodes):
        if node.op == "detach" and n in found.values:
            name, axes = f"@held.{n}", tuple(a for a in graph.axes if a in node.type.axes)
            nodes[n] = replace(node, op="leaf", args=(), attrs=(name,))
            more.append(Leaf(name, axes, node.type, "input", False))
            gone = tuple(i for i, a in enumerate(graph.axes) if a not in node.type.axes)
            full = np.broadcast_to(found.values[n], [sizes[a] if a in axes else 1 for a in graph.axes])
            values[name] = np.squeeze(full, axis=gone)
    return replace(graph, nodes=tuple(nodes), leaves=tuple(more)), values


def extents(checked: CheckedLoss, graph: Graph) -> dict[str, int]:
    """Small ones, with those that defaults of params and `axis K = size(D)` say."""
    sizes = sizes_for(graph, **{"N": 5, "C": 4, "D": 3, "B": 2, "T": 3, "V": 4})
    for p in checked.params:
        if isinstance(p.default, tuple):
            sizes |= {a: len(p.default) for a in sizes if base_axis(a) == p.axes[0]}
    for axis in checked.axes:
        if axis.size is not None and axis.size.op == "size" and axis.name in sizes:
            sizes[axis.name] = sizes[base_axis(str(axis.size.attrs[0]))]
    return sizes


def smooth_point(full: str) -> Point:
    """The first of some points at which value and gradient are finite."""
    for seed in range(5, 25):
        p = point(full, seed)
        if full in EVERY_CLASS and len(p.given["target"].unique()) < p.given["logits"].shape[1]:
            continue
        points = p.leaves()
        try:
            value = p.call(*points)
            found = torch.autograd.grad(value, points) if points else ()
        except (ValueError, torch.linalg.LinAlgError):
            continue  # indices that may not repeat, a matrix without an inverse
        if all(torch.isfinite(x).all() for x in (value, *found)):
            return p
    raise AssertionError(f"{full} has no finite value at twenty points")


def point(full: str, seed: int) -> Point:
    path = Path(registry().losses[full].path)
    made = middle(Source(path.name, path.read_text()), registry())
    sizes = extents(made.checked, made.graph)
    leaves = random_leaves(made.graph, sizes, np.random.default_rng(seed))
    for p in made.checked.params:
        if not p.modes and p.name in leaves:
            leaves[p.name] = np.asarray(p.default, dtype=float)
    given: dict[str, Tensor] = {}
    for item in made.checked.inputs:
        tensor = torch.as_tensor(np.array(leaves[item.name]))
        given[item.name] = tensor.double() if tensor.is_floating_point() else tensor
    free = tuple(leaf.name for leaf in made.graph.leaves if leaf.differentiable and leaf.role == "input")
    frozen, known = held(made.graph, leaves, sizes)

    def value(changed: dict[str, Any]) -> float:
        names = [name for name, _ in frozen.outputs if name in ("rows", "weight")]
        found = evaluate(frozen, registry(), known | changed, names, sizes=sizes)
        rows, count = found["rows"], found["weight"].sum() if "weight" in found else found["rows"].size
        if made.checked.kind == "map" or not made.graph.batch or made.checked.reduction == "sum":
            return float(rows.sum())
        return float(rows.sum() / count) if count else 0.0

    return Point(lossdsl.loss(path, backend="torch"), made.graph, given, free, value)


def differences(p: Point, name: str, step: float) -> np.ndarray:
    """The value's second derivatives by one input, flattened: central differences, without their error of step²."""
    return (4 * central(p, name, step / 2) - central(p, name, step)) / 3


def central(p: Point, name: str, step: float) -> np.ndarray:
    """The second derivatives of the value by one input, flattened, by central differences."""
    x = p.given[name].numpy()
    n = x.size

    def at(*moves: tuple[int, float]) -> float:
        moved = x.copy().reshape(-1)
        for i, by in moves:
            moved[i] += by
        return p.value({name: moved.reshape(x.shape)})

    found = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            a, b = (i, step), (j, step)
            c, d = (i, -step), (j, -step)
            found[i, j] = found[j, i] = (at(a, b) - at(a, d) - at(c, b) + at(c, d)) / (4 * step**2)
    return found


def slopes(p: Point, name: str, step: float = 1e-5) -> np.ndarray:
    x = p.given[name].numpy()
    found = np.zeros(x.size)
    for i in range(x.size):
        moved = np.array([x.reshape(-1)] * 2)
        moved[:, i] += (step, -step)
        found[i] = (p.value({name: moved[0].reshape(x.shape)}) - p.value({name: moved[1].reshape(x.shape)})) / 2 / step
    return found


def close(got: np.ndarray, wanted: np.ndarray, least: float = 1e-5) -> bool:
    """Entry by entry, up to what differences leave: of the largest entry, and of a value around 1."""
    return bool(np.all(np.abs(got - wanted) <= least * (1 + np.abs(wanted).max(initial=0))))


def against_differences(p: Point) -> list[str]:
    """Where gradient and second derivative of the module are not those of the equation with its detached parts held."""
    wrong = []
    points = p.leaves()
    gradients = torch.autograd.grad(p.call(*points), points, create_graph=True)
    for name, x, g in zip(p.free, points, gradients, strict=True):
        if not close(g.detach().numpy().reshape(-1), slopes(p, name)):
            wrong.append(f"gradient by {name}: {g.detach().numpy().reshape(-1)} for {slopes(p, name)}")
        if x.numel() > 24:
            continue
        rows = []
        for entry in g.reshape(-1):
            (row,) = (
                torch.autograd.grad(entry, x, retain_graph=True, allow_unused=True) if entry.requires_grad else (None,)
            )
            rows.append(np.zeros(x.numel()) if row is None else row.numpy().reshape(-1))
        got = np.array(rows)
        if not close(got, differences(p, name, STEP)):
            wrong.append(f"second derivative by {name}: off by {np.abs(got - differences(p, name, STEP)).max():.3g}")
    return wrong


def transforms(p: Point) -> None:
    """torch.func.grad, vmap of it, and jacrev give what a plain call gives."""
    first, *rest = (p.given[name] for name in p.free)
    leaf = first.clone().requires_grad_()
    (plain,) = torch.autograd.grad(p.call(leaf, *rest), leaf)

    def value(z: Tensor) -> Tensor:
        return p.call(z, *rest)

    torch.testing.assert_close(torch.func.grad(value)(first), plain, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(torch.func.jacrev(value)(first), plain, rtol=1e-12, atol=1e-13)
    many = torch.stack([first, 0.9 * first])
    mapped = torch.func.vmap(torch.func.grad(value))(many)
    each = torch.stack([torch.func.grad(value)(z) for z in many])
    torch.testing.assert_close(mapped, each, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("full", DRAWN)
def test_second_derivatives(full: str) -> None:
    p = smooth_point(full)
    if not p.free:
        return  # nothing to derive by
    if any(node.op == "detach" for node in p.graph.nodes):
        assert not against_differences(p)
    else:
        assert gradcheck(p.call, p.leaves())
        assert gradgradcheck(p.call, p.leaves())
    transforms(p)
