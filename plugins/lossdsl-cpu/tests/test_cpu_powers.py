"""Powers whose exponent comes with the call: products where it is a small whole number, in a loop of its own."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from cpu_harness import compiled
from lossdsl_cpu.emit import emit

from lossdsl.backends.api import Plan
from lossdsl.plan.text import parse_kernel

# The maximum makes it rows of a sweep.
PROGRAM = """
kernel powers.value
axes N, C
in x[N, C]: real
param p: real
out y[N, C]: real
out most[N]: real
e = load p
for N:
  for C:
    a[N, C] = load x[N, C]
    b[N, C] = pow(a, e)
    m[N] = reduce max over C (a)
    store y[N, C] = b
  store most[N] = m
"""
BASES = [0.0, -0.0, 1.0, -1.0, 0.1, -0.7, 1.5, -3.0, 31.0, 1e-30, 3e38, -3e38, 9e37, 1e-45, np.inf, np.nan]


@pytest.mark.parametrize("lanes", [True, False], ids=["in lanes", "along the row"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_exponent_gives_the_power(dtype: torch.dtype, lanes: bool) -> None:
    """A float is its float64 power rounded, but for the last place where that is near a tie (the general power has some
    35 bits, the products at most six roundings of 53); a double is the C library's, within a unit of the last place."""
    drawn = torch.randn(20, 50, generator=torch.Generator().manual_seed(0), dtype=torch.float64).mul(3).to(dtype)
    x = torch.cat([drawn.flatten(), torch.tensor(BASES, dtype=dtype)])
    x = x.view(-1, 8) if lanes else x.view(4, -1)
    call = compiled(parse_kernel(PROGRAM))
    unit = torch.finfo(dtype).eps
    for exponent in (*range(-1, 18), 0.5, 1.5, 2.5, -0.0, np.inf, np.nan):
        found = call(x, torch.tensor(float(exponent), dtype=torch.float64))[0].double().numpy()
        with np.errstate(all="ignore"):
            exact = np.power(x.double().numpy(), float(exponent))
        wanted = torch.from_numpy(exact).to(dtype).double().numpy()
        both = np.isfinite(wanted) & np.isfinite(found)
        assert np.array_equal(found[~both], wanted[~both], equal_nan=True), exponent
        if exponent != 0.5:  # numpy takes its square root, of -0 too
            assert np.array_equal(np.signbit(found[both]), np.signbit(wanted[both])), exponent
        assert (np.abs(found[both] - wanted[both]) <= unit * np.abs(wanted[both])).all(), exponent


def test_there_are_products() -> None:
    """Where the exponent is small and whole, the loop has no general power, in either layout."""
    text = emit(Plan((parse_kernel(PROGRAM),))).functions
    head, small, rest = text.partition("if (small_power(e)) {")
    assert small
    assert "pow(a_" not in head
    assert rest.count("pow(products(), ") == 2
