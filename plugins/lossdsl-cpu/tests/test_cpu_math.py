"""The polynomials against numpy in double (for floats) and in long double (for doubles), over dense samples."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
import torch
from lossdsl_cpu.build import FLAGS, compiler, library
from lossdsl_cpu.load import prelude

import lossdsl
from lossdsl.accuracy.exact import exact, written
from lossdsl.accuracy.measure import Report, judge, run_torch
from lossdsl.accuracy.rows import cases
from lossdsl.api import registry

BOUNDS = {"exp": (1.1, 1.3), "exp_neg": (1.1, 1.3), "expm1": (1.7, 1.9), "log": (1.0, 1.0), "log1p": (1.5, 1.5)}
BOUNDS |= {"expm1_low": (1.7, 1.9), "expm1mx_near": (2.0, 2.5)}
EXACT = {"exp": np.exp, "exp_neg": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p}
EXACT |= {"expm1_low": np.expm1, "expm1mx_near": lambda x: np.where(np.abs(x) < 0.05, series(x), np.expm1(x) - x)}
# Those of which a float's comes from straight-line code in double, to half a unit of its last place and little more;
# beside the zeros of lgamma digits cancel that a double has not got.
RARE = dict.fromkeys(("sin", "cos", "tan", "asin", "acos", "atan", "erf", "digamma", "trigamma", "tetragamma"), 0.52)
RARE |= {"lgamma": 2.0, "pow": 0.6}
LOOP = """
namespace own {
extern "C" void run(const long *a) {
  const R_T *x = (const R_T *)a[1];
  R_T *y = (R_T *)a[2];
  #pragma omp simd
  for (long i = 0; i < a[0]; ++i) y[i] = F(x[i]);
}
}
"""


def series(x: np.ndarray) -> np.ndarray:
    """exp(x) - 1 - x near 0."""
    total, term = np.zeros_like(x), x * 0 + 1
    for k in range(1, 14):
        term = term * x / k
        total = total + (term if k > 1 else 0)
    return total


def own(name: str, x: np.ndarray, exponents: np.ndarray | None = None) -> np.ndarray:
    real = "float" if x.dtype == np.float32 else "double"
    text = LOOP.replace("F(x[i])", f"{name}(x[i])" if exponents is None else f"{name}(x[i], ((const R_T *)a[3])[i])")
    function = ctypes.CDLL(str(library(prelude(text) + text, [f"R_T={real}"]))).run
    x, y = np.ascontiguousarray(x), np.empty_like(x)
    e = np.ascontiguousarray(x if exponents is None else exponents)
    function((ctypes.c_long * 4)(x.size, x.ctypes.data, y.ctypes.data, e.ctypes.data))
    return y


def samples(name: str) -> np.ndarray:
    rng = np.random.default_rng(0)
    near = np.concatenate([rng.normal(size=500_000), rng.normal(size=300_000) * 1e-3])
    tiny = np.exp(np.linspace(-103, 88.7, 700_001))
    return {
        "exp": np.concatenate([np.linspace(-104, 88.7, 1_500_001), near]),
        "exp_neg": -np.abs(np.concatenate([np.linspace(-104, 0, 1_500_001), near])),
        "expm1": np.concatenate([np.linspace(-30, 88.7, 1_000_001), near]),
        "expm1_low": np.concatenate([np.linspace(-30, 64, 1_000_001), np.minimum(near, 64)]),
        "expm1mx_near": np.concatenate([np.linspace(-0.5, 0.5, 1_000_001), np.clip(near, -0.5, 0.5)]),
        "log": np.concatenate([tiny, np.linspace(0.5, 2, 1_000_001)]),
        "log1p": np.concatenate([np.linspace(-0.9999, 3, 1_000_001), tiny, -np.exp(np.linspace(-100, -1e-7, 700_001))]),
    }[name]


def ulps(found: np.ndarray, exact: np.ndarray, kind: type) -> float:
    with np.errstate(over="ignore"):
        size = np.spacing(np.abs(exact).astype(kind)).astype(exact.dtype)
    differ = np.abs(found.astype(exact.dtype) - exact) / size
    return float(np.nanmax(np.where(np.isinf(size), 0, differ)))


@pytest.mark.parametrize("name", BOUNDS)
def test_float_errors(name: str) -> None:
    x = samples(name).astype(np.float32)
    exact = EXACT[name](x.astype(np.float64))
    keep = np.abs(exact) < np.finfo(np.float32).max
    assert ulps(own(name, x)[keep], exact[keep], np.float32) <= BOUNDS[name][0]


@pytest.mark.parametrize("name", BOUNDS)
def test_double_errors(name: str) -> None:
    x = samples(name)[::3]
    assert ulps(own(name, x), EXACT[name](x.astype(np.longdouble)), np.float64) <= BOUNDS[name][1]


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", [n for n in BOUNDS if n in ("exp", "expm1", "log", "log1p")])
def test_special_values(name: str, kind: type) -> None:
    least = np.nextafter(kind(0), kind(1))
    x = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, -1, least, -least, -2, 1e30, -1e30, 2**-130], kind)
    with np.errstate(all="ignore"):
        wanted = EXACT[name](x)
    np.testing.assert_allclose(own(name, x), wanted, rtol=4e-7 if kind == np.float32 else 1e-15)


def test_exp_of_denormal_results() -> None:
    x = np.linspace(-104.5, -87, 100_001).astype(np.float32)
    exact = np.exp(x.astype(np.float64))
    for name in ("exp", "exp_neg"):
        assert np.abs(own(name, x) - exact).max() <= 1.01 * 2.0**-149 + 1.2e-7 * 2.0**-126


@pytest.mark.parametrize("kind", ["bf16", "f16"])
def test_halves_round_once(kind: str) -> None:
    """Every half comes back as it was, and every float goes to the nearest half, ties to even."""
    text = """
