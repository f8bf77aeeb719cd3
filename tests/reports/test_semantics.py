"""Public bug reports about what a loss means (denominators, targets, shapes), as tests of the right value."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import lossdsl
from tests.reports.test_numerics import run, same


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("empty", ["zero", "nan"])
def test_every_target_ignored(reduction: str, empty: str) -> None:
    """pytorch 70348, ultralytics 26012: a zero that is connected to the graph, or NaN by choice; the gradient is 0."""
    z = torch.full((2, 3), math.nan, requires_grad=True)
    value = lossdsl.loss("cross_entropy", reduction=reduction, empty=empty, backend="torch")(
        z, torch.tensor([-100, -100])
    )
    assert value.requires_grad
    expected = math.nan if (reduction, empty) == ("mean", "nan") else 0.0
    torch.testing.assert_close(value.detach(), torch.full_like(value, expected), equal_nan=True)
    (grad,) = torch.autograd.grad(value.sum(), z)
    assert torch.equal(grad, torch.zeros_like(z))


def test_an_empty_batch() -> None:
    """pytorch 50224, 15870: multi_margin_loss returned uninitialised memory."""
    y = torch.zeros(0, dtype=torch.long)
    for name in ("cross_entropy", "focal", "brier", "jsd"):
        for reduction, shape in (("mean", ()), ("sum", ()), ("none", (0,))):
            z = torch.zeros(0, 3, requires_grad=True)
            other = torch.zeros(0, 3) if name == "jsd" else y
            values = [lossdsl.loss(name, reduction=reduction, backend="torch")(z, other) for _ in range(20)]
            assert all(v.shape == shape and torch.equal(v, torch.zeros(shape)) for v in values)
            assert torch.autograd.grad(values[0].sum(), z)[0].shape == (0, 3)


def test_a_batch_without_targets_reaches_every_parameter() -> None:
    """RT-DETR 684: a detached zero makes the ranks of a data-parallel job wait for each other."""
    model = torch.nn.Linear(4, 3)
    loss = lossdsl.loss("cross_entropy", backend="torch")(model(torch.randn(2, 4)), torch.tensor([-100, -100]))
    grads = torch.autograd.grad(loss, list(model.parameters()))
    assert all(torch.equal(g, torch.zeros_like(g)) for g in grads)


LOGITS, TARGET, WEIGHT = [[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]], [2, 0], [1.0, 2.0, 3.0]


def test_the_denominator_of_a_weighted_mean() -> None:
    """pytorch 54843: both denominators, by name; none and sum hold the weighted terms."""
    rows, _ = run("weighted_cross_entropy", LOGITS, TARGET, WEIGHT, reduction="none")
    same(rows, [1.222817893, 1.098612289])
    value, (grad, *_) = run("weighted_cross_entropy", LOGITS, TARGET, WEIGHT)
    same(value, 0.580357546, rtol=1e-8)
    z = torch.tensor(LOGITS, dtype=torch.float64, requires_grad=True)
    weight = torch.tensor(WEIGHT, dtype=torch.float64)
    torch_value = F.cross_entropy(z, torch.tensor(TARGET), weight=weight)
    torch.testing.assert_close(grad, torch.autograd.grad(torch_value, z)[0], rtol=1e-12, atol=1e-15)
    value, _ = run("weighted_cross_entropy", LOGITS, TARGET, WEIGHT, denominator="elements")
    same(value, 1.160715091, rtol=1e-8)
    value, _ = run("weighted_cross_entropy", LOGITS, [2, -100], WEIGHT)
    same(value, 0.407605964, rtol=1e-8)
    value, (grad, *_) = run("weighted_cross_entropy", LOGITS, TARGET, [0.0, 2.0, 0.0])
    assert value == 0
    assert torch.equal(grad, torch.zeros_like(grad))


SMOOTHED = """
loss smoothed
input logits[N, C]
input target[N]: index C
input w[C]: fixed
param eps = 0.1
logp = log_softmax(logits)
return mean[N](RESULT)
"""


def test_smoothing_with_class_weights() -> None:
    """pytorch 104776: the weight of each class term, and the weight of the sample, are two losses."""
    term = "-((1 - eps) * w[target] * logp[target] + eps * mean[C](w * logp)) / w[target] weighted w[target]"
    sample = "-((1 - eps) * logp[target] + eps * mean[C](logp)) weighted w[target]"
    tensors = torch.tensor(LOGITS, dtype=torch.float64), torch.tensor(TARGET), torch.tensor(WEIGHT, dtype=torch.float64)
    for result, expected in ((term, 0.630966037), (sample, 0.655357546)):
        spec = lossdsl.loads(SMOOTHED.replace("RESULT", result))
        same(lossdsl.loss(spec, backend="torch")(*tensors), expected, rtol=1e-8)
    spec = lossdsl.loads(SMOOTHED.replace("RESULT", term))
    rows = lossdsl.loss(spec, backend="torch", reduction="none")(*tensors)
    same(rows, [1.315390630, 1.208473518], rtol=1e-8)


def test_the_two_formulas_of_label_smoothing() -> None:
    """fastai 1814, Megatron-LM 737: eps over all classes, or over the others; the file says which."""
    text = """
