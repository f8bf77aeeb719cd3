"""The standard losses as torch modules: derivatives by torch's own checkers, function transforms, torch.compile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

import lossdsl
from lossdsl.derive.points import random_leaves, sizes_for
from lossdsl.pipeline import middle
from lossdsl.plugins import discover
from lossdsl.source.text import Source
from tests.losses import CASES, FIRST, STANDARD

# The others of the description have kinks, orders or eigenvalues, where there is no second derivative to check.
SMOOTH = ("arcface", "clip_contrastive", "dice", "distillation", "dpo", "mcr2_expand", "nt_xent", "supcon")
FILES = [*(STANDARD / f"{name}.loss" for name in FIRST), *(CASES / f"{name}.loss" for name in SMOOTH)]


def call(path: Any, seed: int) -> tuple[Any, list[Tensor], list[int]]:
    """A built loss, its inputs at a random point, and which of these have gradients."""
    made = middle(Source(path.name, path.read_text()), discover())
    sizes = sizes_for(made.graph, N=3, C=4, D=3, B=2, T=3, V=2)
    drawn = random_leaves(made.graph, sizes, np.random.default_rng(seed))
    tensors, real = [], []
    for i, item in enumerate(made.checked.inputs):
        tensor = torch.as_tensor(np.array(drawn[item.name]))
        if item.kind == "real" and not item.fixed:
            real.append(i)
        tensors.append(tensor.double() if tensor.is_floating_point() else tensor)
    return lossdsl.loss(path, backend="torch"), tensors, real


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_first_and_second_derivatives(path: Any) -> None:
    loss_fn, tensors, real = call(path, seed=5)

    def value(*varied: Tensor) -> Tensor:
        given = list(tensors)
        for i, x in zip(real, varied, strict=True):
            given[i] = x
        return loss_fn(*given)  # type: ignore[no-any-return]

    point = [tensors[i].clone().requires_grad_() for i in real]
    assert gradcheck(value, point)
    assert gradgradcheck(value, point)


@pytest.mark.parametrize("name", FIRST)
def test_function_transforms(name: str) -> None:
    """torch.func.grad, vmap of it over five batches, and jacrev give what plain calls give."""
    loss_fn, tensors, real = call(STANDARD / f"{name}.loss", seed=6)
    first, rest = tensors[0], tensors[1:]
    assert real[0] == 0
    leaf = first.clone().requires_grad_()
    (plain,) = torch.autograd.grad(loss_fn(leaf, *rest), leaf)
    torch.testing.assert_close(torch.func.grad(lambda z: loss_fn(z, *rest))(first), plain, rtol=1e-12, atol=1e-14)
    many = torch.stack([first + 0.1 * k for k in range(5)])
    mapped = torch.func.vmap(torch.func.grad(lambda z: loss_fn(z, *rest)))(many)
    each = torch.stack([torch.func.grad(lambda z: loss_fn(z, *rest))(z) for z in many])
    torch.testing.assert_close(mapped, each, rtol=1e-12, atol=1e-14)
    jacobian = torch.func.jacrev(lambda z: loss_fn(z, *rest, reduction="sum"))(first)
    (total,) = torch.autograd.grad(loss_fn(leaf, *rest, reduction="sum"), leaf)
    torch.testing.assert_close(jacobian, total, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["cross_entropy", "focal"])
def test_one_graph_for_all_sizes_and_parameters(name: str) -> None:
    """Five batch sizes and five values of a parameter compile to at most two graphs, with ignored rows right."""
    loss_fn = lossdsl.loss(name, backend="torch")
    graphs = []

    def backend(graph: torch.fx.GraphModule, _: list[Tensor]) -> Any:
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    step = torch.compile(lambda z, y: loss_fn(z, y), backend=backend, fullgraph=True)
    for k, n in enumerate((4, 7, 9, 12, 15)):
        if name == "focal":
            loss_fn.gamma = 0.5 * k
        z = torch.randn(n, 5, requires_grad=True)
        y = torch.randint(0, 5, (n,))
        y[0] = -100
        value = step(z, y)
        torch.testing.assert_close(value, loss_fn(z, y))
        torch.testing.assert_close(torch.autograd.grad(value, z)[0], torch.autograd.grad(loss_fn(z, y), z)[0])
    assert len(graphs) <= 2
