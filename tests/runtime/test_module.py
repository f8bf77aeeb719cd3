"""What the module is to its owner: params, copies, state, text."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
from handmade import FOCAL, Compiled, Focal, Loss
from handmade_others import WeightedCE

from lossdsl.runtime.signature import InputSpec, KernelSpec, ParamSpec, Signature


@pytest.fixture
def batch():
    return torch.randn(6, 5, dtype=torch.float64), torch.tensor([0, 1, 2, 3, -100, 4])


def test_a_param_that_is_no_number_is_told_by_its_name() -> None:
    with pytest.raises(TypeError, match="gamma is a number or a tensor, not 'two'"):
        Focal()(torch.zeros(2, 3), torch.tensor([0, 1]), gamma="two")


def test_params_are_assigned_and_overridden(batch):
    loss = Focal(gamma=1.0)
    at_three = loss(*batch, gamma=3.0)
    loss.gamma = 3.0
    assert loss.gamma.dtype == torch.float64
    assert loss.gamma.shape == ()
    torch.testing.assert_close(loss(*batch), at_three, rtol=0, atol=0)
    loss.gamma = torch.tensor(3)
    torch.testing.assert_close(loss(*batch), at_three, rtol=0, atol=0)
    torch.testing.assert_close(loss(*batch, gamma=torch.tensor(3.0)), at_three, rtol=0, atol=0)
    loss.ignore_index = 0
    torch.testing.assert_close(loss(batch[0][1:4], batch[1][1:4]), Focal(gamma=3)(batch[0][1:4], batch[1][1:4]))
    with pytest.raises(IndexError, match="-100"):
        loss(*batch)


def test_a_tensor_that_requires_a_gradient_gets_one(batch):
    gamma = torch.tensor(2.0, requires_grad=True)
    loss = Focal(gamma=gamma)
    loss(*batch).backward()
    eps = 1e-6
    slope = (Focal(gamma=2 + eps)(*batch) - Focal(gamma=2 - eps)(*batch)) / (2 * eps)
    torch.testing.assert_close(gamma.grad.double(), slope, rtol=1e-6, atol=0)
    assert gamma.grad.dtype == torch.float32


def test_intervals_are_checked_when_set(batch):
    match = r"gamma = -1 is not in \[0, inf\)"
    loss = Focal()
    for act in (
        lambda: Focal(gamma=-1),
        lambda: setattr(loss, "gamma", -1.0),
        lambda: loss(*batch, gamma=-1.0),
        lambda: loss(*batch, gamma=torch.tensor(-1.0)),
    ):
        with pytest.raises(ValueError, match=match):
            act()
    assert loss.gamma == 2.0
    with pytest.raises(ValueError, match="not in"):
        loss.gamma = float("nan")
    with pytest.raises(ValueError, match="gamma is a number, not of shape"):
        loss.gamma = torch.ones(3)
    with pytest.raises(TypeError, match="ignore_index is an integer"):
        loss(*batch, ignore_index=1.5)


def test_copies_pickles_and_files(batch):
    loss = Focal(gamma=0.7, reduction="sum", ignore_index=2)
    expected = loss(batch[0], batch[1].clamp(0))
    buffer = io.BytesIO()
    torch.save(loss, buffer)
    buffer.seek(0)
    for other in (
        copy.deepcopy(loss),
        pickle.loads(pickle.dumps(loss)),
        torch.load(buffer, weights_only=False),
    ):
        torch.testing.assert_close(other(batch[0], batch[1].clamp(0)), expected, rtol=0, atol=0)
        other.gamma = 5.0
    assert loss.gamma == 0.7


def test_moving_and_halving_keeps_params_in_full(batch):
    loss = Focal(gamma=0.1).to("meta")
    assert loss.gamma.device.type == "meta"
    loss = torch.nn.Sequential(Focal(gamma=0.1)).half()[0]
    assert loss.gamma == 0.1
    assert loss.gamma.dtype == torch.float64


def test_the_state_dict_is_that_of_a_loss_without_weights():
    loss = Focal()
    assert list(loss.state_dict()) == []
    loss.load_state_dict({})
    assert list(loss.parameters()) == []
    assert {name for name, _ in loss.named_buffers()} == {"gamma", "ignore_index"}


def test_the_text_shows_equation_and_params():
    assert str(Focal(gamma=1.5, denominator="elements", class_dim=-1)) == (
        "Focal(\n"
        "  -(1 - softmax[C](logits)[target])^gamma * log(softmax[C](logits)[target])\n"
        "  gamma=1.5, ignore_index=-100, reduction='mean', denominator='elements', class_dim=-1, backend='torch'\n"
        ")"
    )


def scaled(bounds, learnable=True):
    signature = Signature(
        name=f"scaled_{abs(hash(bounds))}",
        equation="scale * x^2",
        inputs=(InputSpec("x", ("N",)),),
        params=(ParamSpec("scale", default=1.5, bounds=bounds, learnable=learnable),),
        batch=("N",),
        reduction="mean",
        rowwise=True,
        fold="N",
        kernels=(
            ("value", KernelSpec(("x", "scale"), (("rows", ("N",), "real"),))),
            ("gradient", KernelSpec(("x", "scale", "@rows"), (("grad.x", ("N",), "real"),))),
            (
                "gradient_params",
                KernelSpec(("x", "scale", "@rows"), (("grad.x", ("N",), "real"), ("grad.scale", (), "real"))),
            ),
        ),
    )

    class Scaled(Loss):
        compiled = Compiled(
            signature,
            {
                "value": lambda x, s: ((s * x.double() ** 2).to(x.dtype),),
                "gradient": lambda x, s, g: (2 * s.to(x.dtype) * x * g,),
                "gradient_params": lambda x, s, g: (2 * s.to(x.dtype) * x * g, (x**2 * g).sum()),
            },
            "handmade",
        )

        def __init__(self, scale=1.5):
            super().__init__({"scale": scale}, "mean", "valid", "zero", 1)

        def forward(self, x, scale=None):
            return self.call((x,), (scale,), None, None, None, None, False, False)

    return Scaled


INF = float("inf")


@pytest.mark.parametrize(
    "bounds",
    [
        None,
        (0.0, INF, True, True),
        (0.0, INF, False, True),
        (-INF, 7.0, True, False),
        (0.0, 2.0, True, True),
        (-INF, INF, True, True),
    ],
)
def test_learnable_params(bounds):
    torch.manual_seed(0)
    loss = scaled(bounds)()
    x = torch.randn(9)
    assert loss.scale.item() == pytest.approx(1.5, rel=1e-12)
    name = "scale" if bounds is None else "raw_scale"
    assert [n for n, _ in loss.named_parameters()] == [name]
    assert list(loss.state_dict()) == [name]
    torch.testing.assert_close(loss(x), (1.5 * x**2).mean())
    optimizer = torch.optim.SGD(loss.parameters(), lr=0.1)
    loss(x).backward()
    before = loss.scale.item()
    optimizer.step()
    assert loss.scale.item() < before
    other = scaled(bounds)(scale=0.3)
    other.load_state_dict(loss.state_dict())
    torch.testing.assert_close(other.scale, loss.scale)
    loss.scale = 0.8
    assert loss.scale.item() == pytest.approx(0.8, rel=1e-12)
    assert isinstance(loss.get_parameter(name), torch.nn.Parameter)
    torch.testing.assert_close(loss(x, scale=1.1), (1.1 * x**2).mean())
    if bounds is not None and bounds[0] == 0:
        with pytest.raises(ValueError, match="scale = -1 is not in"):
            loss.scale = -1.0
        for _ in range(300):
            loss(x).backward()
            optimizer.step()
        assert loss.scale > 0


def test_the_same_module_twice_is_one_set_of_ops():
    again = Compiled(FOCAL, {n: Focal.compiled.programs[n].function for n in Focal.compiled.programs}, "handmade")
    assert not again.programs["value"].fresh


def test_inference_first_and_training_afterwards():
    loss, z, y = WeightedCE(), torch.randn(4, 5), torch.tensor([0, 4, 2, 1])
    focal = Focal()
    with torch.inference_mode():
        value, other = loss(z, y), focal(z, y)
    z.requires_grad_()
    torch.testing.assert_close(loss(z, y), value.clone())
    torch.testing.assert_close(focal(z, y), other.clone())
    (loss(z, y) + focal(z, y)).backward()
    assert z.grad.isfinite().all()


@pytest.mark.parametrize("how", ["build", "assign"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_parameter_given_for_a_param_is_the_modules_and_is_never_stale(how, dtype):
    weight = torch.nn.Parameter(torch.tensor(2.0, dtype=dtype))
    loss = Focal(gamma=weight) if how == "build" else Focal()
    loss.gamma = weight
    z, y = torch.randn(4, 5), torch.tensor([0, 4, 2, 1])
    assert dict(loss.named_parameters()) == {"gamma": weight}
    assert list(loss.state_dict()) == ["gamma"]
    optimizer = torch.optim.SGD(loss.parameters(), lr=1.0)
    for _ in range(3):
        plain = Focal(gamma=weight.item())
        torch.testing.assert_close(loss(z, y), plain(z, y))
        optimizer.zero_grad()
        loss(z, y).backward()
        assert weight.grad.abs() > 0
        optimizer.step()
    assert weight.item() != 2.0
    loss.gamma = 0.5  # a number moves what is learnt, as with `learnable`
    assert weight.item() == 0.5
    assert loss.gamma == 0.5
    again = copy.deepcopy(loss)
    again.gamma = 1.5
    assert loss.gamma == 0.5
    torch.testing.assert_close(again(z, y), Focal(gamma=1.5)(z, y))


def test_a_tensor_that_wants_a_gradient_is_used_as_it_is_at_the_call():
    gamma = torch.tensor(2.0, requires_grad=True)
    loss, z, y = Focal(gamma=gamma), torch.randn(4, 5), torch.tensor([0, 4, 2, 1])
    loss(z, y).backward()
    assert gamma.grad.abs() > 0
    assert not list(loss.parameters())
    with torch.no_grad():
        gamma.fill_(0.5)
    torch.testing.assert_close(loss(z, y), Focal(gamma=0.5)(z, y))


@pytest.mark.parametrize("bounds", [None, (0.0, INF, False, True)])
def test_a_parameter_given_for_a_learnable_param(bounds):
    given = torch.nn.Parameter(torch.tensor(0.7))
    loss = scaled(bounds)(scale=given)
    assert loss.scale.item() == pytest.approx(0.7, rel=1e-6)
    assert (loss._parameters.get("scale") is given) == (bounds is None)  # with an interval another tensor is learnt
    loss.scale = torch.nn.Parameter(torch.tensor(0.9))
    assert loss.scale.item() == pytest.approx(0.9, rel=1e-6)
    assert len(list(loss.parameters())) == 1