namespace own {
extern "C" void run(const long *a) {
  const float *x = (const float *)a[1];
  H *h = (H *)a[2];
  float *y = (float *)a[3];
  #pragma omp simd
  for (long i = 0; i < a[0]; ++i) put(x[i], h + i);
  #pragma omp simd
  for (long i = 0; i < a[0]; ++i) y[i] = as_float(h[i]);
}
}
"""
    function: Callable[..., None] = ctypes.CDLL(str(library(prelude(text) + text, [f"H={kind}"]))).run
    dtype = torch.bfloat16 if kind == "bf16" else torch.float16
    every = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype).float()
    torch.manual_seed(0)
    bits = torch.randint(-(2**31), 2**31 - 1, (400_000,), dtype=torch.int64).to(torch.int32).view(torch.float32)
    midway = (every[:-1] + every[1:]) / 2
    x = torch.cat([every, midway, bits, torch.randn(100_000) * 1e-6, torch.tensor([65519.9, 65520.0, 1e-8, 2.0**-25])])
    h, y = torch.empty(x.numel(), dtype=dtype), torch.empty(x.numel())
    function((ctypes.c_long * 4)(x.numel(), x.data_ptr(), h.data_ptr(), y.data_ptr()))
    torch.testing.assert_close(h.float(), x.to(dtype).float(), rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(y, h.float(), rtol=0, atol=0, equal_nan=True)


def everywhere(seed: int = 0) -> np.ndarray:
    """Floats of every exponent and sign, by their bits, and those that losses have."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2**32, 1_500_000, dtype=np.uint32).view(np.float32)
    usual = np.concatenate([rng.normal(size=300_000) * 3, np.linspace(-40, 40, 400_001), np.linspace(-1, 1, 400_001)])
    return np.concatenate([bits[np.isfinite(bits)], usual.astype(np.float32)])


def in_double(name: str, x: np.ndarray) -> np.ndarray:
    if hasattr(np, name) and name != "pow":
        return np.asarray(getattr(np, name)(x))
    t = torch.from_numpy(x)
    order = {"trigamma": 1, "tetragamma": 2}.get(name)
    return (getattr(torch, name)(t) if order is None else torch.polygamma(order, t)).numpy()


def moderate(name: str, x: np.ndarray) -> np.ndarray:
    """Where torch's double is exact enough to compare with: its reflections lose digits beside poles and zeros."""
    if name in ("digamma", "trigamma", "tetragamma"):
        return x[(x > 1e-12) & (x < 1e12)] if name == "tetragamma" else x[x > 1e-18]
    return x[x > 0] if name == "lgamma" else x


