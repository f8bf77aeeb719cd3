"""Counting what a program costs."""

from __future__ import annotations

import pytest

from lossdsl.plan.cost import count
from lossdsl.plan.text import parse_kernel
from tests.kernel.programs import program

SIZES = {"N": 4096, "C": 1000, "D": 128}


@pytest.mark.parametrize(
    ("name", "sweeps", "reads", "writes", "exps", "bytes"),
    [
        ("cross_entropy_value", 1, 1, 0, 1, 4),
        ("cross_entropy_gradient", 2, 1, 1, 1, 8),
        ("cross_entropy_both", 2, 1, 1, 1, 8),
        ("jsd_value", 2, 2, 0, 5, 8),
        ("jsd_gradient", 3, 2, 2, 5, 16),
        ("dice_value", 2, 1, 0, 1, 4),
        ("dice_gradient", 4, 2, 1, 2, 12),
    ],
)
def test_rows_cost_what_they_read_and_write(
    name: str, sweeps: int, reads: float, writes: float, exps: float, bytes: float
) -> None:
    """Up to the rows' own scalars, a part in C of the whole."""
    cost = count(program(name), SIZES)
    assert cost.sweeps == sweeps
    found = (cost.reads, cost.writes, cost.exps)
    assert found == pytest.approx((reads, writes, exps), abs=0.01)
    assert cost.bytes == pytest.approx(bytes, abs=0.07)


def test_without_loops_every_statement_goes_through_memory() -> None:
    flat = """kernel k.value
axes N, C
in z[N, C]: real
out rows[N]: real
a[N, C] = load z[N, C]
b[N, C] = exp(a)
c[N, C] = mul(a, b)
s[N] = reduce sum over C (c)
store rows[N] = s
"""
    cost = count(parse_kernel(flat), SIZES)
    assert (cost.sweeps, cost.exps) == (3, 1)
    assert cost.reads == pytest.approx(4)  # z, z and b, c
    assert cost.writes == pytest.approx(2.001)


def test_what_a_row_keeps_on_chip_is_no_traffic() -> None:
    text = """kernel k.value
axes N, C
in z[N, C]: real
out rows[N, C]: real
scratch kept[N, C]: real
for N:
  for C:
    a[N, C] = load z[N, C]
    b[N, C] = exp(a)
    s[N] = reduce sum over C (b)
    store kept[N, C] = b
  for C:
    c[N, C] = load kept[N, C]
    d[N, C] = div(c, s)
    store rows[N, C] = d
"""
    cost = count(parse_kernel(text), SIZES)
    assert (cost.sweeps, cost.reads, cost.writes, cost.exps) == (2, 1.0, 1.0, 1.0)
