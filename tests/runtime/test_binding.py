"""What a call may pass, and what is said of one that it may not."""

from __future__ import annotations

import pytest
import torch
from handmade import Focal
from handmade_others import BCE, Dice, WeightedCE

from lossdsl.runtime.mismatch import BindingError

F = torch.nn.functional


def test_a_size_that_does_not_bind_names_both_and_shows_the_table():
    with pytest.raises(BindingError) as info:
        Focal()(torch.randn(32, 10), torch.zeros(31, dtype=torch.long))
    text = str(info.value)
    assert text.startswith("focal: N = 32 from logits, but target has 31")
    assert "C = 10 from logits, dimension 1" in text
    assert "target[N] is (31,), torch.int64" in text


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_targets_of_any_integer_dtype(dtype):
    z, y = torch.randn(4, 5), torch.tensor([0, 4, 2, 1])
    torch.testing.assert_close(Focal()(z, y.to(dtype)), Focal()(z, y), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64])
@pytest.mark.parametrize("count", [3, 300])
def test_unsigned_integers_that_torch_hardly_has_are_refused(dtype, count):
    y = (torch.arange(count) % 4).to(dtype)
    word = str(dtype).removeprefix("torch.")
    with pytest.raises(TypeError, match=rf"focal: target is {word}, .*pass target\.long\(\)"):
        Focal()(torch.randn(count, 5), y)


def test_uint8_never_equals_a_negative_ignored_index():
    z, y = torch.randn(4, 5), torch.tensor([0, 4, 2, 1], dtype=torch.uint8)
    for call in (lambda: Focal(ignore_index=-100)(z, y), lambda: Focal()(z, y, ignore_index=-1)):
        with pytest.raises(ValueError, match=r"uint8 and never equals ignore_index"):
            call()
    torch.testing.assert_close(Focal(ignore_index=1)(z, y), Focal()(z[:3], y[:3]))


def test_wrong_dtypes_say_what_to_pass():
    z, y = torch.randn(4, 5), torch.tensor([0, 4, 2, 1])
    with pytest.raises(TypeError, match=r"target holds class indices, but the tensor is torch.float32: .*\.long\(\)"):
        Focal()(z, y.float())
    with pytest.raises(TypeError, match=r"logits holds real numbers.*torch.int64"):
        Focal()(torch.ones(4, 5, dtype=torch.long), y)
    with pytest.raises(TypeError, match=r"y is true or false, but the tensor is torch.float32: pass y > 0"):
        Dice()(torch.randn(4), torch.rand(4))
    with pytest.raises(TypeError, match="complex"):
        Focal()(z.to(torch.complex64), y)
    with pytest.raises(TypeError, match=r"logits\[N, C\] is a tensor, not list"):
        Focal()(z.tolist(), y)
    with pytest.raises(TypeError, match="logits is missing"):
        Focal()(None, y)


def test_bools_and_integers_where_they_mean_a_number():
    z, t = torch.randn(6), torch.tensor([True, False, True, True, False, False])
    expected = F.binary_cross_entropy_with_logits(z, t.float())
    for target in (t, t.int(), t.to(torch.uint8), t.float()):
        torch.testing.assert_close(BCE()(z, target), expected)
    torch.testing.assert_close(Dice()(z, t.int()), Dice()(z, t))


def test_further_dimensions_join_the_batch():
    z = torch.randn(2, 5, 3, 4, requires_grad=True)
    y = torch.randint(0, 5, (2, 3, 4))
    y[0, 1] = -100
    loss = WeightedCE()
    plain = z.permute(0, 2, 3, 1).reshape(-1, 5)
    focal = Focal()
    rows = focal(z, y, reduction="none")
    assert rows.shape == (2, 3, 4)
    torch.testing.assert_close(rows.reshape(-1), focal(plain, y.reshape(-1), reduction="none"))
    torch.testing.assert_close(focal(z, y), focal(plain, y.reshape(-1)))
    torch.testing.assert_close(torch.autograd.grad(focal(z, y), z), torch.autograd.grad(focal(plain, y.reshape(-1)), z))
    last = z.permute(0, 2, 3, 1)
    torch.testing.assert_close(focal(last, y, class_dim=-1), focal(z, y))
    torch.testing.assert_close(Focal(class_dim=-1)(last, y, reduction="none"), rows)
    y = y.clamp(0)
    w = torch.rand(5)
    torch.testing.assert_close(loss(z, y, w), F.cross_entropy(z, y, w))
    torch.testing.assert_close(focal(z[:0], y[:0]), torch.tensor(0.0))


def test_a_loss_of_the_batch_axis_alone_takes_any_shape():
    for shape in [(), (7,), (2, 3), (2, 1, 4), (0, 3)]:
        z, t = torch.randn(shape), torch.rand(shape)
        rows = BCE()(z, t, reduction="none")
        assert rows.shape == shape
        torch.testing.assert_close(rows, F.binary_cross_entropy_with_logits(z, t, reduction="none"))


def test_a_column_against_a_vector_is_an_error_with_both_ways_out():
    with pytest.raises(BindingError) as info:
        BCE()(torch.randn(5, 1), torch.rand(5))
    assert "N = 5×1 from logits, but target has 5" in str(info.value)
    assert "pass logits.squeeze(-1), or target.unsqueeze(-1)" in str(info.value)
    with pytest.raises(BindingError, match=r"pass target.squeeze\(-1\), or logits.unsqueeze\(-1\)"):
        Focal()(torch.randn(5, 3), torch.zeros(5, 1, dtype=torch.long))


