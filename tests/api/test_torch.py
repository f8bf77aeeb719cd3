"""Compiled losses under torch's transforms: what `tests/runtime` shows for modules written by hand."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import lossdsl

LOSSES = ["cross_entropy", "focal", "kd_kl", "bce", "weighted_cross_entropy"]


def arguments(name: str, n: int = 4, dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    torch.manual_seed(n)
    z = torch.randn(n, 5, dtype=dtype)
    if name == "kd_kl":
        return [z, torch.randn(n, 5, dtype=dtype)]
    if name == "bce":
        return [z[:, 0], torch.rand(n, dtype=dtype)]
    y = torch.randint(0, 5, (n,))
    return [z, y, torch.rand(5, dtype=dtype)] if name == "weighted_cross_entropy" else [z, y]


@pytest.mark.parametrize("name", LOSSES)
def test_derivatives_and_transforms(name):
    loss = lossdsl.loss(name, backend="torch")
    z, *rest = arguments(name, 3)
    first = z.clone().requires_grad_()
    assert gradcheck(lambda z: loss(z, *rest), (first,), check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(lambda z: loss(z, *rest), (first,))
    plain = torch.autograd.grad(loss(first, *rest), first)[0]
    torch.testing.assert_close(torch.func.grad(lambda z: loss(z, *rest))(z), plain)
    rows = torch.func.jacrev(lambda z: loss(z, *rest, reduction="sum"))(z)
    torch.testing.assert_close(rows, torch.autograd.grad(loss(first, *rest, reduction="sum"), first)[0])
    many = torch.stack([z, 2 * z])
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(lambda z: loss(z, *rest)))(many)[0], plain)


@pytest.mark.parametrize("name", ["cross_entropy", "focal"])
def test_two_graphs_for_all_sizes_and_params(name):
    loss, graphs = lossdsl.loss(name, backend="torch"), []

    def backend(graph, inputs):
        from torch._dynamo.backends.debugging import aot_eager

        graphs.append(graph)
        return aot_eager(graph, inputs)

    torch._dynamo.reset()
    step = torch.compile(loss, backend=backend, fullgraph=True)
    for n in (4, 5, 6, 7, 8):
        for gamma in (0.5, 1.0, 1.5, 2.0, 3.0) if name == "focal" else (None,):
            if gamma is not None:
                loss.gamma = gamma
            z, *rest = arguments(name, n, torch.float32)
            z.requires_grad_()
            got = torch.autograd.grad(step(z, *rest), z)[0]
            torch.testing.assert_close(got, torch.autograd.grad(loss(z, *rest), z)[0])
    assert len(graphs) <= 2


@pytest.mark.parametrize("name", ["focal", "kd_kl"])
def test_opcheck(name):
    loss = lossdsl.loss(name, backend="torch")
    compiled = type(loss).compiled
    z, *rest = arguments(name)
    known = dict(zip(compiled.operands, [z, *rest, *([torch.ones(5)] if name == "focal" else [])], strict=False))
    known |= {spec.name: getattr(loss, spec.name) for spec in compiled.signature.params}
    known |= {"@rows": torch.rand(4, dtype=z.dtype)}
    known |= {f"@grad.{n}": torch.randn_like(x) for n, x in known.items() if x.is_floating_point()}
    for program in compiled.programs.values():
        torch.library.opcheck(program.op, tuple(known[arg] for arg in program.spec.args))


def test_halves_and_autocast():
    loss = lossdsl.loss("cross_entropy", backend="torch")
    z, y = arguments("cross_entropy", 6, torch.float32)
    for dtype in (torch.float16, torch.bfloat16):
        half = z.to(dtype).requires_grad_()
        value = loss(half, y)
        assert value.dtype == torch.float32
        torch.testing.assert_close(value, loss(half.float(), y))
        assert torch.autograd.grad(value, half)[0].dtype == dtype
    linear = lossdsl.loss("linear_cross_entropy", backend="torch")  # whose kernel multiplies matrices
    hidden, weight = torch.randn(6, 3), torch.randn(5, 3)
    exact = torch.nn.functional.cross_entropy(hidden @ weight.t(), y)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(loss(z, y), torch.nn.functional.cross_entropy(z, y))
        torch.testing.assert_close(linear(hidden, weight, y), exact)
        torch.testing.assert_close(torch.func.vmap(lambda h: linear(h, weight, y))(hidden[None])[0], exact)


@pytest.mark.parametrize("name", [*LOSSES, "head"])
def test_results_are_beside_the_inputs_whatever_the_default_device(name):
    """`torch.set_default_device("cuda")` and tensors on the CPU: here with a device that has no memory at all."""
    z, *rest = arguments("cross_entropy" if name == "head" else name)
    z.requires_grad_()
    if name == "head":
        rest = [torch.randn(7, 5, dtype=torch.float64), None, rest[0]]

    def results():
        options = {"head": "linear", "memory": "1KiB"} if name == "head" else {}
        loss = lossdsl.loss("cross_entropy" if name == "head" else name, backend="torch", **options)
        values = [loss(z, *rest, reduction=word) for word in ("mean", "none")] + [loss(z, *rest)]
        return [*values, *(torch.autograd.grad(value.sum(), z)[0] for value in values)]

    expected = results()
    with torch.device("meta"):
        found = results()
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
