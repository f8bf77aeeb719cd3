"""The functions that kernels call, in float32 as a device computes them and in float64, against 50 digits.

The interpreter's 2^x is numpy's, which is better than a device's. So the tests spoil it by what the PTX manual allows
ex2.approx (2 units of the last place over the full range), once up and once down, and by noise within.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.runtime.interpreter import TensorHandle, interpreter_builder

import lossdsl
from lossdsl.backends.triton import device, lanes, special
from lossdsl.backends.triton.launch import shaped

mpmath.mp.dps = 50


@triton.jit
def apply(x, y, n, F: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)[None, :]
    tl.store(y + i, F(tl.load(x + i, mask=i < n, other=1.0)), mask=i < n)


@triton.jit
def apply2(x, z, y, n, F: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)[None, :]
    tl.store(y + i, F(tl.load(x + i, mask=i < n, other=1.0), tl.load(z + i, mask=i < n, other=1.0)), mask=i < n)


def run(function: object, *given: torch.Tensor) -> np.ndarray:
    out = torch.empty_like(given[0])
    kernel = apply if len(given) == 1 else apply2
    n = out.numel()
    kernel[(triton.cdiv(n, 4096),)](*given, out, n, F=function, B=4096)
    return out.double().numpy()


@pytest.fixture(params=[-1.0, 1.0, None], ids=["down", "up", "noise"])
def spoiled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """2^x with the error of ex2.approx.f32."""
    rng = np.random.default_rng(0)

    def exp2(arg: TensorHandle) -> TensorHandle:
        exact = np.exp2(arg.data)
        if arg.data.dtype != np.float32:
            return TensorHandle(exact, arg.dtype.scalar)
        share = rng.uniform(-1, 1, exact.shape) if request.param is None else request.param
        with np.errstate(over="ignore"):
            return TensorHandle((exact * (1 + share * 2.0**-22)).astype(np.float32), arg.dtype.scalar)

    monkeypatch.setattr(interpreter_builder, "create_exp2", exp2)


def ulps(found: np.ndarray, exact: np.ndarray, kind: type) -> float:
    """The largest error in units of the last place, where the result is normal."""
    size = np.spacing(np.abs(exact).astype(kind)).astype(np.float64)
    keep = (np.abs(exact) > np.finfo(kind).tiny) & np.isfinite(exact) & (np.abs(exact) < np.finfo(kind).max)
    return float((np.abs(found - exact)[keep] / size[keep]).max())


def test_exp_keeps_its_digits(spoiled: None) -> None:
    """ex2.approx itself has 4 units here (2^-22 is 4 of them just above a power of 2); other roundings add two and
    a half. The plain form 2^(x·log2 e) has 60 at |x| = 80."""
    x = torch.cat([torch.linspace(-87, 88, 40_001), torch.randn(20_000)])
    assert ulps(run(device.exp_, x), np.exp(x.double().numpy()), np.float32) < 6.5
    plain = (x * 1.44269504).double().numpy()
    assert ulps(np.exp2(plain).astype(np.float32), np.exp(x.double().numpy()), np.float32) > 30


def test_exp_at_its_ends(spoiled: None) -> None:
    inf = float("inf")
    found = run(device.exp_, torch.tensor([-inf, inf, float("nan"), 0.0, 1000.0, -1000.0]))
    np.testing.assert_allclose(found, [0, inf, np.nan, 1, inf, 0], rtol=3e-7)


FLOAT: dict[str, tuple[object, Callable[[np.ndarray], np.ndarray], torch.Tensor, float]] = {
    "expm1": (device.expm1_, np.expm1, torch.cat([torch.linspace(-30, 88, 20_001), torch.randn(20_000) * 1e-3]), 1.7),
    "log1p": (
        device.log1p_,
        np.log1p,
        torch.cat([torch.linspace(-0.9999, 3, 20_001), torch.exp(torch.linspace(-100, 80, 20_001))]),
        3.0,  # of which 2 are numpy's logarithm of float32
    ),
}


@pytest.mark.parametrize("name", FLOAT)
def test_float32(name: str) -> None:
    function, exact, x, bound = FLOAT[name]
    assert ulps(run(function, x), exact(x.double().numpy()), np.float32) < bound


@pytest.mark.parametrize("name", ["expm1", "log1p"])
def test_float64(name: str) -> None:
    """expm1: its polynomial; log1p: one rounding more than the logarithm's. Against 50 digits."""
    function, x = FLOAT[name][0], FLOAT[name][2].double()[::41].contiguous()
    exact = np.array([float(getattr(mpmath, name)(mpmath.mpf(v))) for v in x.tolist()])
    assert ulps(run(function, x), exact, np.float64) < 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_lgamma_and_erf(dtype: torch.dtype) -> None:
    """lgamma runs in float64: it has float32's digits everywhere, and float64's but for those that differences of
    logarithms beyond 1/8 of its zeros at 1 and 2 cost (and beside its zeros below 0)."""
    near = torch.cat([s * torch.logspace(-12, -0.91, 60, dtype=torch.float64) for s in (1.0, -1.0)])
    for zero in (1.0, 2.0):
        y = (zero + near).to(dtype)
        found = np.array([float(mpmath.loggamma(mpmath.mpf(v))) for v in y.tolist()])
        # by 2, -0.58 h and log1p(h) leave 0.42 h, so that their own units count up to fourfold
        assert ulps(run(device.lgamma_, y), found, np.float32 if dtype == torch.float32 else np.float64) < 6
    x = torch.cat([torch.linspace(0.01, 40, 400), torch.linspace(-5.45, -0.3, 40), torch.tensor([1e6])]).to(dtype)
    exact = np.array([float(mpmath.log(abs(mpmath.gamma(mpmath.mpf(v))))) for v in x.tolist()])
    kind = np.float32 if dtype == torch.float32 else np.float64
    small = (np.abs(exact) < 1e-2) & (x.numpy() < 0)
    assert ulps(run(device.lgamma_, x)[~small], exact[~small], kind) < (0.6 if kind is np.float32 else 400)
    exact = np.array([float(mpmath.erf(mpmath.mpf(v))) for v in x.tolist()])
    assert ulps(run(special.erf_, x), exact, kind) < 1.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_atan(dtype: torch.dtype) -> None:
    """In float64: two roundings more than one; in float32 one alone."""
    x = torch.cat([torch.linspace(-4, 4, 801), torch.logspace(-20, 20, 101), torch.tensor([0.66, 2.4142135])]).to(dtype)
    exact = np.array([float(mpmath.atan(mpmath.mpf(v))) for v in x.tolist()])
    kind = np.float32 if dtype == torch.float32 else np.float64
    assert ulps(run(device.atan_, x), exact, kind) < (0.51 if kind is np.float32 else 2)
    ends = run(device.atan_, torch.tensor([float("inf"), -float("inf"), float("nan")], dtype=dtype))
    np.testing.assert_allclose(ends, [np.pi / 2, -np.pi / 2, np.nan], rtol=1e-7)


