"""What `import lossdsl` offers."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import lossdsl
from lossdsl import api
from lossdsl.backends.manager import BackendError
from lossdsl.packs.lookup import UnknownLossError
from lossdsl.source.diagnostic import DiagnosticError

F = torch.nn.functional
MINE = """loss mine
input x[N, C]
input y[N]: index C
input w[C] = 1
param tau = 0.5 in (0, inf)
param shape = tanh in {sigmoid, tanh}
p = softmax(x / tau)
entropy = -sum[C](p * log(p))
right = argmax[C](x) == y
output entropy, right
return -log(p[y]) * w[y] + shape(tau)
"""


@pytest.fixture
def batch():
    return torch.randn(6, 5, dtype=torch.float64), torch.tensor([0, 1, 2, 3, -100, 4])


def test_import_is_light():
    code = (
        "import sys, lossdsl\n"
        "heavy = [m for m in sys.modules if m.split('.')[0] in ('torch', 'sympy', 'lark', 'pluggy', 'numpy')]\n"
        "assert not heavy, heavy\nassert 'loss' in dir(lossdsl)\n"
        "assert 'std/focal' in lossdsl.losses()\n"
        "assert 'torch' not in sys.modules\n"
        "import lossdsl.check.typed\n"
        "assert callable(lossdsl.check), 'the function, not the package'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_loss_of_the_library(batch):
    z, y = batch
    for name in ("cross_entropy", "std/cross_entropy"):
        torch.testing.assert_close(lossdsl.loss(name)(z, y), F.cross_entropy(z, y))
    torch.testing.assert_close(
        lossdsl.loss("focal", gamma=0.0, reduction="sum")(z, y), F.cross_entropy(z, y, reduction="sum")
    )


def test_a_loss_from_a_path_and_from_text(batch, tmp_path: Path):
    z, y = batch
    path = tmp_path / "mine.loss"
    path.write_text(MINE.replace("param shape = tanh in {sigmoid, tanh}\n", "").replace(" + shape(tau)", ""))
    expected = F.cross_entropy(z / 0.25, y)
    for target in (path, str(path), lossdsl.load(path), lossdsl.loads(path.read_text())):
        torch.testing.assert_close(lossdsl.loss(target, tau=0.25)(z, y), expected)


def test_twice_is_the_same_class():
    assert type(lossdsl.loss("focal")) is type(lossdsl.loss("focal", gamma=3.0))


def test_a_spec():
    spec = lossdsl.load("focal")
    assert [i.name for i in spec.inputs] == ["logits", "target", "alpha"]
    assert [p.name for p in spec.params] == ["gamma"]
    assert len(spec.claims) == sum(line.startswith("claim ") for line in spec.text.splitlines()) > 2
    assert "logits" in spec.latex()
    assert spec.latex().startswith("\\begin{aligned}")
    assert "d loss / d logits" in spec.explain()
    assert str(spec) == spec.text


def test_an_artifact(tmp_path: Path, batch):
    artifact = lossdsl.compile(lossdsl.load("focal"), backend="torch")
    assert artifact.manifest["name"] == "focal"
    assert artifact.manifest["backend"] == "torch"
    artifact.write(tmp_path / "my_focal.py")
    assert (tmp_path / "my_focal.py").read_text() == artifact.text
    module = artifact.load()
    torch.testing.assert_close(module.focal(*batch, gamma=1.0), module.Focal(gamma=1.0)(*batch), rtol=0, atol=0)
    torch.testing.assert_close(module.focal(*batch, reduction="none"), module.Focal(reduction="none")(*batch))


def test_what_is_wrong_with_a_call():
    with pytest.raises(UnknownLossError, match="did you mean focal"):
        lossdsl.loss("focl")
    with pytest.raises(UnknownLossError, match="did you mean bce or weighted_bce"):  # as torch calls it
        lossdsl.loss("BCEWithLogitsLoss")
    with pytest.raises(UnknownLossError, match="did you mean mean_absolute_error"):  # initials
        lossdsl.loss("mae")
    with pytest.raises(TypeError, match="focal has no param 'gama'; did you mean 'gamma'"):
        lossdsl.loss("focal", gama=1.0)
    with pytest.raises(TypeError, match=r"no param 'weight'; torch's .* is lossdsl.loss\(\"weighted_cross_entropy\"\)"):
        lossdsl.loss("cross_entropy", weight=torch.ones(3))
    with pytest.raises(TypeError, match=r"no param 'pos_weight'; torch's .* is lossdsl.loss\(\"weighted_bce\"\)"):
        lossdsl.loss("bce", pos_weight=2.0)
    with pytest.raises(TypeError, match="alpha is an input of focal: pass it at the call, beside logits"):
        lossdsl.loss("focal", alpha=0.25)
    with pytest.raises(DiagnosticError, match="`gamma` of `focal` is a number, not a word"):
        lossdsl.loss("focal", gamma="a")
    with pytest.raises(BackendError, match="there is no backend 'troch'"):
        lossdsl.loss("focal", backend="troch")
    with pytest.raises(BackendError, match="'cud' is no device"):
        lossdsl.loss("focal", device="cud")
    with pytest.raises(ValueError, match=r"the text of a loss, not its name or path: pass lossdsl.loads\(text\)"):
        lossdsl.loss("loss a\ninput x[N]\nreturn x\n")
    with pytest.raises(TypeError, match=r"logits\[N, C\] is a tensor, not list: pass torch.as_tensor\(logits\)"):
        lossdsl.loss("focal")([[1.0, 2.0]], torch.tensor([0]))
    with pytest.raises(DiagnosticError, match="E0201"):
        lossdsl.loads("loss a\ninput x[N]\nreturn y\n")
    with pytest.raises(FileNotFoundError):
        lossdsl.load("nowhere.loss")
    with pytest.raises(ValueError, match=r"gamma = -1 is not in \[0, inf\)"):
        lossdsl.loss("focal", gamma=-1.0)


def test_check(tmp_path: Path):
    path = tmp_path / "a.loss"
    path.write_text("loss a\ninput x[N]\ninput unused[N]\nreturn y + z\n")
    assert [d.code for d in lossdsl.check(path)] == ["E0201", "E0201"]
    path.write_text("loss a\ninput x[N]\ninput unused[N]\nreturn x^2\n")
    assert [d.severity for d in lossdsl.check(path)] == ["warning"]
    assert lossdsl.check("focal") == ()


def test_backends():
    assert "torch" in lossdsl.backends()


def test_copies_and_pickles_of_a_loss_in_memory(batch):
    spec = lossdsl.loads(MINE)
    loss = lossdsl.loss(spec, tau=0.3, shape="sigmoid", reduction="sum")
    expected = loss(*batch)
    for other in (copy.deepcopy(loss), copy.copy(loss), pickle.loads(pickle.dumps(loss))):
        assert type(other) is type(loss)
        torch.testing.assert_close(other(*batch), expected, rtol=0, atol=0)
    code = (
        "import pickle, sys, torch\nloss, z, y, expected = pickle.load(sys.stdin.buffer)\n"
        "torch.testing.assert_close(loss(z, y), expected, rtol=0, atol=0)\n"
    )
    data = pickle.dumps((loss, *batch, expected))
    subprocess.run([sys.executable, "-c", code], input=data, check=True)


def test_modes_and_named_outputs(batch):
    z, y = batch
    values = {}
    for mode in ("tanh", "sigmoid"):
        loss, out = lossdsl.loss(lossdsl.loads(MINE), shape=mode)(z, y, aux=True)
        values[mode] = loss
        p = torch.softmax(z / 0.5, 1)
        there = y != -100
        torch.testing.assert_close(out["entropy"][there], -(p * p.log()).sum(1)[there])
        assert out["right"].dtype == torch.bool
        assert (out["right"] == (z.argmax(1) == y)).all()
    half = torch.tensor(0.5, dtype=torch.float64)
    torch.testing.assert_close(values["tanh"] - values["sigmoid"], half.tanh() - half.sigmoid())


def test_names_that_python_has_words_for():
    text = "loss x\ninput a[N]\nparam lambda = 2, γ = 3, train = 0\nreturn lambda * a + γ + train\n"
    loss = lossdsl.loss(lossdsl.loads(text), **{"lambda": 5.0}, γ=1.0)
    assert loss(torch.ones(2)) == 6.0
    assert loss.lambda_ == 5.0
    assert loss.gamma == 1.0
    assert loss.training is True


def test_a_loss_named_in_another_script(batch):
    """Operators of torch have names in ASCII."""
    z, y = batch
    text = "loss γβ\ninput ζ[N, Ω]\ninput τ[N]: index Ω\nparam λ = 2\nreturn λ * (logsumexp(ζ) - ζ[τ])\n"
    loss, other = (lossdsl.loss(lossdsl.loads(t)) for t in (text, text.replace("γβ", "γα")))
    exact = 2 * F.cross_entropy(z[:4], y[:4])
    torch.testing.assert_close(torch.func.grad(loss)(z[:4], y[:4]), torch.func.grad(other)(z[:4], y[:4]))
    torch.testing.assert_close(torch.compile(loss, backend="aot_eager", fullgraph=True)(z[:4], y[:4]), exact)


def test_gradients_reach_params_and_class_vectors(batch):
    z, y = batch
    text = MINE.replace("param shape = tanh in {sigmoid, tanh}\n", "").replace(" + shape(tau)", "")
    loss = lossdsl.loss(lossdsl.loads(text))
    z = z.clone().requires_grad_()
    w = torch.rand(5, dtype=torch.float64, requires_grad=True)
    tau = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    f = lambda z, w, tau: loss(z, y, w, tau=tau)  # noqa: E731
    assert torch.autograd.gradcheck(f, (z, w, tau))
    assert torch.autograd.gradgradcheck(f, (z, w, tau))


def test_data_parallel_copies_agree(batch):
    z, y = batch
    loss = lossdsl.loss("focal")
    z = z.clone().requires_grad_()
    whole = torch.autograd.grad(loss(z, y), z)[0]
    parts = [torch.autograd.grad(copy.deepcopy(loss)(z[i::2], y[i::2], denominator=5 / 2), z)[0] for i in (0, 1)]
    torch.testing.assert_close(sum(parts) / 2, whole)


def test_probabilities_given_as_class_indices(batch):
    z, y = batch
    text = "loss soft\ninput logits[N, C]\ninput target[N, C]: prob C\n"
    loss = lossdsl.loss(lossdsl.loads(text + "return -sum[C](target * log_softmax(logits))\n"))
    rows = loss(z, y, reduction="none")
    torch.testing.assert_close(rows, F.cross_entropy(z, y, reduction="none"))
    torch.testing.assert_close(loss(z, y), F.cross_entropy(z, y))
    z[4] = float("nan")
    z.requires_grad_()
    grad = torch.autograd.grad(loss(z, y.to(torch.int16)), z)[0]
    assert (grad[4] == 0).all()
    assert grad.isfinite().all()
    pixels, labels = torch.randn(2, 5, 3), torch.randint(0, 5, (2, 3))
    labels[1, 2] = -100
    torch.testing.assert_close(loss(pixels, labels), F.cross_entropy(pixels, labels))
    torch.testing.assert_close(
        loss(pixels, labels, reduction="none"), F.cross_entropy(pixels, labels, reduction="none")
    )
    labels[0, 1] = 5
    with pytest.raises(IndexError, match=r"target\[0, 1\] = 5, but logits has 5 classes"):
        loss(pixels, labels)
    soft = torch.nn.functional.one_hot(y.clamp(0), 5)
    torch.testing.assert_close(loss(z[:4], soft[:4]), F.cross_entropy(z[:4], y[:4]))
    mapped = torch.func.vmap(lambda z: loss(z, labels[0], reduction="none"))(torch.randn(2, 3, 5))
    assert mapped.isnan().tolist() == [[False, True, False]] * 2


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("denominator", ["valid", "elements", 7])
def test_ignored_labels_of_probabilities_where_nothing_is_looked_at(batch, reduction, denominator):
    """Rows can't be left out of a traced call: they are harmless there, and count as nothing."""
    text = "loss soft\ninput logits[N, C]\ninput target[N, C]: prob C\n"
    loss = lossdsl.loss(lossdsl.loads(text + "return -sum[C](target * log_softmax(logits))\n"), denominator=denominator)
    z, y = batch
    assert (y == -100).any()
    z[y == -100] = float("nan")
    z.requires_grad_()
    value = loss(z, y, reduction=reduction)
    (grad,) = torch.autograd.grad(value.sum(), z)
    torch._dynamo.reset()  # a limit on how often a function is compiled, of all tests together
    traced = torch.compile(loss, backend="aot_eager", fullgraph=True)(z, y, reduction=reduction)
    torch.testing.assert_close(traced, value)
    torch.testing.assert_close(torch.autograd.grad(traced.sum(), z)[0], grad)
    mapped = torch.func.vmap(lambda z: loss(z, y, reduction=reduction))(torch.stack([z, z]))
    torch.testing.assert_close(mapped, torch.stack([value, value]))