loss smoothing_others
input logits[N, C]
input target[N]: index C
param eps = 0.1 in [0, 1]
logp = log_softmax(logits)
return -(1 - eps) * logp[target] - eps * mean[C](logp where C != target)
"""
    others = lossdsl.loss(lossdsl.loads(text), backend="torch")
    for logits, every, rest in (
        ([[2.0, 0.0]], 0.226928011, 0.326928011),
        ([[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]], 7.108339626, 7.058339626),
    ):
        same(run("label_smoothing_ce", logits, [0])[0], every, rtol=1e-8)
        # eps over the others alone: (1 - eps) at the target, eps / (C - 1) at each other
        same(others(torch.tensor(logits, dtype=torch.float64), torch.tensor([0])), rest, rtol=1e-8)


@pytest.mark.parametrize(("a", "expected"), [(1.0, 1.098612289), (0.0, 0.861994804), (-math.inf, 0.693147181)])
def test_an_ignored_target_that_is_a_class(a: float, expected: float) -> None:
    """pytorch 63004: ignore_index leaves out rows, not a class; leaving out a class is `axis C where`."""
    z, y = [[a, 1.0, 1.0], [a, 1.0, 1.0]], [1, 2]
    same(run("cross_entropy", z, y, ignore_index=0)[0], expected, rtol=1e-8)
    text = """
