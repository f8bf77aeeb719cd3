"""What launches hand to Triton, on a device that isn't there.

Tensors are on torch's meta device, which has no numbers: whatever would wait for one raises. Arguments are specialised
by Triton's own function, as at a real launch (a whole number that is 1 becomes a constant), and each kernel is lowered
to Triton's intermediate representation, where an argument that its text can't be read with is found.
"""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler.compiler import make_backend
from triton.runtime.jit import JITFunction, native_specialize_impl

import lossdsl
from lossdsl.backends.manager import BackendError
from lossdsl.backends.triton import launch
from lossdsl.runtime.module import Loss
from tests.triton.kernels import FULL, REGISTRY

TARGET = GPUTarget("cuda", 90, 32)
BACKEND = make_backend(TARGET)
# An optional input that may be given, a whole number that is 1, two row axes, arrays kept between loops, a root.
ALWAYS = ("llm/unlikelihood_token", "std/oko_hard", "std/correctness_aware", "std/entmax15_loss")
SAMPLE = 3


class Pointer:
    """Memory of a dtype that begins at a multiple of 16 bytes."""

    def __init__(self, x: Tensor) -> None:
        self.dtype = x.dtype

    def data_ptr(self) -> int:
        return 16


class Lowered:
    """The kernels that were launched, each with its arguments' kinds, lowered once."""

    def __init__(self) -> None:
        self.kinds: dict[tuple[Any, ...], str] = {}
        self.grids: list[tuple[int, ...]] = []
        self.names: list[str] = []

    def run(self, kernel: Any, *given: Any, grid: Any, warmup: bool = False, **options: Any) -> Any:
        self.grids.append(grid)
        self.names.append(kernel.__name__)
        assert all(n <= 65535 for n in grid[1:]), "more programs than CUDA has along an axis but the first"
        values = dict(zip(kernel.arg_names, given, strict=False))
        values |= {n: options.pop(n) for n in kernel.arg_names if n in options}
        signature, constants, attributes = {}, {}, {}
        for i, p in enumerate(kernel.params):
            value = values[p.name]
            if p.is_constexpr:
                kind, more = "constexpr", value
            elif isinstance(value, Tensor):
                assert value.device.type == "meta", f"{p.name} is read from another device"
                kind, more = native_specialize_impl(type(BACKEND), Pointer(value), p.is_const, True, True)
                aligned = value.storage_offset() * value.element_size() % 16 == 0
                more = more if aligned else ""
            else:
                special, align = not p.do_not_specialize, not p.do_not_specialize_on_alignment
                kind, more = native_specialize_impl(type(BACKEND), value, p.is_const, special, align)
            signature[p.name] = kind
            if kind == "constexpr":
                constants[(i,)] = more
            elif more:
                attributes[(i,)] = BACKEND.parse_attr(more)
        key = (id(kernel), *signature.values(), str(constants), str(attributes))
        if key not in self.kinds:
            self.kinds[key] = kernel.__name__
            parsed = BACKEND.parse_options({"num_warps": options.get("num_warps", 4), "enable_fp_fusion": False})
            context = ir.context()
            ir.load_dialects(context)
            BACKEND.load_dialects(context)
            source = ASTSource(kernel, signature, constants, attributes)
            functions, modules = BACKEND.get_codegen_implementation(parsed), BACKEND.get_module_map()
            source.make_ir(TARGET, parsed, functions, modules, context)
        return SimpleNamespace(n_spills=0, asm={}, metadata=None)


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> Lowered:
    seen = Lowered()
    monkeypatch.setenv("LOSSDSL_AUTOTUNE", "0")
    monkeypatch.setattr(launch, "device_of", lambda *tensors: next(x.device for x in tensors if x.dim()))
    monkeypatch.setattr(Loss, "_on", lambda self, inputs: self.compiled)
    monkeypatch.setattr(JITFunction, "run", lambda self, *given, **options: seen.run(self, *given, **options))
    return seen


def inputs(loss: Any, size: int) -> list[Tensor]:
    found = []
    for spec in loss.compiled.signature.inputs:
        real = spec.kind == "real" or spec.kind.startswith("prob")
        dtype = torch.bfloat16 if real else torch.bool if spec.kind == "bool" else torch.int64
        x = torch.empty([size] * len(spec.axes), dtype=dtype, device="meta")
        found.append(x.requires_grad_(real and not spec.fixed))
    return found


def launched(name: str, size: int, **params: Any) -> None:
    """A value, its gradient, and a derivative of that."""
    try:
        loss = lossdsl.loss(name, backend="triton")
    except BackendError as error:  # fourteen of the library, which benchmarks/backends.md names
        pytest.skip(str(error))
    given = inputs(loss, size)
    wanted = [x for x in given if x.requires_grad]
    value = loss(*given, **params)
    if not wanted:
        return
    grads = torch.autograd.grad(value, wanted, create_graph=True, allow_unused=True)
    total = sum(g.float().sum() for g in grads if g is not None)
    if isinstance(total, Tensor) and total.requires_grad:
        torch.autograd.grad(total, wanted, allow_unused=True)


def drawn() -> list[str]:
    names = sorted(REGISTRY.losses)
    return names if FULL else sorted({*ALWAYS, *random.Random(7).sample(names, SAMPLE)})


@pytest.mark.parametrize("size", [1, 6])
@pytest.mark.parametrize("name", drawn())
def test_a_loss(name: str, size: int, lowered: Lowered) -> None:
    launched(name, size)
    assert lowered.kinds


