"""A row that is left out is as if the caller had removed it, for every loss that can leave one out.

Rows are left out by a target that equals `ignore_index` and by a condition `axis N where …`. All else in such a row is
NaN, or an index, label or bool of another kind of row; a copy N' of the axis is left out with it. The value and every
gradient are held against those of the call without the row.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import lossdsl
from lossdsl.api import registry
from lossdsl.check.typed import CheckedLoss, Term
from lossdsl.check.types import base_axis
from lossdsl.derive.points import random_leaves, sizes_for
from lossdsl.ir.lower import lower
from lossdsl.pipeline import front
from lossdsl.source.text import Source
from tests.losses import FULL

N, GONE = 8, 2  # rows, and the one that is left out


@dataclass(frozen=True)
class Way:
    """How a loss can leave out an entry of a batch axis: by an input that says so."""

    full: str
    name: str
    axis: str

    def __str__(self) -> str:
        return f"{self.full}[{self.axis} by {self.name}]"


def leaf_names(term: Term) -> set[str]:
    stack, seen, names = [term], {id(term)}, set()
    while stack:
        t = stack.pop()
        if t.op == "leaf":
            names.add(str(t.attrs[0]))
        for a in t.args:
            if id(a) not in seen:
                seen.add(id(a))
                stack.append(a)
    return names


def checked(full: str) -> CheckedLoss:
    path = Path(registry().losses[full].path)
    return front(Source(path.name, path.read_text()), registry()).checked


def ways(full: str) -> list[Way]:
    loss = checked(full)
    batch = {a.name for a in loss.axes if a.batch}
    inputs = {i.name: i for i in loss.inputs}
    found = []
    for item in loss.inputs:
        # An entry of one more axis, [B, T], leaves out that entry; a row's number means another row without it.
        if item.kind.startswith("index ") and item.axes and set(item.axes) <= batch and item.kind[6:] not in batch:
            found.append(Way(full, item.name, item.axes[0]))
    for axis, mask in loss.conditions:
        named = [n for n in leaf_names(mask) if n in inputs]
        if axis in batch and len(named) == 1 and inputs[named[0]].kind in ("bool", "real"):
            found.append(Way(full, named[0], axis))
    return found


def tensors(way: Way, seed: int) -> tuple[dict[str, Tensor], dict[str, list[int]], tuple[str, ...]]:
    """The inputs, the dimensions of each that run along the axis, and the names of those with a gradient."""
    loss = checked(way.full)
    graph = lower(loss, registry())
    sizes = sizes_for(graph, **{"C": 4, "D": 3, "V": 4, way.axis: N})
    given, along = {}, {}
    leaves = random_leaves(graph, sizes, np.random.default_rng(seed))
    for item in loss.inputs:
        tensor = torch.as_tensor(np.array(leaves[item.name]))
        if item.kind.startswith("index ") and way.axis not in item.axes:
            tensor = torch.arange(tensor.numel()).reshape(tensor.shape)  # a choice, in which nothing may be twice
        given[item.name] = tensor.double() if tensor.is_floating_point() else tensor
        along[item.name] = [d for d, a in enumerate(item.axes) if base_axis(a) == way.axis]
    free = tuple(leaf.name for leaf in graph.leaves if leaf.differentiable and leaf.role == "input")
    return given, along, free


def spoiled(tensor: Tensor, dims: list[int]) -> Tensor:
    """With nothing to rely on in the row: NaN, another label, the other truth."""
    out = tensor.clone()
    for d in dims:
        row = out.select(d, GONE)
        if out.is_floating_point():
            row.fill_(float("nan"))
        elif out.dtype == torch.bool:
            row.logical_not_()
        else:
            row.fill_(0)
    return out


def without(tensor: Tensor, dims: list[int]) -> Tensor:
    for d in dims:
        tensor = torch.cat([tensor.narrow(d, 0, GONE), tensor.narrow(d, GONE + 1, N - GONE - 1)], d)
    return tensor


def value_and_gradients(
    loss: lossdsl.runtime.module.Loss, given: dict[str, Tensor], free: tuple[str, ...], **how: str
) -> tuple[Tensor, dict[str, Tensor]]:
    leaves = {n: given[n].clone().requires_grad_() for n in free}
    value = loss(**given | leaves, **how)
    total = (value * torch.arange(1, value.numel() + 1, dtype=value.dtype).reshape(value.shape)).sum()
    found = (
        torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
        if total.requires_grad
        else [None] * len(free)
    )
    return value.detach(), {
        n: torch.zeros_like(leaves[n]) if g is None else g for n, g in zip(free, found, strict=True)
    }


ALL = (
    [way for full in sorted(registry().losses) if "/" in full for way in ways(full)]
    if FULL
    else [
        way
        for full in random.Random(9).sample(sorted(n for n in registry().losses if "/" in n), 30)
        for way in ways(full)
    ]
)


@pytest.mark.parametrize("way", ALL, ids=str)
def test_a_row_left_out(way: Way) -> None:
    loss = lossdsl.loss(registry().losses[way.full].path, backend="torch")
    given, along, free = tensors(way, seed=3)
    left_out = {n: spoiled(t, along[n]) for n, t in given.items()}
    saying = given[way.name].clone()
    row = saying.select(along[way.name][0], GONE)
    if saying.dtype == torch.bool:
        row.fill_(False)
    elif saying.is_floating_point():
        row.fill_(-1)
    else:
        row.fill_(-100)
    left_out[way.name] = saying
    removed = {n: without(t, along[n]) for n, t in given.items()}
    for how in ({}, {"reduction": "sum"}):
        try:
            wanted, slopes = value_and_gradients(loss, removed, free, **how)
        except ValueError:
            assert how
            continue  # a batch loss has no other reduction
        got, found = value_and_gradients(loss, left_out, free, **how)
        torch.testing.assert_close(got, wanted, rtol=1e-11, atol=1e-12)
        for name in free:
            for d in along[name]:
                assert not found[name].select(d, GONE).any(), f"the row that isn't there has a gradient by {name}"
            torch.testing.assert_close(without(found[name], along[name]), slopes[name], rtol=1e-9, atol=1e-11)
