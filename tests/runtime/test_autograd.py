"""Both lanes against each other, torch's checks and central differences (which gradcheck takes)."""

from __future__ import annotations

import threading

import pytest
import torch
from handmade import FOCAL, Focal, FocalAtOnce, focal_gradient, focal_value
from handmade_others import BCE, Dice, WeightedCE
from torch.autograd import gradcheck, gradgradcheck

F = torch.nn.functional


@pytest.fixture
def z():
    return torch.randn(6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()


@pytest.fixture
def y():
    return torch.tensor([0, 1, 2, 3, -100, 4])


GAMMA = torch.tensor(1.7, dtype=torch.float64)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_first_and_second_derivatives(z, y, reduction):
    gamma = GAMMA.clone().requires_grad_()
    loss = Focal(reduction=reduction)
    z, y = z[2:5, :4].detach().requires_grad_(), y[2:5]

    def f(z, gamma):
        return loss(z, y, gamma=gamma)

    assert gradcheck(f, (z, gamma), check_forward_ad=True, check_batched_grad=True, check_batched_forward_grad=True)
    assert gradgradcheck(f, (z, gamma), check_fwd_over_rev=True)
    assert gradgradcheck(lambda z: f(z, GAMMA), (z,), check_fwd_over_rev=True)


@pytest.mark.parametrize("denominator", ["valid", "elements", 3.0, torch.tensor(7.0)])
def test_weights_in_the_denominator(z, denominator):
    w = torch.rand(5, dtype=torch.float64, requires_grad=True)
    y = torch.tensor([0, 1, 2, 3, 1, 4])
    loss = WeightedCE(denominator=denominator)
    assert gradcheck(lambda z, w: loss(z, y, w), (z, w))
    by = (
        {"valid": w[y].sum(), "elements": 6.0}.get(denominator, denominator)
        if isinstance(denominator, str)
        else (denominator)
    )
    expected = (F.cross_entropy(z, y, reduction="none") * w[y]).sum() / by
    torch.testing.assert_close(loss(z, y, w), expected)
    mine, theirs = torch.autograd.grad(loss(z, y, w), (z, w)), torch.autograd.grad(expected, (z, w))
    torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-14)


def test_a_weighted_mean_in_the_second_lane(z, y):
    w = torch.rand(5, dtype=torch.float64)
    y = y.clamp(0)
    loss = WeightedCE()
    mine = torch.func.grad(lambda z, w: loss(z, y, w), argnums=(0, 1))(z, w)
    z2, w2 = z.detach().requires_grad_(), w.clone().requires_grad_()
    theirs = (F.cross_entropy(z2, y, reduction="none") * w2[y]).sum() / w2[y].sum()
    torch.testing.assert_close(mine, torch.autograd.grad(theirs, (z2, w2)))


