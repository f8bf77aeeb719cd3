"""Shapes at the seams of tiles and blocks, and numbers of threads, beyond what every backend is asked."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from cpu_harness import arguments, compiled, error, interpreted, program
from lossdsl_cpu.source import source

from lossdsl.plan.text import parse_kernel
from lossdsl.registry import Registry

SHAPES = [(5, 7), (16, 64), (32, 12), (67, 10), (40, 65), (17, 100), (3, 2049), (2, 5000)]


def cross_entropy(n: int, c: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> dict[str, Any]:
    torch.manual_seed(seed)
    target = torch.randint(c, (n,))
    target[2::7] = -100
    return {
        "logits": (torch.randn(n, c) * 4).to(dtype),
        "target": target,
        "ignore_index": -100,
        "@rows": torch.rand(n) + 0.5,
    }


def run(name: str, given: dict[str, Any]) -> tuple[torch.Tensor, ...]:
    p = program(name)
    return compiled(p)(*arguments(p, given))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", ["cross_entropy_value", "cross_entropy_gradient", "cross_entropy_both"])
def test_float32_against_the_interpreter(name: str, shape: tuple[int, int], registry: Registry) -> None:
    given = cross_entropy(*shape)
    if name.endswith("both"):
        given["@rows"] = 0.75
    p = program(name)
    wanted = interpreted(p, registry, given)
    for b, x in zip((b for b in p.buffers if b.role == "out"), run(name, given), strict=True):
        assert error(x, wanted[b.name]) < 6e-6, b.name


@pytest.mark.parametrize("name", ["cross_entropy_value", "cross_entropy_gradient", "dice_value", "dice_gradient"])
@pytest.mark.parametrize("shape", [(70_000, 3), (900, 100), (40, 5000)], ids=str)
def test_the_number_of_threads_changes_no_bit(name: str, shape: tuple[int, int]) -> None:
    given = cross_entropy(*shape)
    given |= {"smooth": 0.5, "@rows": torch.ones(shape[0]) if name.startswith("cross") else 0.7}
    before = torch.get_num_threads()
    try:
        found = []
        for threads in (1, 2, 3, 7):
            torch.set_num_threads(threads)
            found.append(run(name, given))
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        for x, y in zip(found[0], other, strict=True):
            assert torch.equal(x, y)


def test_a_tensor_elsewhere_is_refused() -> None:
    given = cross_entropy(4, 3)
    with pytest.raises(TypeError, match="built for the CPU, but a tensor is on meta"):
        run("cross_entropy_value", {**given, "logits": given["logits"].to("meta")})


def test_a_dtype_without_a_kernel_is_named() -> None:
    given = cross_entropy(4, 3)
    with pytest.raises(TypeError, match=r"logits: no kernel for torch\.complex64"):
        run("cross_entropy_value", {**given, "logits": given["logits"].to(torch.complex64)})


PICKED = """kernel picked.value
axes N, C
in logits[N, C]: real
in target[N]: int
param ignore_index: int
out rows[N]: real
out top[N]: real
ignore_index_1: int = load ignore_index
for N:
  for C:
    z[N, C] = load logits[N, C]
    square[N, C] = mul(z, z)
    sum[C] = reduce sum over N (square)
for N:
  y[N]: int = load target[N]
  keep[N]: bool = ne(y, ignore_index_1)
  guard keep
  for C:
    z_1[N, C] = load logits[N, C]
    m[N], rest[N] = reduce logsumexp over C (z_1)
    low[N] = reduce min over C (z_1)
    leader[N]: int = reduce argmax over C (z_1)
  sum_at[N] = pick sum[C -> y]
  a[N] = sub(sum_at, m)
  store rows[N] = a
  sum_leader[N] = pick sum[C -> leader]
  b[N] = sub(sum_leader, low)
  store top[N] = b
"""


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_rows_read_what_a_loop_before_left_for_each_class(shape: tuple[int, int], registry: Registry) -> None:
    """At the target, which is nowhere where a row is ignored, and at the leader: by rows in both layouts, not by the
    plain printer. Exact but for the order of a double's sum."""
    p = parse_kernel(PICKED)
    assert source(p, {}).count("// rows over N") == 2
    given = cross_entropy(*shape, dtype=torch.float64)
    given["logits"][0, -1] = given["logits"].max() + 1  # an extreme that is the last of its strip
    given["logits"][1, -1] = given["logits"].min() - 1
    wanted = interpreted(p, registry, given)
    found = compiled(p)(*arguments(p, given))
    for name, x in zip(("rows", "top"), found, strict=True):
        assert error(x, wanted[name]) < 1e-14, name