def test_classes_in_the_last_dimension_get_a_hint():
    with pytest.raises(BindingError, match="class_dim=-1"):
        Focal()(torch.randn(2, 7, 5), torch.zeros(2, 7, dtype=torch.long))
    with pytest.raises(ValueError, match="class_dim is 1 or -1, not 0"):
        Focal()(torch.randn(2, 5), torch.zeros(2, dtype=torch.long), class_dim=0)


def test_one_sample_without_the_batch_axis():
    with pytest.raises(BindingError, match=r"for one N alone, pass logits\[None\], target\[None\]"):
        Focal()(torch.randn(5), torch.tensor(2))
    with pytest.raises(BindingError) as info:
        Focal()(torch.randn(5), torch.zeros(5, dtype=torch.long))
    assert "alone" not in str(info.value)


def test_too_few_dimensions():
    with pytest.raises(BindingError, match=r"logits\[N, C\] has 2 dimensions, but the tensor has shape \(5,\)"):
        Focal()(torch.randn(5), torch.zeros(5, dtype=torch.long))
    with pytest.raises(BindingError, match=r"w\[C\] has 1 dimension, but the tensor has shape \(5, 1\)"):
        WeightedCE()(torch.randn(4, 5), torch.zeros(4, dtype=torch.long), torch.rand(5, 1))


def test_an_index_out_of_range_names_row_value_and_number_of_classes():
    y = torch.tensor([0, 1, 2, 7])
    with pytest.raises(IndexError, match=r"focal: target\[3\] = 7, but logits has 5 classes \(0..4\)"):
        Focal()(torch.randn(4, 5), y)
    with pytest.raises(IndexError, match=r"target\[1\] = -1, but logits has 5"):
        Focal()(torch.randn(4, 5), torch.tensor([-100, -1, 0, 0]))
    y = torch.zeros(2, 2, 3, dtype=torch.long)
    y[1, 0, 2] = 5
    with pytest.raises(IndexError, match=r"target\[1, 0, 2\] = 5"):
        Focal()(torch.randn(2, 5, 2, 3), y)


def test_an_index_out_of_range_is_nan_in_its_row_where_nothing_can_be_raised():
    z, y = torch.randn(3, 4, 5), torch.tensor([0, 1, 9, -100])
    rows = torch.func.vmap(lambda z: Focal(reduction="none")(z, y))(z)
    assert rows.isnan().tolist() == [[False, False, True, False]] * 3
    grads = torch.func.vmap(torch.func.grad(lambda z: Focal()(z, y)))(z)
    assert grads[:, 2].isnan().all()
    step = torch.compile(lambda z: Focal(reduction="none")(z, y), backend="eager", fullgraph=True)
    assert step(z[0]).isnan().tolist() == [False, False, True, False]


def test_defaults_fill_their_axes():
    z, y = torch.randn(4, 5), torch.tensor([0, 4, 2, 1])
    torch.testing.assert_close(WeightedCE()(z, y), F.cross_entropy(z, y))


def test_strides():
    z = torch.randn(5, 12).t()[::2]
    y = torch.randint(0, 5, (12,))[::2]
    torch.testing.assert_close(Focal()(z, y), Focal()(z.contiguous(), y.contiguous()))
    wide = torch.randn(1, 5).expand(6, 5)
    torch.testing.assert_close(Focal()(wide, y), Focal()(wide.contiguous(), y))


def test_check_scans_values():
    z = torch.randn(4, 3)
    y = torch.tensor([0, 1, 2, 0])
    z[2, 1] = float("nan")
    with pytest.raises(ValueError, match=r"logits\[2, 1\] = nan is not a finite number or -inf"):
        Focal()(z, y, check=True)
    z[2, 1] = -float("inf")
    Focal()(z, y, check=True)
    with pytest.raises(ValueError, match=r"target\[1\] = 1.5 is not in \[0, 1\]"):
        BCE()(torch.randn(2), torch.tensor([0.5, 1.5]), check=True)


def test_different_devices():
    with pytest.raises(ValueError, match="different devices: logits on cpu, target on meta"):
        Focal()(torch.randn(4, 5), torch.zeros(4, dtype=torch.long, device="meta"))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda x: x.to_sparse(), r"logits is sparse_coo, not strided: pass logits.to_dense\(\)"),
        (lambda x: torch.nested.nested_tensor([x]), r"logits is nested, not strided: pass logits.to_padded_tensor"),
    ],
)
def test_what_isnt_strided_is_told_so(made, words):
    with pytest.raises(TypeError, match=words):
        Focal()(made(torch.randn(3, 4)), torch.tensor([0, 1, 2]))


def test_a_view_with_its_sign_turned():
    """What .imag of a conjugate is: -x in the memory of x, which kernels would read as x."""
    z = torch.randn(6, 5, dtype=torch.complex128).conj().imag
    y = torch.tensor([0, 1, 2, 3, -100, 4])
    assert z.is_neg()
    plain = z.clone().requires_grad_()
    assert not plain.is_neg()
    loss = Focal()
    for _ in range(2):  # a call is remembered by what its arguments are like
        torch.testing.assert_close(loss(z, y), loss(plain, y))
    turned = z.detach().requires_grad_()
    up = torch.randn(6, dtype=torch.complex128).conj().imag
    (found,) = torch.autograd.grad(loss(turned, y, reduction="none"), turned, up)
    torch.testing.assert_close(found, torch.autograd.grad(loss(plain, y, reduction="none"), plain, up.clone())[0])