def test_what_is_missing_raises(z, y):
    w = torch.rand(5, dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(WeightedCE()(z, y.clamp(0), w), (z,), create_graph=True)
    with pytest.raises(NotImplementedError, match="it was not written"):
        first.sum().backward()
    with pytest.raises(NotImplementedError, match="it was not written"):
        torch.func.jvp(lambda z: WeightedCE()(z, y.clamp(0), w), (z,), (torch.ones_like(z),))
    third = torch.autograd.grad(Focal()(z, y), (z,), create_graph=True)[0]
    third = torch.autograd.grad(third.square().sum(), (z,), create_graph=True)[0]
    with pytest.raises(NotImplementedError, match="third"):
        third.sum().backward()


def test_a_second_backward_raises_as_torch_does(z, y):
    loss = Focal()(z, y)
    loss.backward()
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()
    loss = Focal()(z, y)
    once = torch.autograd.grad(loss, z, retain_graph=True)[0]
    torch.testing.assert_close(torch.autograd.grad(loss, z)[0], once, rtol=0, atol=0)


def test_upstream_scale_and_accumulation(z, y):
    plain = torch.autograd.grad(Focal()(z, y), z)[0]
    scaled = torch.autograd.grad(3.5 * Focal()(z, y), z)[0]
    torch.testing.assert_close(scaled, 3.5 * plain)
    (Focal()(z, y) + Focal()(z, y)).backward()
    torch.testing.assert_close(z.grad, 2 * plain)


def test_functorch(z, y):
    loss = Focal()
    plain = torch.autograd.grad(loss(z, y), z)[0]
    torch.testing.assert_close(torch.func.grad(lambda z: loss(z, y))(z), plain)
    jac = torch.func.jacrev(lambda z: loss(z, y, reduction="none"))(z)
    torch.testing.assert_close(torch.func.jacfwd(lambda z: loss(z, y, reduction="none"))(z), jac)
    torch.testing.assert_close(jac.sum(0) / 5, plain)
    hessian = torch.func.hessian(lambda z: loss(z, y))(z)
    two = torch.autograd.functional.hessian(lambda z: loss(z, y), z)
    torch.testing.assert_close(hessian, two)


def test_vmap_folds_rows_and_loops_over_params(z, y):
    loss = Focal()
    many = torch.randn(3, 6, 5, dtype=torch.float64)
    each = torch.stack([torch.func.grad(lambda z: loss(z, y))(m) for m in many])
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(lambda z: loss(z, y)))(many), each)
    gammas = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
    by_gamma = torch.func.vmap(torch.func.grad(lambda g: loss(z.detach(), y, gamma=g)))(gammas)
    for g, d in zip(gammas, by_gamma, strict=True):
        g = g.clone().requires_grad_()
        torch.testing.assert_close(d, torch.autograd.grad(loss(z.detach(), y, gamma=g), g)[0])
    labels = torch.stack([y, y.flip(0)])
    both = torch.func.vmap(lambda t: loss(z, t))(labels)
    torch.testing.assert_close(both, torch.stack([loss(z, y), loss(z, y.flip(0))]))
    inner = torch.func.vmap(torch.func.vmap(lambda z: loss(z, y)))(many[None].expand(2, 3, 6, 5))
    torch.testing.assert_close(inner[1], torch.stack([loss(m, y) for m in many]))


def test_a_backward_pass_after_vmap(z, y):
    loss = Focal()
    many = torch.stack([z, 2 * z]).requires_grad_()
    (found,) = torch.autograd.grad(torch.func.vmap(lambda z: loss(z, y))(many).sum(), many)
    singles = [row.detach().requires_grad_() for row in many]
    torch.testing.assert_close(found, torch.stack([torch.autograd.grad(loss(row, y), row)[0] for row in singles]))


def test_vmap_of_a_batch_loss():
    x = torch.randn(3, 7, dtype=torch.float64)
    y = torch.rand(7) > 0.5
    loss = Dice()
    torch.testing.assert_close(torch.func.vmap(lambda x: loss(x, y))(x), torch.stack([loss(r, y) for r in x]))
    g = torch.func.vmap(torch.func.grad(lambda x: loss(x, y)))(x)
    torch.testing.assert_close(g, torch.stack([torch.func.grad(lambda x: loss(x, y))(r) for r in x]))


def test_forward_mode_of_a_batch_loss_is_gradient_times_tangent():
    x, v = torch.randn(2, 7, dtype=torch.float64)
    y = torch.rand(7) > 0.5
    _, moved = torch.func.jvp(lambda x: Dice()(x, y), (x,), (v,))
    torch.testing.assert_close(moved, (torch.func.grad(lambda x: Dice()(x, y))(x) * v).sum())


def test_compile_in_two_graphs():
    loss, calls = Focal(), []

    def backend(graph, inputs):
        from torch._dynamo.backends.debugging import aot_eager

        calls.append(graph)
        return aot_eager(graph, inputs)

    step = torch.compile(lambda z, y: loss(z, y), backend=backend, fullgraph=True)
    for n in (4, 5, 6, 7, 8):
        for gamma in (0.0, 0.5, 1.0, 2.0, 3.0):
            loss.gamma = gamma
            z = torch.randn(n, 5, requires_grad=True)
            y = torch.randint(0, 5, (n,))
            compiled = torch.autograd.grad(step(z, y), z)[0]
            torch.testing.assert_close(compiled, torch.autograd.grad(loss(z, y), z)[0])
    assert len(calls) <= 2


