"""Defaults of inputs and sizes of axes that are expressions: through all stages, on torch, and where lossdsl isn't."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from lossdsl.api import registry
from lossdsl.derive.examples import run_examples
from lossdsl.ir.lower import lower
from lossdsl.pipeline import build, front
from lossdsl.source.diagnostic import DiagnosticError
from lossdsl.source.text import Source

DEFAULTS = """loss defaults
input logits[N, C]
input teacher[N, C] = softmax(logits / t)
input target[N]: index C = argmax[C](teacher)
input keep[N]: bool = max[C](teacher) > 0.3
input w[N]: fixed = max[C](teacher)
input bias = -1/4
param t = 2 in (0, inf)
axis N where keep
return mean[N](cross_entropy(logits, target) + sum[C](teacher * (teacher - logits)) + bias weighted w)
example logits = [[2, 0, -1], [0, 0, 0]] gives -0.067
"""

SIZES = """loss sizes
input x[N, C]
param rho = 0.5 in (0, 1]
axis K = max(1, floor(rho * size(C)))
axis M = if size(K) > 2 then size(K) + 1 else 2
input w[M] = 2 * M
return sum[K](x[descending[C -> K](x)]) + sum[M](w)
example x = [[1, 2, 3, 4]] gives 9
"""


@cache
def module(text: str, standalone: bool = False) -> Any:
    return build(Source("t.loss", text), registry(), "torch", standalone=standalone).artifact.load()


def expected(z: Tensor, t: Tensor, **given: Tensor) -> Tensor:
    """DEFAULTS by torch alone."""
    teacher = given.get("teacher", torch.softmax(z / t, 1))
    target = given.get("target", teacher.argmax(1))
    keep = given.get("keep", teacher.max(1)[0] > 0.3) & (target != -100)
    w = given.get("w", teacher.max(1)[0].detach())
    logp = torch.log_softmax(z, 1)
    own = -logp.gather(1, target.clamp(0)[:, None])[:, 0] + (teacher * (teacher - z)).sum(1) + given.get("bias", -0.25)
    return (w * own)[keep].sum() / w[keep].sum()


def draw(seed: int = 0) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    g = torch.Generator().manual_seed(seed)
    z = torch.randn(6, 4, dtype=torch.float64, generator=g).requires_grad_()
    t = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)
    others = {
        "teacher": torch.rand(6, 4, dtype=torch.float64, generator=g).requires_grad_(),
        "target": torch.tensor([0, 3, -100, 1, 2, 2]),
        "keep": torch.tensor([1, 1, 1, 0, 1, 1]).bool(),
        "w": torch.rand(6, dtype=torch.float64, generator=g),
        "bias": torch.tensor(0.7, dtype=torch.float64, requires_grad=True),
    }
    return z, t, others


CHOICES = [
    (),
    ("teacher",),
    ("target",),
    ("keep", "w"),
    ("teacher", "bias"),
    ("teacher", "target", "keep", "w", "bias"),
]


@pytest.mark.parametrize("standalone", [False, True])
@pytest.mark.parametrize("passed", CHOICES, ids="+".join)
def test_value_and_gradients_with_and_without_each(passed: tuple[str, ...], standalone: bool) -> None:
    z, t, others = draw()
    given = {name: others[name] for name in passed}
    leaves = [z, t, *(x for x in given.values() if x.requires_grad)]
    found = module(DEFAULTS, standalone).defaults(z, t=t, **given)
    want = expected(z, t, **given)
    torch.testing.assert_close(found, want, rtol=1e-13, atol=0)
    for a, b in zip(*(torch.autograd.grad(f, leaves, materialize_grads=True) for f in (found, want)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-14)


def test_second_derivatives_and_transforms_go_through_a_default() -> None:
    z, t, others = draw(1)
    loss = module(DEFAULTS).Defaults()
    fixed = {"target": others["target"], "keep": others["keep"], "w": others["w"]}
    assert torch.autograd.gradgradcheck(lambda z, t: loss(z, t=t, **fixed), (z, t))
    jacobian = torch.func.jacrev(lambda z: loss(z, reduction="none", **fixed))(z.detach())
    whole = torch.autograd.functional.jacobian(lambda z: loss(z, reduction="none", **fixed), z.detach())
    torch.testing.assert_close(jacobian, whole)
    rows = torch.func.vmap(torch.func.grad(lambda z: loss(z[None])))(z.detach())
    one = torch.stack([torch.func.grad(lambda z: expected(z[None], torch.tensor(2.0)))(row) for row in z.detach()])
    torch.testing.assert_close(rows, one)


def test_nothing_of_a_row_that_is_not_there_reaches_a_default() -> None:
    z, t, others = draw(2)
    keep = others["keep"]
    spoilt = torch.where(keep[:, None], z.detach(), torch.nan).requires_grad_()
    found = module(DEFAULTS).defaults(spoilt, keep=keep, t=t)
    torch.testing.assert_close(found, expected(z[keep], t, keep=keep[keep]))
    gradient = torch.autograd.grad(found, spoilt)[0]
    assert (gradient[~keep] == 0).all()
    assert gradient.isfinite().all()


def test_values_of_a_default_are_not_scanned() -> None:
    text = "loss t\ninput x[N]\ninput y[N]: fixed = x + 1 in [1, 2]\nreturn x * y\n"
    loss = module(text).T()
    assert loss(torch.tensor([0.5]), check=True).item() == 0.75
    with pytest.raises(ValueError, match=r"y\[0\] = 5 is not in \[1, 2\]"):
        loss(torch.tensor([0.5]), torch.tensor([5.0]), check=True)


def test_an_index_that_a_default_computes_may_be_none() -> None:
    """What is read there is absent, as by any other index."""
    text = "loss t\ninput x[N, C]\ninput y[N]: index C = argmax[C](x) + 1\nreturn x[y]\n"
    x = torch.tensor([[3.0, 1.0, 2.0], [0.0, 1.0, 5.0]], requires_grad=True)
    loss = module(text).T()
    assert loss(x).item() == 1
    assert torch.autograd.grad(loss(x), x)[0].tolist() == [[0, 1, 0], [0, 0, 0]]
    assert loss(x, reduction="none").tolist() == [1, 0]


@pytest.mark.parametrize("rho", [0.5, 1.0, 0.2, 0.01])
@pytest.mark.parametrize("standalone", [False, True])
def test_sizes(rho: float, standalone: bool) -> None:
    x = torch.randn(3, 7, dtype=torch.float64, requires_grad=True)
    found = module(SIZES, standalone).sizes(x, rho=rho)
    k = max(1, int(rho * 7))
    m = k + 1 if k > 2 else 2
    want = x.topk(k, 1)[0].sum(1).mean() + m * (m - 1)
    torch.testing.assert_close(found, want)
    torch.testing.assert_close(*(torch.autograd.grad(f, x)[0] for f in (found, want)))


@pytest.mark.parametrize("text", [DEFAULTS, SIZES])
def test_examples_know_them(text: str) -> None:
    checked = front(Source("t.loss", text), registry()).checked
    (result,) = run_examples(checked, registry(), lambda modes: lower(checked, registry()))
    assert result.problem is None


ERRORS: dict[str, tuple[str, str]] = {
    "a size of a tensor's values": ("axis K = floor(max[N](x))", "depends on a tensor's values"),
    "a size that counts": ("axis K = count[C](C < 3)", "more than arithmetic of numbers, params and sizes"),
    "a size without end": ("axis K = " + "+".join(["size(C)"] * 95) + "+" + "*".join(["size(C)"] * 95), "more than"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_sizes_that_can_not_be(name: str) -> None:
    line, message = ERRORS[name]
    text = f"loss t\ninput x[N]\ninput z[N, C]\n{line}\nreturn x * z[C -> 0] + sum[K](K)\n"
    with pytest.raises(DiagnosticError) as caught:
        front(Source("t.loss", text), registry())
    assert [d.code for d in caught.value.diagnostics] == ["E0309"]
    assert message in caught.value.diagnostics[0].message


def size_of(expression: str) -> float:
    """The size of an axis as a call finds it, where C is 3."""
    text = f"loss t\ninput x[N, C]\naxis K = {expression}\nreturn sum[C](x) + size(K) + 0 * sum[K](K)\n"
    value: float = module(text).t(torch.zeros(1, 3)).item()
    return value


@pytest.mark.parametrize("expression", ["size(C) - 9", "floor(1 / (size(C) - 3))"])
def test_sizes_that_turn_out_impossible(expression: str) -> None:
    with pytest.raises(ValueError, match=r"axis K can.t be (-6|inf) long"):
        size_of(expression)


ARITHMETIC = {
    **{"size(C) + 1": 4, "2 * size(C) - 3": 3, "floor(size(C) / 2)": 1, "floor(mod(size(C), 2))": 1},
    **{"floor(size(C)^2 / 4)": 2, "max(size(C), 4)": 4, "min(size(C), 4)": 3, "abs(size(C) - 9)": 6},
    **{"floor(sqrt(size(C)))": 1, "round(log(exp(size(C))))": 3, "clip(size(C), 1, 2)": 2, "0 * size(C)": 0},
    **{"if size(C) >= 3 and not size(C) == 4 then 2 else 1": 2, "floor(sign(size(C)))": 1, "round(5 / 2)": 2},
}


@pytest.mark.parametrize("expression", ARITHMETIC)
def test_arithmetic_of_sizes(expression: str) -> None:
    """In the runtime, and in the interpreter, which has the primitives' own arithmetic."""
    assert size_of(expression) == ARITHMETIC[expression]
    text = f"loss t\ninput x[N, C]\naxis K = {expression}\nreturn sum[C](x) + size(K) + 0 * sum[K](K)\n"
    text += f"example x = [[0, 0, 0]] gives {ARITHMETIC[expression]}\n"
    checked = front(Source("t.loss", text), registry()).checked
    (result,) = run_examples(checked, registry(), lambda modes: lower(checked, registry()))
    assert result.problem is None
