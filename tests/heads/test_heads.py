"""Linear heads: any row-wise loss by tiles is the loss of hidden · weightᵀ + bias."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
import torch

import lossdsl
from lossdsl.check.heads import HeadError
from lossdsl.source.diagnostic import DiagnosticError
from tests.heads.compare import BOUND, Case, headed, standard
from tests.losses import FIRST, STANDARD


@pytest.mark.parametrize("path", standard(14), ids=lambda p: p.stem)
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_a_head_is_the_loss_of_the_product(path: Path, reduction: str) -> None:
    case = headed(path)
    if case is None:
        return
    for learnt in (False, True):
        assert max(case.differences(reduction, learnt)) <= BOUND


@pytest.fixture(scope="module")
def focal() -> Case:
    case = headed(STANDARD / "focal.loss")
    assert case is not None
    return case


@pytest.mark.parametrize(
    "needs", [n for k in product((0, 1), repeat=3) if (n := [i for i in range(3) if k[i]])], ids=str
)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_only_what_is_needed(focal: Case, needs: list[int], reduction: str) -> None:
    assert max(focal.differences(reduction, needs=needs)) <= BOUND
    given = [x.detach().requires_grad_(i in needs) if x.is_floating_point() else x for i, x in enumerate(focal.tensors)]
    focal.loss(*given, memory=focal.memory).backward()
    assert [i for i in range(3) if given[i].grad is not None] == needs


def test_nothing_needed(focal: Case) -> None:
    assert focal.differences("mean", needs=[]) == [pytest.approx(0, abs=BOUND)]


@pytest.mark.parametrize("options", [{"denominator": "elements"}, {"denominator": 7.5}, {"empty": "nan"}], ids=str)
def test_options_of_the_caller(focal: Case, options: dict[str, object]) -> None:
    assert max(focal.differences("mean", **options)) <= BOUND


def test_a_denominator_that_is_a_tensor(focal: Case) -> None:
    assert max(focal.differences("mean", denominator=torch.tensor(3.0))) <= BOUND


@pytest.mark.parametrize("rows", [1, 2, 5, 12, 13, 100])
def test_every_tile_size(focal: Case, rows: int) -> None:
    assert max(focal.differences("mean", memory=focal.memory // 4 * rows + 1)) <= BOUND


def test_a_wrong_tile_boundary_is_noticed(focal: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    from lossdsl.runtime.factors import Rows

    right = Rows.take

    def wrong(self: Rows, entries: torch.Tensor) -> torch.Tensor:
        return right(self, (entries - 1).clamp_min(0))

    monkeypatch.setattr(Rows, "take", wrong)
    assert max(focal.differences("mean")) > 1e-3


def test_all_rows_ignored() -> None:
    loss = lossdsl.loss("cross_entropy", head="linear", backend="torch", memory=1000)
    hidden, weight = torch.randn(9, 4, requires_grad=True), torch.randn(11, 4, requires_grad=True)
    value = loss(hidden, weight, None, torch.full((9,), -100))
    value.backward()
    assert value.item() == 0
    assert hidden.grad is not None
    assert not hidden.grad.any()
    assert weight.grad is not None
    assert not weight.grad.any()


def test_what_an_ignored_row_holds_reaches_nothing() -> None:
    loss = lossdsl.loss("cross_entropy", head="linear", backend="torch", memory=1000)
    hidden, weight = torch.randn(9, 4), torch.randn(11, 4, requires_grad=True)
    target = torch.randint(0, 11, (9,))
    target[3] = -100
    hidden[3] = float("nan")
    value = loss(hidden, weight, None, target)
    value.backward()
    assert value.isfinite()
    assert weight.grad is not None
    assert weight.grad.isfinite().all()


def test_leading_dimensions_are_rows() -> None:
    loss = lossdsl.loss("cross_entropy", head="linear", backend="torch", memory=2000)
    hidden, weight = torch.randn(3, 5, 4, dtype=torch.float64), torch.randn(11, 4, dtype=torch.float64)
    target = torch.randint(0, 11, (3, 5))
    wanted = torch.nn.functional.cross_entropy((hidden @ weight.t()).flatten(0, 1), target.flatten(), reduction="none")
    torch.testing.assert_close(loss(hidden, weight, None, target, reduction="none").flatten(), wanted)


def test_features_of_pixels_may_stand_second() -> None:
    """hidden (N, D, d1, d2) as a convolution gives it, target (N, d1, d2)."""
    loss = lossdsl.loss("cross_entropy", head="linear", backend="torch", memory=5000)
    hidden = torch.randn(2, 4, 3, 5, dtype=torch.float64, requires_grad=True)
    weight, target = torch.randn(11, 4, dtype=torch.float64, requires_grad=True), torch.randint(0, 11, (2, 3, 5))
    plain = torch.nn.functional.cross_entropy(torch.einsum("ndxy,cd->ncxy", hidden, weight), target, reduction="none")
    found = loss(hidden, weight, None, target, class_dim=1, reduction="none")
    torch.testing.assert_close(found, plain, rtol=1e-12, atol=0)
    for a, b in zip(*(torch.autograd.grad(x.sum(), (hidden, weight)) for x in (found, plain)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14)
    with pytest.raises(ValueError, match="pass class_dim=1 if D is dimension 1 of hidden"):
        loss(hidden, weight, None, target)


def test_half_inputs_are_computed_in_float32() -> None:
    loss = lossdsl.loss("cross_entropy", head="linear", backend="torch", memory=4000)
    hidden = torch.randn(20, 8).bfloat16().requires_grad_()
    weight = torch.randn(33, 8).bfloat16().requires_grad_()
    target = torch.randint(0, 33, (20,))
    value = loss(hidden, weight, None, target)
    value.backward()
    h, w = hidden.detach().double().requires_grad_(), weight.detach().double().requires_grad_()
    exact = torch.nn.functional.cross_entropy(h @ w.t(), target)
    exact.backward()
    assert value.dtype == torch.float32
    assert hidden.grad is not None
    assert hidden.grad.dtype == torch.bfloat16
    torch.testing.assert_close(value.double(), exact, rtol=1e-6, atol=0)
    for found, wanted in ((hidden.grad, h.grad), (weight.grad, w.grad)):  # one rounding, to 8 bits
        torch.testing.assert_close(found.double(), wanted, rtol=2**-8, atol=1e-7)  # type: ignore[union-attr]


# --- twice, and again -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_a_second_backward_is_right(focal: Case, reduction: str) -> None:
    given = [x.detach().requires_grad_(i < 3) if x.is_floating_point() else x for i, x in enumerate(focal.tensors)]
    value = focal.loss(*given, reduction=reduction, memory=focal.memory)
    up = torch.ones_like(value)
    first = torch.autograd.grad(value, given[:3], 2.5 * up, retain_graph=True)
    kept = [g.clone() for g in first]
    second = torch.autograd.grad(value, given[:3], 2.5 * up)
    for a, b, c in zip(kept, second, first, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-15)
        assert torch.equal(a, c)  # what the first gave is still what it was


def test_a_double_backward_is_right(focal: Case) -> None:
    given = [x.detach().requires_grad_(i < 3) if x.is_floating_point() else x for i, x in enumerate(focal.tensors)]

    def curvature(loss: object) -> list[torch.Tensor]:
        value = loss(*given)  # type: ignore[operator]
        grads = torch.autograd.grad(value, given[:3], create_graph=True)
        total = torch.stack([g.square().sum() for g in grads]).sum()
        return list(torch.autograd.grad(total, given[:3]))

    found = curvature(lambda *x: focal.loss(*x, memory=focal.memory))
    for a, b in zip(found, curvature(focal.whole), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)


def test_the_same_bits_every_time(focal: Case) -> None:
    given = [x.detach().requires_grad_(i < 3) if x.is_floating_point() else x for i, x in enumerate(focal.tensors)]
    runs = [torch.autograd.grad(focal.loss(*given, memory=focal.memory), given[:3]) for _ in range(3)]
    assert all(torch.equal(a, b) for run in runs[1:] for a, b in zip(run, runs[0], strict=True))


def test_an_input_changed_before_backward_is_an_error(focal: Case) -> None:
    given = [x.detach().requires_grad_(i < 2) if x.is_floating_point() else x for i, x in enumerate(focal.tensors)]
    value = focal.loss(*given, memory=focal.memory)
    with torch.no_grad():
        given[1].add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        value.backward()


# --- two heads --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["kd_kl", "reverse_kl", "jsd", "tvd"])
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_two_heads(name: str, reduction: str) -> None:
    checked = lossdsl.load(name).checked
    pair = [i.name for i in checked.inputs][:2]
    loss = lossdsl.loss(name, head=dict.fromkeys(pair, "linear"), backend="torch")
    plain = lossdsl.loss(name, backend="torch")
    g = torch.Generator().manual_seed(1)
    shapes = ((13, 5), (7, 5), (7,), (13, 4), (7, 4), (7,))
    tensors = tuple(torch.randn(*s, dtype=torch.float64, generator=g) for s in shapes)

    def whole(*x: torch.Tensor, **options: object) -> torch.Tensor:
        value: torch.Tensor = plain(x[0] @ x[1].t() + x[2], x[3] @ x[4].t() + x[5], **options)
        return value

    needs = tuple(range(6 if not checked.inputs[1].fixed else 3))
    case = Case(loss, whole, tensors, needs, {})
    for some in (needs, needs[:3], needs[3:]):  # both heads, or one that has a gradient alone
        assert max(case.differences(reduction, needs=some)) <= BOUND


# --- what can't be ----------------------------------------------------------------------------------------------------


def test_a_cap_too_small_for_a_row_says_the_least_that_works(focal: Case) -> None:
    with pytest.raises(ValueError, match=r"too little for one row .* the least that works is (\d+)") as caught:
        focal.loss(*focal.tensors, memory=100)
    least = int(str(caught.value).rsplit(" ", 1)[1])
    assert focal.differences("mean", memory=least)[0] <= BOUND
    with pytest.raises(ValueError, match="too little"):
        focal.loss(*focal.tensors, memory=least - 1)


@pytest.mark.parametrize("memory", ["64 parsecs", "", 0, -1, 2.5, "MiB"])
def test_a_cap_that_means_nothing(memory: object) -> None:
    with pytest.raises(ValueError, match="memory is a number of bytes"):
        lossdsl.loss("focal", head="linear", backend="torch", memory=memory)


def test_memory_where_there_is_no_matrix() -> None:
    with pytest.raises(TypeError, match="focal takes no memory: that is for tiles"):
        lossdsl.loss("focal", backend="torch", memory="1MiB")


def test_sizes_that_do_not_bind() -> None:
    loss = lossdsl.loss("focal", head="linear", backend="torch")
    with pytest.raises(ValueError, match="D = 4 from hidden, but weight has 5"):
        loss(torch.randn(3, 4), torch.randn(6, 5), None, torch.tensor([0, 1, 2]))


@pytest.mark.parametrize(
    ("name", "head", "message"),
    [
        ("focal", "affine", "a head is \"linear\", not 'affine'"),
        ("focal", {"logit": "linear"}, "no logits 'logit' that a head could give; it has logits"),
        ("bce", {"": "linear"}, "no input logits"),
    ],
)
def test_heads_that_a_loss_can_not_have(name: str, head: object, message: str) -> None:
    if name == "bce" and headed(STANDARD / "bce.loss") is not None:
        return
    with pytest.raises(HeadError, match=message):
        lossdsl.loss(name, head=head, backend="torch")


def test_a_loss_that_needs_all_rows_names_the_expression() -> None:
    text = (
        "loss sorted_scores\ninput logits[N, C]\ninput target[N]: index C\n"
        "pi = descending[N -> K](logits)\nreturn mean[C](sum[K](logits[pi] * K))\n"
    )
    with pytest.raises(DiagnosticError) as caught:
        lossdsl.loss(lossdsl.loads(text), head="linear", backend="torch")
    (found,) = caught.value.diagnostics
    assert found.code == "E0803"
    span = found.labels[0].span
    assert text[span.start : span.end] == "logits[pi]"
    assert "all rows of the matrix at once" in found.labels[0].text


def test_the_first_twenty_have_heads() -> None:
    without = [name for name in FIRST if headed(STANDARD / f"{name}.loss") is None]
    assert without == ["bce", "sigmoid_focal"]  # of logits[N]


# --- modules ----------------------------------------------------------------------------------------------------------


def test_a_standalone_module_holds_its_tiles_and_no_other_does() -> None:
    from lossdsl.api import registry, source_of
    from lossdsl.pipeline import build

    source = source_of("focal")
    plain = build(source, registry(), "torch", standalone=True).artifact
    headed = build(source, registry(), "torch", standalone=True, modes={"head": "linear"}).artifact
    assert not any(f"class {word}" in plain.text for word in ("Tiling", "Matrix", "Columns", "StepSpec"))
    assert "from lossdsl" not in headed.text
    assert "import lossdsl" not in headed.text
    for backend in ("cpu", "triton"):  # no name is defined twice
        if backend in registry().backends:
            assert "class Tiling" in build(source_of("clip_loss"), registry(), backend, standalone=True).artifact.text
    loss = headed.load().Focal(memory=3000)
    h, w = torch.randn(20, 4, requires_grad=True), torch.randn(33, 4, requires_grad=True)
    y = torch.randint(0, 33, (20,))
    found = torch.autograd.grad(loss(h, w, None, y), (h, w))
    wanted = torch.autograd.grad(plain.load().Focal()(h @ w.t(), y), (h, w))
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-7)  # float32, sums in another order


def test_a_class_that_no_row_has_is_no_error() -> None:
    """The determinant of joint counts is 0 then, and so is its gradient by what is there: the row of the adjugate that
    isn't 0 belongs to the class that no row has."""
    loss = lossdsl.loss("dmi", head="linear", backend="torch", memory=200)
    hidden, weight = torch.randn(9, 5), torch.randn(4, 5, requires_grad=True)
    value = loss(hidden, weight, None, torch.arange(9) % 3, eps=1e-3)
    (grad,) = torch.autograd.grad(value, weight)
    assert value.item() == pytest.approx(6.907755, abs=1e-5)  # -log(eps)
    assert not grad.any()