@triton.jit
def ordered(x, present, y, n, DOWN: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)[None, :]
    there = i < n
    key = tl.load(x + i, mask=there, other=0.0)
    keep = tl.load(present + i, mask=there, other=0) != 0
    tl.store(y + i, lanes.order_(key, keep, there, DOWN), mask=there)


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_order(dtype: torch.dtype, down: bool) -> None:
    """As torch sorts stably, what is absent behind: ties, signed zeros, infinities and a NaN among the keys."""
    torch.manual_seed(3)
    x = torch.randn(21, dtype=dtype)
    x[[3, 9, 11]] = x[0].clone()
    x[4], x[5], x[6], x[7], x[8] = 0.0, -0.0, float("inf"), -float("inf"), float("nan")
    x[12] = x[13] * (1 + 3 * torch.finfo(dtype).eps)  # differs in the last places alone
    present = torch.ones(21, dtype=torch.int32)
    present[[1, 8, 11]] = 0
    found = torch.empty(21, dtype=torch.int64)
    ordered[(1,)](x, present, found, 21, DOWN=down, B=32)
    wanted = x.argsort(descending=down, stable=True)
    wanted = torch.cat([wanted[present[wanted] == 1], wanted[present[wanted] == 0]])
    assert found.tolist() == wanted.tolist()


def test_pow() -> None:
    x = torch.rand(20_000) * 3
    y = torch.randn(20_000) * 10
    exact = x.double().numpy() ** y.double().numpy()
    assert ulps(run(device.pow_, x, y), exact, np.float32) < 0.6
    special = torch.tensor([0.0, 0.0, 0.0, 1.0, -2.0, -2.0, -2.0, float("nan")])
    powers = torch.tensor([0.0, 2.0, -1.0, float("inf"), 3.0, 2.0, 0.5, 0.0])
    wanted = special.double().numpy() ** powers.double().numpy()
    np.testing.assert_allclose(run(device.pow_, special, powers), wanted)


