"""The gradient of a direction: what is orthogonal to x, where one coordinate is far larger than all others."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
import torch

import lossdsl
from lossdsl.api import registry
from lossdsl.ir.interpret import evaluate
from lossdsl.pipeline import middle

Array = Any
ULP = 2.0**-23
LEADER = 2
GUARDED = "sum[D](w * normalize[D](x))"
BY_HAND = "sum[D](w * (x / sqrt(sum[D](x^2))))"  # has the adjoints of a quotient and a root


def exact(x: Array, g: Array) -> tuple[Array, Array]:
    """(g - x (x·g) / (x·x)) / |x| at 50 digits, and the sum of the terms of each entry where those of x's largest
    coordinate have cancelled."""
    found, terms = np.zeros(x.shape), np.zeros(x.shape)
    with mpmath.workdps(50):
        for row, (a, b) in enumerate(zip(x.tolist(), g.tolist(), strict=True)):
            length = mpmath.sqrt(mpmath.fsum(mpmath.mpf(v) ** 2 for v in a))
            if not length:
                continue
            units = [v / length for v in a]
            share = mpmath.fsum(u * v for u, v in zip(units, b, strict=True))
            rest = [v - u * share for u, v in zip(units, b, strict=True)]
            for k, (u, v) in enumerate(zip(units, b, strict=True)):
                found[row, k] = float(rest[k] / length)
                others = mpmath.fsum(abs(units[i] * rest[i]) for i in range(len(a)) if i != LEADER)
                terms[row, k] = float((others if k == LEADER else abs(v) + abs(u * share)) / length)
    return found, terms


def gradient(equation: str, x: Array, w: Array) -> Array:
    spec = lossdsl.loads(f"loss along\ninput x[N, D]\ninput w[N, D]\nreturn {equation}\n")
    given = torch.tensor(x, requires_grad=True)
    lossdsl.loss(spec, backend="torch", reduction="sum")(given, torch.tensor(w)).backward()
    assert given.grad is not None
    return given.grad.double().numpy()


def gradient_in_single_precision(equation: str, x: Array, w: Array) -> Array:
    """The same by the graph, each step in float32: modules divide by a length in float64."""
    spec = lossdsl.loads(f"loss along\ninput x[N, D]\ninput w[N, D]\nreturn {equation}\n")
    graph = middle(spec.checked.source, registry()).joint.graph
    sizes = {"N": x.shape[0], "D": x.shape[1]}
    seeds = {s.name: np.ones([sizes[a] for a in s.axes]) for s in graph.leaves if s.role == "seed"}
    found = evaluate(graph, registry(), {"x": x, "w": w, **seeds}, ["grad.x"], "float32", sizes)
    return np.asarray(found["grad.x"], dtype=np.float64)


@pytest.mark.parametrize("ahead", [64.0, 1e3, 1e5])
def test_along_a_coordinate_far_larger_than_the_others(ahead: float) -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.normal(size=(100, 6)).astype(np.float32) for _ in range(2))
    x[:, LEADER] = np.copysign(ahead, x[:, LEADER])
    x[0] = 0
    wanted, terms = exact(x, w)
    found, rough = (
        np.abs(gradient_in_single_precision(e, x, w) - wanted)[1:] / terms[1:] / ULP for e in (GUARDED, BY_HAND)
    )
    # six products and their sums, twice, and the length: half a last place each
    assert found.max() <= 8
    assert rough[:, LEADER].max() > ahead / 8
    for equation in (GUARDED, BY_HAND):
        assert (np.abs(gradient(equation, x, w) - wanted)[1:] / terms[1:] / ULP).max() <= 1
    assert not gradient(GUARDED, x, w)[0].any()  # a vector of zeros has gradient 0
