"""The calls of a training step: what is kept of one must not be used for another."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import lossdsl


def step(loss: Tensor) -> str:
    return type(loss.grad_fn).__name__


@pytest.fixture
def z() -> Tensor:
    torch.manual_seed(0)
    return (torch.randn(9, 5, dtype=torch.float64) * 3).requires_grad_()


@pytest.fixture
def y() -> Tensor:
    return torch.tensor([0, 1, 2, 3, 4, 0, 1, 2, 3])


def test_the_second_call_is_like_the_first_and_like_torch(z: Tensor, y: Tensor) -> None:
    loss = lossdsl.loss("cross_entropy", backend="cpu")
    wanted = torch.autograd.grad(F.cross_entropy(z, y), z)[0]
    for factor in (1.0, -2.5):
        value = loss(z, y)
        assert step(value) == "StepBackward"
        assert abs(value.item() - F.cross_entropy(z, y).item()) < 1e-15 * 8
        (grad,) = torch.autograd.grad(factor * value, z)
        torch.testing.assert_close(grad, factor * wanted, rtol=1e-13, atol=1e-16)


def test_wrong_and_ignored_indices_after_right_ones(z: Tensor, y: Tensor) -> None:
    loss = lossdsl.loss("cross_entropy", backend="cpu")
    loss(z, y)
    for wrong in (5, -1):
        with pytest.raises(IndexError, match="logits has 5 classes"):
            loss(z, y.clone().fill_(wrong))
    part = y.clone()
    part[::2] = -100
    torch.testing.assert_close(loss(z, part), F.cross_entropy(z, part), rtol=1e-14, atol=0)
    with pytest.raises(ValueError, match="9"):
        loss(z, y[:4])


def test_options_and_params_that_change(z: Tensor, y: Tensor) -> None:
    loss = lossdsl.loss("focal", backend="cpu", gamma=2.0)

    def by_hand(gamma: float) -> Tensor:
        logp = torch.log_softmax(z, 1).gather(1, y[:, None]).squeeze(1)
        return -((1 - logp.exp()) ** gamma) * logp

    torch.testing.assert_close(loss(z, y), by_hand(2.0).mean())
    loss.gamma = 0.5
    torch.testing.assert_close(loss(z, y), by_hand(0.5).mean())
    loss._buffers["gamma"].fill_(3.0)
    torch.testing.assert_close(loss(z, y), by_hand(3.0).mean())
    torch.testing.assert_close(loss(z, y, gamma=1.5), by_hand(1.5).mean())
    loss.reduction = "sum"
    torch.testing.assert_close(loss(z, y), by_hand(3.0).sum())
    loss.reduction = "none"
    torch.testing.assert_close(loss(z, y), by_hand(3.0))
    for again in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
        again.reduction = "mean"
        torch.testing.assert_close(again(z, y), by_hand(3.0).mean())


def test_higher_derivatives_and_a_second_backward(z: Tensor, y: Tensor) -> None:
    loss = lossdsl.loss("cross_entropy", backend="cpu")
    loss(z, y)
    assert torch.autograd.gradgradcheck(lambda z: loss(z, y), (z,))
    value = loss(z, y)
    value.backward(retain_graph=True)
    assert z.grad is not None
    first = z.grad.clone()
    value.backward()
    torch.testing.assert_close(z.grad, 2 * first)
    with pytest.raises(RuntimeError, match="second time"):
        value.backward()
    torch.testing.assert_close(torch.func.grad(lambda z: loss(z, y))(z), first)


def test_threads_share_a_module(y: Tensor) -> None:
    loss = lossdsl.loss("cross_entropy", backend="cpu")
    inputs = [torch.randn(9, 5, dtype=torch.float64).requires_grad_() for _ in range(40)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda z: torch.autograd.grad(loss(z, y), z)[0], inputs))
    for z, grad in zip(inputs, found, strict=True):
        torch.testing.assert_close(grad, torch.autograd.grad(F.cross_entropy(z, y), z)[0], rtol=1e-13, atol=1e-16)


@pytest.mark.parametrize("shape", [(3, 7, 5, 6), (2, 19, 64, 32), (2, 5, 9), (2, 3, 2, 2, 2), (1, 4, 3, 3)])
@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
def test_images_are_read_where_they_lie(shape: tuple[int, ...], order: torch.memory_format) -> None:
    if order == torch.channels_last and len(shape) != 4:
        order = torch.contiguous_format
    torch.manual_seed(1)
    z = torch.randn(*shape, dtype=torch.float64).to(memory_format=order).requires_grad_()
    y = torch.randint(0, shape[1], (shape[0], *shape[2:]))
    loss = lossdsl.loss("cross_entropy", backend="cpu")
    wanted = F.cross_entropy(z, y)
    (g,) = torch.autograd.grad(wanted, z)
    for _ in range(2):
        value = loss(z, y)
        assert step(value) == ("StepBackward" if shape[0] > 1 else "EagerBackward")
        torch.testing.assert_close(value, wanted, rtol=1e-14, atol=0)
        (grad,) = torch.autograd.grad(value, z)
        torch.testing.assert_close(grad, g, rtol=1e-12, atol=1e-18)
        assert shape[0] == 1 or grad.stride() == z.stride()
    part = y.clone()
    part[0, 0] = -100
    torch.testing.assert_close(loss(z, part), F.cross_entropy(z, part), rtol=1e-13, atol=0)
    if z.numel() < 700:
        assert torch.autograd.gradgradcheck(lambda z: loss(z, y), (z,), fast_mode=True)


def test_images_with_what_they_share() -> None:
    z = torch.randn(2, 4, 3, 5, dtype=torch.float64, requires_grad=True)
    y = torch.randint(0, 4, (2, 3, 5))
    alpha = torch.tensor([0.1, 0.9, 0.4, 1.0], dtype=torch.float64)
    loss = lossdsl.loss("focal", backend="cpu")
    logp = torch.log_softmax(z, 1).gather(1, y[:, None]).squeeze(1)
    wanted = (-alpha[y] * (1 - logp.exp()) ** 2 * logp).mean()
    value = loss(z, y, alpha)
    assert step(value) == "StepBackward"
    torch.testing.assert_close(value, wanted)
    torch.testing.assert_close(torch.autograd.grad(value, z)[0], torch.autograd.grad(wanted, z)[0])


PINBALL = """loss pinball_of_levels
input pred[N, K], y[N]
param tau[K] = [0.1, 0.5, 0.9]
e = y - pred
return mean[K](max(tau * e, (tau - 1) * e))
"""


def test_a_vector_of_another_length_than_its_axis_is_never_read_past_its_end() -> None:
    loss = lossdsl.loss(lossdsl.loads(PINBALL), backend="cpu")
    y = torch.randn(5)
    for grad in (False, True):
        for size in (1, 2, 4, 600):
            pred = torch.randn(5, size, requires_grad=grad)
            with pytest.raises(ValueError, match=f"K = {size} from pred, but the param tau has 3"):
                loss(pred, y)
    pred = torch.randn(5, 3)
    loss(pred, y)
    with pytest.raises(ValueError, match="K = 3 from pred, but the param tau has 2"):
        loss(pred, y, tau=[0.1, 0.9])
    loss.tau = [0.1, 0.9]
    with pytest.raises(ValueError, match="K = 3 from pred, but the param tau has 2"):
        loss(pred, y)


def test_a_kernel_writes_to_memory_of_the_cpu_whatever_the_default_device(z: Tensor, y: Tensor) -> None:
    with torch.device("meta"):  # which has no memory: its addresses are 0
        loss = lossdsl.loss("focal", backend="cpu")
        found = [torch.autograd.grad(loss(z, y), z)[0] for _ in range(2)]
        rows = loss(z, y, reduction="none")
    plain = lossdsl.loss("focal", backend="torch")
    expected = [torch.autograd.grad(plain(z, y), z)[0]] * 2
    torch.testing.assert_close([*found, rows], [*expected, plain(z, y, reduction="none")], rtol=1e-12, atol=1e-15)


def test_a_debug_build_names_the_first_number_that_is_not_finite() -> None:
    text = "loss log_margin\ninput logits[N, C]\ninput target[N]: index C\nreturn log(softmax(logits)[target] - 0.5)\n"
    loss_fn = lossdsl.loss(lossdsl.loads(text), backend="cpu", debug=True)
    z = torch.tensor([[3.0, 0, 0], [0, 0, 3]])
    assert torch.isfinite(loss_fn(z, torch.tensor([0, 2])))
    with pytest.raises(FloatingPointError, match=r"(?s)sample N = 1.*:4: .*log"):
        loss_fn(z.requires_grad_(), torch.tensor([0, 0]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_precise_is_float64_rounded_once(z: Tensor, y: Tensor, dtype: torch.dtype, reduction: str) -> None:
    ours, same = (lossdsl.loss("focal", backend="cpu", precise=p, reduction=reduction) for p in (True, False))
    x = z.detach().to(dtype).requires_grad_()
    for _ in range(2):  # nothing is kept of a call that a second would take for its own
        value, exact = ours(x, y), same(x.double(), y)
        (grad,), (wanted,) = (torch.autograd.grad(v.sum(), x) for v in (value, exact))
        assert value.dtype == torch.float32
        assert grad.dtype == dtype
        torch.testing.assert_close(value, exact.float(), rtol=2.0**-23, atol=0)
        torch.testing.assert_close(grad, wanted, rtol=2.0**-23, atol=0)
    with pytest.raises(ValueError, match="made in float64"):
        lossdsl.loss("focal", backend="cpu", precise=True, inplace=True)


@pytest.mark.parametrize("name", ["unix", "linux", "nullptr", "and_eq", "typeof", "co_await"])
def test_names_that_cxx_has_words_for(name: str, z: Tensor, y: Tensor) -> None:
    """Macros of a compiler's own dialect, operators as words, keywords."""
    text = f"loss a\ninput x[N, C]\ninput {name}[N]: index C\nparam wchar_t = 1\n"
    loss = lossdsl.loss(lossdsl.loads(f"{text}return wchar_t * (logsumexp(x) - x[{name}])\n"), backend="cpu")
    torch.testing.assert_close(loss(z, y), F.cross_entropy(z, y))


def test_a_cotangent_that_hangs_on_no_entry_of_its_tile() -> None:
    """Of a loss that is linear in the cosines of a large batch: the kernel of its gradient takes no tile of these."""
    torch.manual_seed(0)
    x, y = torch.randn(300, 16, dtype=torch.float64), torch.arange(300) % 7
    found = []
    for backend in ("torch", "cpu"):
        given = x.clone().requires_grad_()
        lossdsl.loss("opl", backend=backend)(given, y).backward()
        found.append(given.grad)
    torch.testing.assert_close(found[1], found[0], rtol=1e-12, atol=1e-15)


def test_a_literal_beyond_int64() -> None:
    spec = lossdsl.loads("loss q\ninput x[N]\ninput k[N]: int\nreturn x + 1e25 + 1e19 * k\n")
    found = lossdsl.loss(spec, backend="cpu", reduction="none")(
        torch.zeros(2, dtype=torch.float64), torch.tensor([3, 9])
    )
    torch.testing.assert_close(found, torch.tensor([1e25 + 3e19, 1e25 + 9e19], dtype=torch.float64), rtol=1e-15, atol=0)