def test_rounding_and_signs() -> None:
    x = torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5, 3.2, -3.7, 0.0, 8388609.0, -8388611.0, 16777215.0, float("nan")])
    np.testing.assert_array_equal(run(device.round_, x), torch.round(x).double().numpy())
    wide = torch.tensor([2.5, 4503599627370497.0, -4503599627370499.0], dtype=torch.float64)
    np.testing.assert_array_equal(run(device.round_, wide), torch.round(wide).numpy())
    np.testing.assert_array_equal(run(device.sign_, x), np.sign(x.double().numpy()))
    endless = torch.tensor([float("inf"), float("-inf")])
    np.testing.assert_array_equal(run(device.sign_, endless), [1.0, -1.0])
    p, q = torch.tensor([1.0, float("nan"), 2.0]), torch.tensor([3.0, 1.0, float("nan")])
    np.testing.assert_array_equal(run(device.maximum_, p, q), np.maximum(p.numpy(), q.numpy()))
    np.testing.assert_array_equal(run(device.minimum_, p, q), np.minimum(p.numpy(), q.numpy()))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_mod(dtype: torch.dtype) -> None:
    """x - y·⌊x/y⌋ of the exact numbers, whatever the quotient; torch's at infinities, zero and NaN."""
    torch.manual_seed(0)
    x = torch.tensor([7.0, -7.0, 7.0, -7.0, 1e10, 30000002.0, -30000002.0, 2e38, 1e-45, 5.0, -1e-30, 82.0], dtype=dtype)
    y = torch.tensor([3.0, 3.0, -3.0, -3.0, 3.0, 3.0, 3.0, 0.7, 3.0, 1e-5, 1e30, 41.0], dtype=dtype)
    x = torch.cat([x, torch.randn(500, dtype=dtype) * 2.0 ** torch.randint(-40, 60, (500,))])
    y = torch.cat([y, torch.randn(500, dtype=dtype) * 2.0 ** torch.randint(-40, 60, (500,))])
    pairs = [(Fraction(a), Fraction(b)) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    wanted = torch.tensor([float(a - b * (a // b)) for a, b in pairs], dtype=torch.float64).to(dtype)
    np.testing.assert_array_equal(run(device.mod_, x, y), wanted.double().numpy())
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([5.0, -5.0, 5.0, inf, 5.0, nan, 0.0], dtype=dtype)
    y = torch.tensor([inf, inf, -inf, 3.0, 0.0, 3.0, 3.0], dtype=dtype)
    np.testing.assert_array_equal(run(device.mod_, x, y), torch.remainder(x, y).double().numpy())


ARGMAX = """loss largest
input x[N, C]
return x[argmax[C](x)]
"""


@pytest.mark.parametrize(
    "how", [{"kind": "rows"}, {"kind": "blocks", "block": 4, "splits": 1}, {"kind": "blocks", "block": 4, "splits": 2}]
)
def test_argmax_finds_a_nan(how: dict[str, Any]) -> None:
    """The first one, as torch's does; of infinities the first."""
    x = torch.randn(4, 17, generator=torch.Generator().manual_seed(0))
    x[0, 9] = x[1, 1] = x[1, 16] = float("nan")
    x[2] = float("-inf")
    with shaped(rows=1, warps=4, **how):
        found = lossdsl.loss(lossdsl.loads(ARGMAX), backend="triton", reduction="none")(x)
    torch.testing.assert_close(found, x.gather(1, x.argmax(1, keepdim=True))[:, 0], rtol=0, atol=0, equal_nan=True)


STEPS = """loss steps
input x[N, C]
input t[N, C]
input z[N, C]
steps = floor(x / 41) + mod(x, 41) + (1 - x / 41 / 2 < 0.5) + (x / t - 1 >= 0)
return sum[C](steps * z)
"""


@pytest.mark.parametrize(
    "how", [{"kind": "rows"}, {"kind": "blocks", "block": 64, "splits": 1}], ids=["rows", "blocks"]
)
def test_steps_of_quotients_are_exact(how: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """`/` of entries is off by a unit in the last place on a device (div.full.f32), which moves 41/41 below 1. The
    interpreter's is exact, so here it is a product with a rounded reciprocal."""

    def approximate(self: Any, x: Any, y: Any) -> Any:
        if x.data.dtype != np.float32:
            return self.binary_op(x, y, np.divide)
        return self.binary_op(x, y, lambda a, b: a * (np.float32(1) / b))

    builder = type(interpreter_builder)
    monkeypatch.setattr(builder, "create_fdiv", approximate)
    x = (41 * torch.arange(1.0, 101)).reshape(2, 50)
    z = torch.rand(2, 50, generator=torch.Generator().manual_seed(0))
    assert (x * (torch.tensor(1.0) / 41) < x / 41).any()
    with shaped(rows=1, warps=4, **how):
        found = lossdsl.loss(lossdsl.loads(STEPS), backend="triton", reduction="none")(x, x, z)
    wanted = ((x / 41) * z + (x / 82 > 0.5) * z + z).sum(1)
    torch.testing.assert_close(found, wanted, rtol=1e-6, atol=0)