loss without_classes
input logits[N, C]
input target[N]: index C
input active[C]: bool
axis C where active
return logsumexp(logits) - logits[target]
"""
    active = torch.tensor([False, True, True])
    value = lossdsl.loss(lossdsl.loads(text), backend="torch")(
        torch.tensor(z, dtype=torch.float64), torch.tensor(y), active
    )
    same(value, math.log(2))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("extra", [(), (3,)])
def test_targets_of_every_integer_type(dtype: torch.dtype, extra: tuple[int, ...]) -> None:
    """pytorch 89369."""
    torch.manual_seed(0)
    z = torch.randn(4, 5, *extra)
    y = torch.randint(0, 5, (4, *extra))
    options = {"ignore_index": 255} if dtype == torch.uint8 else {}
    value = lossdsl.loss("cross_entropy", backend="torch", **options)(z, y.to(dtype))
    torch.testing.assert_close(value, F.cross_entropy(z, y), rtol=1e-6, atol=0)


def test_an_ignore_index_that_a_type_cannot_hold() -> None:
    """pytorch 89369: uint8 wraps -100 to 156, so that it could never match."""
    z = torch.randn(2, 3)
    with pytest.raises((ValueError, TypeError), match="ignore_index"):
        lossdsl.loss("cross_entropy", backend="torch", ignore_index=-100)(z, torch.tensor([0, 1], dtype=torch.uint8))


def test_a_bool_target_is_a_label() -> None:
    """pytorch 89369: BCE with a bool target raised an unrelated message."""
    z = torch.tensor([0.5, -1.0])
    value = lossdsl.loss("bce", backend="torch")(z, torch.tensor([True, False]))
    torch.testing.assert_close(value, F.binary_cross_entropy_with_logits(z, torch.tensor([1.0, 0.0])))


def test_gradient_accumulation_divides_by_the_whole() -> None:
    """transformers 46731: a mean of means is not the mean; the caller gives the number of tokens."""
    text = "loss identity\ninput x[N]\nreturn mean[N](x)\n"
    spec = lossdsl.loads(text)
    parts = [torch.ones(3), torch.full((1,), 5.0)]
    for total in (4, torch.tensor(4)):
        loss_fn = lossdsl.loss(spec, backend="torch", denominator=total)
        assert sum(loss_fn(x) for x in parts).item() == 2.0
    assert lossdsl.loss(spec, backend="torch")(parts[0], denominator=2).item() == 1.5
    assert lossdsl.loss(spec, backend="torch", denominator=0)(parts[0]).item() == 0.0


def test_a_column_against_a_row_is_an_error() -> None:
    """pytorch 16045: (N, 1) against (N,) broadcast to (N, N) in silence."""
    with pytest.raises(ValueError, match=r"(?s)target.*\(3, 1\)|\(3, 1\).*target"):
        lossdsl.loss("bce", backend="torch")(torch.zeros(3), torch.zeros(3, 1))
    with pytest.raises(ValueError, match="31"):
        lossdsl.loss("cross_entropy", backend="torch")(torch.zeros(32, 5), torch.zeros(31, dtype=torch.long))


def test_a_divergence_sums_over_its_classes() -> None:
    """pytorch 2259: the mean over all elements is 1/C of the divergence."""
    q = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]], dtype=torch.float64)
    p = torch.tensor([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]], dtype=torch.float64)
    loss_fn = lossdsl.loss("kd_kl", t=1.0, backend="torch")
    same(loss_fn(p.log(), q.log()), 0.088319524, rtol=1e-8)
    same(loss_fn(p.log(), q.log(), reduction="sum"), 0.176639048, rtol=1e-8)


def test_soft_targets_are_checked_on_request() -> None:
    """pytorch 152437: kind `prob` is assumed, and verified with check=True."""
    text = "loss soft\ninput z[N, C]\ninput q[N, C]: prob C fixed\nreturn -sum[C](q * log_softmax(z))\n"
    loss_fn = lossdsl.loss(lossdsl.loads(text), backend="torch")
    z = torch.zeros(1, 3)
    loss_fn(z, torch.tensor([[0.5, 0.0, 0.0]]))
    for bad in ([0.5, 0.0, 0.0], [1.5, -0.5, 0.0]):
        with pytest.raises(ValueError, match="q"):
            loss_fn(z, torch.tensor([bad]), check=True)


def test_an_anchor_without_a_positive() -> None:
    """SupContrast 141: NaN for those anchors; they don't count."""
    text = """
loss supcon
input z[N, D]
input y[N]: label
param tau = 0.1 in (0, inf)
s    = cosine[D](z, z') / tau
pos  = y == y' and N != N'
logp = s - logsumexp[N'](s where N != N')
return mean[N](-mean[N'](logp where pos) where any[N'](pos))
"""
    f = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [-1.0, 0.0]], dtype=torch.float64, requires_grad=True)
    loss_fn = lossdsl.loss(lossdsl.loads(text), tau=0.8, backend="torch")
    y = torch.tensor([0, 1, 1, 3])
    rows = loss_fn(f, y, reduction="none")
    same(rows.detach(), [0.0, 0.551445, 0.669149, 0.0], rtol=1e-5)
    value = loss_fn(f, y)
    same(value.detach(), 0.610296794, rtol=1e-8)
    assert torch.isfinite(torch.autograd.grad(value, f)[0]).all()
    same(loss_fn(f, y, denominator="elements").detach(), 0.305148397, rtol=1e-8)
    assert loss_fn(f, torch.tensor([0, 1, 2, 3])).item() == 0.0