@pytest.mark.parametrize("name", [n for n in RARE if n != "pow"])
def test_floats_by_way_of_double(name: str) -> None:
    x = moderate(name, everywhere())
    with np.errstate(all="ignore"):
        exact = in_double(name, x.astype(np.float64))
        found = own(name, x)
        fits = np.abs(exact) < np.finfo(np.float32).max
    assert fits.sum() > 500_000
    assert np.array_equal(np.isnan(found), np.isnan(exact))
    assert ulps(found[fits], exact[fits], np.float32) <= RARE[name]


def test_pow_of_floats() -> None:
    x, y = everywhere(1)[:2_500_000], np.random.default_rng(2).permutation(everywhere(3))[:2_500_000]
    y = np.where(np.arange(y.size) % 3 == 0, np.round(np.clip(y, -30, 30)), y).astype(np.float32)
    x = np.where(np.arange(x.size) % 2 == 0, np.exp(np.clip(x, -20, 20)), x).astype(np.float32)
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), y.astype(np.float64))
        found = own("pow", x, y)
        fits = np.abs(exact) < np.finfo(np.float32).max
    assert np.array_equal(np.isnan(found), np.isnan(exact))
    assert ulps(found[fits], exact[fits], np.float32) <= RARE["pow"]


def test_pow_of_what_is_special() -> None:
    some = np.array([0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, 1e30, 1e-30, np.inf, -np.inf, np.nan], np.float32)
    x, y = (m.ravel() for m in np.meshgrid(some, some))
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), y.astype(np.float64)).astype(np.float32)
    found = own("pow", x, y)
    np.testing.assert_array_equal(found, exact)
    np.testing.assert_array_equal(np.signbit(found[exact == 0]), np.signbit(exact[exact == 0]))


@pytest.mark.parametrize(("order", "name"), list(enumerate(["digamma", "trigamma", "tetragamma"])))
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_polygammas(order: int, name: str, kind: type) -> None:
    """Negative numbers and the neighbourhood of 1 and of zero too, at 40 digits."""
    rng = np.random.default_rng(4)
    x = np.concatenate(
        [rng.uniform(-8, 12, 300), rng.normal(size=60) * 1e-4, 1 + rng.normal(size=40) * 1e-3, [1e5, 30]]
    )
    x = x.astype(kind)
    with mpmath.workdps(40):
        exact = np.array([float(mpmath.psi(order, mpmath.mpf(float(v)))) for v in x])
    # the root of digamma at 1.46 is in the range, terms cancel as they do in reflections
    np.testing.assert_allclose(own(name, x), exact, rtol=1.2e-7 if kind == np.float32 else 3e-14, atol=1e-14)


def test_loops_over_floats_stay_vectors() -> None:
    """g++ says of each loop that calls one of the functions that it made vectors of it."""
    called = {name: f"{name}(x[i])" for name in RARE} | {"pow": "pow(x[i], y[i])"}
    loops = "".join(
        f"void loop_{name}(const float *x, float *__restrict y) {{\n"
        f"  #pragma omp simd\n  for (long i = 0; i < 4096; ++i) y[i] = {call};\n}}\n"
        for name, call in called.items()
    )
    command = [compiler(), "-O3", *FLAGS, "-fopt-info-vec", "-x", "c++", "-", "-o", os.devnull]
    text = f"{prelude(loops)}namespace own {{\n{loops}}}\n"
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if "unknown argument" in done.stderr:
        pytest.skip("-fopt-info-vec is g++'s")
    assert done.returncode == 0, done.stderr
    lines = text.splitlines()
    found = {int(line.split(":")[1]) for line in done.stderr.splitlines() if "loop vectorized" in line}
    scalar = [lines[n - 1] for n in range(1, len(lines) + 1) if "i < 4096" in lines[n - 1] and n not in found]
    assert scalar == []


def test_a_log_sum_exp_among_other_sums_sees_its_maximum_first() -> None:
    """Met late, its terms were rounded otherwise than those of the gradient: a row's sum was 7 units of its largest."""
    spec = lossdsl.load("llm/synib_gaussian")
    loss = written(spec.checked, registry())
    (case,) = (c for c in cases(loss.plain, loss.checked) if c.what == "one class ahead by 60")
    report = Report("synib_gaussian", "cpu", "float32", excusing=False)
    module = lossdsl.loss(spec, backend="cpu", reduction="none")
    judge(report, loss, case, exact(loss, case), run_torch(loss, module, case, "float32"))
    assert report.total.count == 2
    assert report.total.part <= 1, report.total