def test_labels_of_a_batch_loss_where_nothing_is_looked_at(batch):
    z, y = batch
    text = "loss overlap\ninput z[N, C]\ninput q[N, C]: prob C\nreturn 1 - mean[C](sum[N](q * softmax[C](z)))\n"
    loss = lossdsl.loss(lossdsl.loads(text))
    z, y = z[:4], y[:4]
    traced = torch.compile(loss, backend="aot_eager", fullgraph=True)(z, y)
    torch.testing.assert_close(traced, loss(z, F.one_hot(y, 5).to(z.dtype)))
    torch.testing.assert_close(traced, loss(z, y))
    ignored = torch.where(torch.arange(4) == 2, -100, y)
    torch.testing.assert_close(loss(z, ignored), loss(z[ignored >= 0], y[ignored >= 0]))
    with pytest.raises(RuntimeError, match="overlap: q holds ignored labels"):
        torch.compile(loss, backend="aot_eager", fullgraph=True)(z, ignored)


def test_a_backend_for_one_kind_of_device(batch, monkeypatch):
    """A loss whose backend was chosen is built again for another device; one asked for by name says what to do."""
    registry = api.registry()
    here = replace(registry.backends["torch"], name="here", devices=("cpu",), priority=99)
    both = replace(registry, backends={"here": here, "torch": registry.backends["torch"]})
    monkeypatch.setattr(api, "registry", lambda: both)
    text = "loss placed\ninput x[N]\nreturn x^2\n"
    loss = lossdsl.loss(lossdsl.loads(text))
    assert loss.compiled.signature.backend == "here"
    assert loss(torch.ones(3)) == 1
    assert loss(torch.ones(3, device="meta")).device.type == "meta"
    with pytest.raises(ValueError, match="placed was built by backend here for cpu, but x is on meta"):
        lossdsl.loss(lossdsl.loads(text), backend="here")(torch.ones(3, device="meta"))