def test_compile_with_a_learnt_param_and_without_gradients(z, y):
    loss = Focal()
    step = torch.compile(lambda z, g: loss(z, y, gamma=g), backend="aot_eager", fullgraph=True)
    g = GAMMA.clone().requires_grad_()
    torch.testing.assert_close(
        torch.autograd.grad(step(z, g), (z, g)), torch.autograd.grad(loss(z, y, gamma=g), (z, g))
    )
    torch.testing.assert_close(step(z.detach(), GAMMA), loss(z, y, gamma=GAMMA).detach())
    mapped = torch.compile(torch.vmap(lambda z: loss(z, y)), backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(mapped(torch.stack([z, z]).detach()), loss(z, y).detach().expand(2))


def test_export(z, y):
    loss = Focal()
    torch.testing.assert_close(torch.export.export(loss, (z, y)).module()(z, y), loss(z, y))


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore:.torch.jit.trace:DeprecationWarning")
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_jit_trace_keeps_no_number_of_the_example(z, y, reduction):
    loss = Focal(reduction=reduction)
    traced = torch.jit.trace(loss, (z.detach(), y))
    for n in (len(y), 3):  # targets, ignored rows and a batch of their own
        other = torch.randn(n, z.shape[1], dtype=z.dtype, requires_grad=True)
        target = torch.randint(0, z.shape[1], (n,))
        target[0] = -100
        torch.testing.assert_close(traced(other, target), loss(other, target))
        found = torch.autograd.grad(traced(other, target).sum(), other)[0]
        torch.testing.assert_close(found, torch.autograd.grad(loss(other, target).sum(), other)[0])


@pytest.mark.parametrize("name", [name for name, _ in FOCAL.kernels])
def test_opcheck(z, y, name):
    seed, by_z, by_g = torch.rand(6, dtype=torch.float64), torch.randn(6, 5, dtype=torch.float64), GAMMA
    known = {
        "logits": z,
        "target": y,
        "gamma": GAMMA.clone().requires_grad_(name.endswith("params")),
        "ignore_index": torch.tensor(-100),
        "@rows": seed,
        "@grad.logits": by_z,
        "@grad.gamma": by_g,
    }
    spec = dict(FOCAL.kernels)[name]
    if name.startswith("second"):
        known["logits"], known["gamma"] = z.detach(), GAMMA
    op = getattr(torch.ops.lossdsl, f"focal_{name}_handmade").default
    torch.library.opcheck(op, tuple(known[arg] for arg in spec.args))


def test_autocast_computes_in_float32(z, y):
    loss = Focal()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = loss(z.detach().float(), y)
        half = loss(z.detach().bfloat16(), y)
    assert out.dtype == half.dtype == torch.float32
    torch.testing.assert_close(out, loss(z.detach().float(), y), rtol=0, atol=0)


def test_gradients_are_fresh_and_in_the_dtype_of_their_input(y):
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        z = torch.randn(6, 5).to(dtype).requires_grad_()
        loss = Focal()(z, y)
        assert loss.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
        loss.backward()
        assert z.grad.dtype == dtype


def test_a_vector_of_upstream_gradients(z, y):
    rows = Focal(reduction="none")(z, y)
    up = torch.rand(6, dtype=torch.float64)
    expected = focal_gradient(z.detach(), y, torch.tensor(2.0), torch.tensor(-100), up)[0]
    torch.testing.assert_close(torch.autograd.grad(rows, z, up)[0], expected, rtol=0, atol=0)
    torch.testing.assert_close(rows.detach(), focal_value(z.detach(), y, torch.tensor(2.0), torch.tensor(-100))[0])


def test_only_what_is_needed(y, monkeypatch):
    ran = []
    loss = Focal()
    for family in (loss.compiled.lean, loss.compiled.full):
        program = family.gradient.program

        def counted(*args, kept=program.function, n=len(program.spec.outs)):
            ran.append(n)
            return kept(*args)

        monkeypatch.setattr(program, "function", counted)
    z = torch.randn(6, 5, requires_grad=True)
    loss(z, y).backward()
    assert ran == [1]
    loss(z, y, gamma=GAMMA.clone().requires_grad_()).backward()
    assert ran == [1, 2]


def test_two_threads(z, y):
    loss, results = Focal(), []

    def work():
        for _ in range(50):
            x = z.detach().clone().requires_grad_()
            loss(x, y).backward()
            results.append(x.grad)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 100
    assert all(torch.equal(r, results[0]) for r in results)


def test_aux_outputs_are_detached():
    z = torch.randn(2, 3, requires_grad=True)
    t = torch.rand(2, 3)
    loss, out = BCE()(z, t, aux=True)
    torch.testing.assert_close(loss, F.binary_cross_entropy_with_logits(z, t))
    assert set(out) == {"p", "share"}
    assert out["p"].shape == (2, 3)
    assert not out["p"].requires_grad
    loss.backward()
    torch.testing.assert_close(z.grad, (torch.sigmoid(z.detach()) - t) / 6)
    only, nothing = Dice()(z.reshape(-1), t.reshape(-1) > 0.5, aux=True)
    assert nothing == {}
    assert only.dim() == 0


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"reduction": "sum"},
        {"reduction": "none"},
        {"denominator": "elements"},
        {"denominator": 2.5},
        {"denominator": torch.tensor(3)},
        {"ignore_index": 0},
    ],
)
def test_value_and_gradient_in_one_visit(z, y, options):
    slow, quick = Focal(**options), FocalAtOnce(**options)
    for target in (y.clamp(0), y if "ignore_index" not in options else y.clamp(0)):
        for factor in (1.0, -2.5):
            expected, got = slow(z, target).sum() * factor, quick(z, target).sum() * factor
            torch.testing.assert_close(got, expected)
            torch.testing.assert_close(torch.autograd.grad(got, z), torch.autograd.grad(expected, z))
    empty = torch.full_like(y, -100)
    if "ignore_index" not in options:
        loss = quick(z, empty)
        assert (torch.autograd.grad(loss.sum(), z)[0] == 0).all()
        assert quick(z, empty, empty="nan", reduction="mean", denominator="valid").isnan()


