"""`precise=True` computes in float64; `debug=True` says where a number that isn't finite came from."""

from __future__ import annotations

import math
import pickle
from pathlib import Path

import pytest
import torch

import lossdsl
from lossdsl.accuracy.table import accuracy
from lossdsl.api import registry

INF = math.inf


@pytest.mark.parametrize("name", ["cross_entropy", "focal", "generalized_cross_entropy"])
def test_gradients_within_8_ulp(name: str) -> None:
    checked = lossdsl.load(name).checked
    plain, precise = (
        accuracy(checked, registry(), ["torch"], ("float32",), by_hand=False, precise=p).reports[0]
        for p in (False, True)
    )
    assert precise.ok, precise.misses
    assert precise.value.part <= 1
    assert not precise.value.reasons
    assert plain.gradient.error > 8 >= precise.gradient.error


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_precise_is_float64_rounded_once(dtype: torch.dtype) -> None:
    """Cosines of vectors nearly along one axis: what is orthogonal to these is a 10^-4 of its terms."""
    torch.manual_seed(0)
    x, w = (torch.randn(4, 5).to(dtype) for _ in range(2))
    x[:, 1] *= 64
    ours, same = (lossdsl.loss("psl_batch", backend="torch", precise=p) for p in (True, False))
    neg = torch.stack([w, w.flip(0)], 1)
    values: list[torch.Tensor] = []
    grads: list[torch.Tensor] = []
    for loss_fn, kind in ((ours, dtype), (same, torch.float64)):
        u = x.to(kind, copy=True).requires_grad_()
        values.append(loss_fn(u, w.to(kind), neg.to(kind)))
        grads += torch.autograd.grad(values[-1], u)
    assert values[0].dtype == torch.float32
    assert grads[0].dtype == dtype
    assert torch.equal(values[0], values[1].float())
    assert torch.equal(grads[0], grads[1].to(dtype))


@pytest.mark.parametrize("name", ["cross_entropy", "generalized_cross_entropy"])
def test_precise_rows_of_a_head(name: str) -> None:
    """Tiles of a matrix that is never whole have the same softmax, bit for bit, where the product is exact."""
    z = torch.linspace(1.3, -85, 40)[None]
    logits, weight = z.clone().requires_grad_(), z.T.clone().requires_grad_()
    hidden, bias, target = torch.ones(1, 1), torch.zeros(40), torch.tensor([25])
    lossdsl.loss(name, precise=True, backend="torch")(logits, target).backward()
    headed = lossdsl.loss(name, precise=True, backend="torch", head="linear")
    assert headed.compiled.tiling is not None
    headed(hidden, weight, bias, target).backward()
    assert logits.grad is not None
    assert weight.grad is not None
    assert torch.equal(weight.grad.T, logits.grad)
    rough = lossdsl.loss(name, backend="torch")
    again = z.clone().requires_grad_()
    rough(again, target).backward()
    assert not torch.equal(again.grad, logits.grad)


def test_precise_is_an_option_of_the_module() -> None:
    z = torch.tensor([[0.0, -41.3, -60.7]], dtype=torch.float32)
    y = torch.tensor([0])
    precise = lossdsl.loss("cross_entropy", precise=True, backend="torch")
    exact = lossdsl.loss("cross_entropy", backend="torch")(z.double(), y).item()
    assert abs(precise(z, y).item() - exact) <= 2.0**-23 * exact
    again = pickle.loads(pickle.dumps(precise))
    assert torch.equal(again(z, y), precise(z, y))
    assert "--precise" in lossdsl.compile("cross_entropy", "torch", precise=True).text
    assert "--precise" not in lossdsl.compile("cross_entropy", "torch").text


OVERFLOWS = """
loss boltzmann
input energy[N, K]
input weight[K]: fixed
scaled = 2 * energy
total  = sum[K](weight * exp(scaled))
return total / (1 + total)
"""


def test_the_first_intermediate_that_is_not_finite(tmp_path: Path) -> None:
    path = tmp_path / "boltzmann.loss"
    path.write_text(OVERFLOWS)
    loss_fn = lossdsl.loss(path, backend="torch", debug=True)
    weight = torch.tensor([1.0, 2.0])
    assert torch.isfinite(loss_fn(torch.zeros(3, 2), weight))
    with pytest.raises(FloatingPointError) as error:
        loss_fn(torch.tensor([[1.0, 2.0], [3.0, 4.0], [1.0, 70.0]]), weight)
    text = str(error.value)
    assert "boltzmann: the value is not finite in sample N = 2" in text
    assert "boltzmann.loss:6: " in text
    assert "exp(scaled)" in text
    assert "140" in text


def test_a_gradient_that_is_not_finite(tmp_path: Path) -> None:
    path = tmp_path / "root.loss"
    path.write_text("loss root\ninput x[N] in [0, inf)\ny = sqrt(x)\nreturn 3 * y\n")
    loss_fn = lossdsl.loss(path, backend="torch", debug=True, reduction="sum")
    x = torch.tensor([4.0, 0.0], requires_grad=True)
    value = loss_fn(x)
    with pytest.raises(FloatingPointError, match=r"(?s)gradient in x is not finite in sample N = 1.*root.loss:3"):
        value.backward()
    with pytest.raises(
        FloatingPointError, match=r"`1 / \(2 \* sqrt\(x\)\)` is the first: inf, from 2 \* sqrt\(x\) = 0$"
    ):
        loss_fn(torch.tensor([4.0, 0.0], requires_grad=True)).backward()  # what is derived is said in the file's words
    good = torch.tensor([4.0, 1.0], requires_grad=True)
    loss_fn(good).backward()
    assert good.grad is not None
    assert good.grad.tolist() == [0.75, 1.5]


def test_an_infinite_loss_of_the_library() -> None:
    loss_fn = lossdsl.loss("cross_entropy", backend="torch", debug=True)
    with pytest.raises(FloatingPointError, match=r"(?s)sample N = 1.*logits"):
        loss_fn(torch.tensor([[1.0, 2.0], [-INF, 3.0]]), torch.tensor([0, 0]))


def test_it_looks_in_the_numbers_that_were_computed_in() -> None:
    """In float64 e^100 is finite, and e^800 is the one to name."""
    spec = lossdsl.loads("loss e\ninput x[N]\nreturn exp(x)\n")
    x = torch.tensor([100.0, 800.0], dtype=torch.float64)
    for given, options, sample in ((x, {}, 1), (x.float(), {}, 0), (x.float(), {"precise": True}, 1)):
        loss_fn = lossdsl.loss(spec, backend="torch", debug=True, **options)
        with pytest.raises(FloatingPointError, match=f"in sample N = {sample}"):
            loss_fn(given)


def test_what_is_not_finite_elsewhere() -> None:
    """A second derivative's overflow, and a half gradient's: there is no intermediate to name."""
    spec = lossdsl.loads("loss e\ninput x[N] in [0, inf)\nreturn sqrt(x) + x^3\n")
    loss_fn = lossdsl.loss(spec, backend="torch", debug=True)
    x = torch.tensor([1e-30], requires_grad=True)
    (grad,) = torch.autograd.grad(loss_fn(x), x, create_graph=True)
    with pytest.raises(FloatingPointError, match=r"gradient in x is not finite, though .* at the second derivative"):
        torch.autograd.grad(grad, x)
    half = torch.tensor([200.0], dtype=torch.float16, requires_grad=True)
    with pytest.raises(FloatingPointError, match="though in float32 it is: it is beyond float16"):
        loss_fn(half).backward()