def test_a_schedule_compiles_once(lowered: Lowered) -> None:
    """Of a real number and of a whole one: 1 and multiples of 16 are as any other."""
    text = "loss s\ninput x[N, C]\ninput y[N]: index C\nparam k: int = 2\nparam g = 1\n"
    loss = lossdsl.loss(lossdsl.loads(text + "return -log_softmax(x)[y] * g + k * x[y]\n"), backend="triton")
    x = torch.empty(4, 70, device="meta", requires_grad=True)
    y = torch.empty(4, dtype=torch.int64, device="meta")
    torch.autograd.grad(loss(x, y), x)
    once = len(lowered.kinds)
    for k, g in ((1, 0.5), (3, 1.0), (16, 2.0), (17, 0.0), (32, 1e-3)):
        torch.autograd.grad(loss(x, y, k=k, g=g), x)
    assert len(lowered.kinds) == once


def test_an_ignored_index_of_1(lowered: Lowered) -> None:
    loss = lossdsl.loss("cross_entropy", backend="triton", ignore_index=1)
    loss(torch.empty(4, 7, device="meta"), torch.empty(4, dtype=torch.int64, device="meta"))
    assert lowered.kinds


def test_a_gradient_of_more_entries_than_a_grid_has_chunks(lowered: Lowered) -> None:
    """65535 programs of 65536 entries are fewer than the gradient of 40960 tokens over 131072 classes has."""
    x = torch.empty(40960, 131072, dtype=torch.bfloat16, device="meta", requires_grad=True)
    text = "loss squares\ninput x[N, C]\nreturn mean[N](sum[C](x^2))\n"
    lossdsl.loss(lossdsl.loads(text), backend="triton")(x).backward()
    (grid,) = [g for g, n in zip(lowered.grids, lowered.names, strict=True) if n == "rescale_"]
    assert grid == (1, 40960)


def test_a_number_on_another_device_is_no_address() -> None:
    """A kernel would read memory that isn't its device's; on the host it is a number."""
    here = torch.device("meta")
    assert launch.number(torch.tensor(3), torch.float32, here) == 3
    at = torch.empty((), device=here)
    assert launch.number(at, torch.float32, here) is at
    with FakeTensorMode(allow_non_fake_inputs=True), pytest.raises(TypeError, match="cuda:0 and on cuda:1"):
        launch.number(torch.empty((), device="cuda:1"), torch.float32, torch.device("cuda:0"))


def test_gradients_of_zero_alone_are_reduced(lowered: Lowered) -> None:
    """A loss of steps: value and gradient come of programs of their own, the value reduced as ever."""
    text = "loss steps\ninput x[N, C]\nreturn mean[N](sum[C](sign(x)))\n"
    loss = lossdsl.loss(lossdsl.loads(text), backend="triton")
    x = torch.empty(3, 5, device="meta", requires_grad=True)
    for reduction in ("mean", "sum"):
        value = loss(x, reduction=reduction)
        assert value.shape == ()
        assert torch.autograd.grad(value, x)[0].shape == x.shape


@pytest.mark.parametrize("features", [64, 700])  # multiplied by the kernel; a tile in memory
@pytest.mark.parametrize("name", ["cross_entropy", "focal"] if not FULL else ["cross_entropy", "focal", "brier", "gce"])
def test_a_head_waits_for_nothing(name: str, features: int, lowered: Lowered) -> None:
    """Rows that are ignored stay in their tiles: how many there are only the device knows."""
    loss = lossdsl.loss(name, head="linear", backend="triton")
    h = torch.empty(600, features, dtype=torch.bfloat16, device="meta", requires_grad=True)
    w = torch.empty(50257, features, dtype=torch.bfloat16, device="meta", requires_grad=True)
    y = torch.empty(600, dtype=torch.int64, device="meta")
    assert loss.compiled.tiling is not None
    torch.autograd.grad(loss(h, w, None, y), (h, w))
    assert any("tile" in n for n in lowered.names)


TILED = ("llm/emo1", "metric/combined_margin", "metric/normalized_softmax", "metric/wcdas")


@pytest.mark.parametrize("name", TILED if FULL else TILED[:1])
def test_tiles_wait_for_nothing(name: str, lowered: Lowered) -> None:
    """Of products: squared distances that nearly cancel are summed anew, and how many do so is waited for."""
    loss = lossdsl.loss(name, backend="triton")
    axes = {a: 4096 + 16 * i for i, a in enumerate(sorted({a for s in loss.compiled.signature.inputs for a in s.axes}))}
    given = [
        torch.empty(
            [axes[a] for a in s.axes],
            dtype=torch.int64 if s.kind.startswith("index") else torch.bfloat16,
            device="meta",
            requires_grad=s.kind == "real" and not s.fixed,
        )
        for s in loss.compiled.signature.inputs
    ]
    torch.autograd.grad(loss(*given), [x for x in given if x.requires_grad], allow_unused=True)
    assert any("tile" in n for n in lowered.names)


def test_a_vector_is_copied_to_the_device_once(lowered: Lowered) -> None:
    """A copy from the host's memory waits, and no graph captures it."""
    text = "loss vector\ninput x[N]\nparam a[K] = [1, 2]\nreturn sum[K](a * x^2)\n"
    loss = lossdsl.loss(lossdsl.loads(text), backend="triton")
    x = torch.empty(4, device="meta")
    loss(x)
    ((_, _, copy),) = loss.compiled.copies.values()
    loss(x)
    assert next(iter(loss.compiled.copies.values()))[2] is copy
    loss.a.mul_(2)  # the same tensor with other numbers
    loss(x)
    assert next(iter(loss.compiled.copies.values()))[2] is not copy
    for k in range(40):
        loss(x, a=[1.0, k])
    assert len(loss.compiled.copies) <= 16