def test_one_class() -> None:
    """T-Rex 105: a softmax over one class is constant."""
    value, (grad,) = run("cross_entropy", [[0.7], [-3.0]], [0, 0])
    assert value == 0
    assert torch.equal(grad, torch.zeros_like(grad))


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [("label_smoothing_ce", "eps", -0.1), ("label_smoothing_ce", "eps", 1.5), ("focal", "gamma", -1.0)],
)
def test_parameters_outside_their_interval(name: str, option: str, value: float) -> None:
    """A smoothing of -0.1 was taken for 0 in silence."""
    with pytest.raises(ValueError, match=option):
        lossdsl.loss(name, backend="torch", **{option: value})
    loss_fn = lossdsl.loss(name, backend="torch")
    with pytest.raises(ValueError, match=option):
        setattr(loss_fn, option, value)


def test_class_weights_of_another_type_or_length() -> None:
    """float64 weights with float32 logits raised; a weight for each class is needed."""
    loss_fn = lossdsl.loss("weighted_cross_entropy", backend="torch")
    z, y = torch.randn(4, 3), torch.tensor([0, 1, 2, 0])
    expected = F.cross_entropy(z.double(), y, weight=torch.tensor([1.0, 2.0, 3.0]).double())
    value = loss_fn(z, y, torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64))
    torch.testing.assert_close(value.double(), expected, rtol=1e-6, atol=0)
    with pytest.raises(ValueError, match="class_weight"):
        loss_fn(z, y, torch.tensor([1.0, 2.0]))


def test_an_expanded_upstream_gradient() -> None:
    """TransformerEngine ROCm 623: a gradient of stride 0 was read past its end."""
    torch.manual_seed(0)
    z = torch.randn(6, 4, dtype=torch.float64)
    y = torch.randint(0, 4, (6,))
    loss_fn = lossdsl.loss("focal", reduction="none", backend="torch")
    for upstream in (
        torch.ones(1, dtype=torch.float64).expand(6),
        torch.arange(12, dtype=torch.float64)[::2],
        torch.arange(6, dtype=torch.float64),
    ):
        a = z.clone().requires_grad_()
        (grad,) = torch.autograd.grad(loss_fn(a, y), a, upstream)
        b = z.clone().requires_grad_()
        p = b.softmax(-1).gather(-1, y[:, None])[:, 0]
        (expected,) = torch.autograd.grad(-((1 - p) ** 2) * p.log(), b, upstream)
        torch.testing.assert_close(grad, expected, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("classes", [1, 2, 3, 127, 128, 129, 1000, 1025, 50_257, 65_537, 151_936])
def test_any_number_of_classes(classes: int) -> None:
    """verl 2899, unsloth 19: padded lanes were counted, and there was a largest vocabulary."""
    z = torch.zeros(2, classes, requires_grad=True)
    value = lossdsl.loss("cross_entropy", backend="torch")(z, torch.tensor([0, classes - 1]))
    same(value.detach(), math.log(classes), rtol=1e-6)
    (grad,) = torch.autograd.grad(value, z)
    expected = (1 / classes - F.one_hot(torch.tensor([0, classes - 1]), classes).double()) / 2
    torch.testing.assert_close(grad.double(), expected, rtol=1e-6, atol=1e-12)


def test_a_loss_without_a_gradient_says_so(tmp_path: Path) -> None:
    """A file that only counts can't train anything: the message names the operation and the line."""
    text = "loss accuracy\ninput logits[N, C]\ninput target[N]: index C\nreturn argmax[C](logits) == target\n"
    path = tmp_path / "accuracy.loss"
    path.write_text(text)
    report = lossdsl.check(path)
    assert any("gradient" in d.message for d in report)