def test_a_device_is_of_its_type(batch, monkeypatch):
    """What is chosen for "cuda:1", or for a torch.device, is what is chosen for "cuda"."""
    registry = api.registry()
    there = replace(registry.backends["torch"], name="there", devices=("cuda",), priority=99)
    monkeypatch.setattr(api, "registry", lambda: replace(registry, backends={**registry.backends, "there": there}))
    for device in ("cuda", "cuda:1", torch.device("cuda"), torch.device("cuda", 1)):
        assert lossdsl.loss("focal", device=device).compiled.signature.backend == "there"


def test_two_vectors_over_one_axis_are_of_one_length():
    text = "loss of_vectors\ninput x[N]\nparam a[K] = [1, 2], b[K] = [3, 4]\nreturn sum[K](a * x^b)\n"
    loss = lossdsl.loss(lossdsl.loads(text), backend="torch")
    x = torch.tensor([2.0])
    assert loss(x) == 8 + 32
    assert loss(x, a=[1, 1, 1], b=[0, 1, 2]) == 1 + 2 + 4
    with pytest.raises(ValueError, match="K = 3 from a, but the param b has 2"):
        loss(x, a=[1, 1, 1])


def test_a_mode_is_read_and_not_set():
    loss_fn = lossdsl.loss("ldr_kl", scores="normalised", backend="torch")
    assert loss_fn.scores == "normalised"
    assert lossdsl.loss("ldr_kl", backend="torch").scores == "raw"
    with pytest.raises(AttributeError, match=r"scores is a mode of ldr_kl, .*: build another, with scores='raw'"):
        loss_fn.scores = "raw"