def test_one_visit_is_one_visit(z, y, monkeypatch):
    ran = []
    loss = FocalAtOnce()
    for name, program in loss.compiled.programs.items():

        def counted(*args, kept=program.function, name=name):
            ran.append(name)
            return kept(*args)

        monkeypatch.setattr(program, "function", counted)
    value = loss(z, y)
    assert ran == ["weight", "both"]
    first = torch.autograd.grad(value, z, retain_graph=True)[0]
    second = torch.autograd.grad(3 * value, z)[0]
    assert ran == ["weight", "both"]
    torch.testing.assert_close(second, 3 * first)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(value, z)
    ran.clear()
    with torch.no_grad():
        loss(z, y)
    gamma = GAMMA.clone().requires_grad_()
    loss(z, y, gamma=gamma).backward()
    assert ran == ["value", "value", "gradient_params"]
    assert gradcheck(lambda z: loss(z, y), (z,), fast_mode=True)
    assert gradgradcheck(lambda z: loss(z, y), (z,), fast_mode=True)
    torch.testing.assert_close(torch.func.grad(lambda z: loss(z, y))(z), first)


def test_a_gradient_handed_over_and_changed_is_not_handed_over_again(z, y):
    value = FocalAtOnce()(z, y)
    first = torch.autograd.grad(value, z, retain_graph=True)[0]
    first.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(value, z)
    FocalAtOnce()(z, y).backward()
    FocalAtOnce()(z, y).backward()
    torch.testing.assert_close(z.grad, first)
