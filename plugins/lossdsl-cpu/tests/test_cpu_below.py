"""exp(x) - exp(y) below a maximum y: where it is seen, where it isn't, and its digits."""

from __future__ import annotations

import pytest
import torch
from cpu_harness import arguments, compiled, error, interpreted
from lossdsl_cpu.ranges import narrowed
from lossdsl_cpu.scope import subtree
from test_cpu_library import REGISTRY, planned

from lossdsl.backends.api import Let
from lossdsl.plan.text import parse_kernel

PROGRAM = """kernel below.value
axes N, C
in logits[N, C]: real
in shift[N]: real
out rows[N, C]: real
scratch row_shift[N]: real
for N:
  shift_1[N] = load shift[N]
  store row_shift[N] = shift_1
  for C:
    z[N, C] = load logits[N, C]
    a[N, C] = sub(z, shift_1)
    top[C] = reduce max over N (a)
for N:
  shift_2[N] = load row_shift[N]
  for C:
    z_1[N, C] = load logits[N, C]
    b[N, C] = sub(z_1, shift_2)
    expsub[N, C] = expsub(b, top)
    store rows[N, C] = expsub
"""
GUARDED = PROGRAM.replace("  for C:\n    z[N", "  some[N]: bool = lt(shift_1, 1)\n  guard some\n  for C:\n    z[N")
OTHER = {
    "the smallest": PROGRAM.replace("reduce max", "reduce min"),
    "a maximum of something else": PROGRAM.replace("sub(z, shift_1)", "add(z, shift_1)"),
    "the other way round": PROGRAM.replace("expsub(b, top)", "expsub(top, b)"),
    "rows without a maximum": GUARDED,
    "an array that is kept of some rows": PROGRAM.replace(
        "= shift_1\n  for C", "= shift_1 where some\n  for C"
    ).replace("  store row_shift", "  some[N]: bool = lt(shift_1, 1)\n  store row_shift"),
}


def seen(text: str) -> bool:
    return any(isinstance(s, Let) and s.op == "expsub_below" for s in subtree(narrowed(parse_kernel(text)).body))


def test_where_it_is_seen() -> None:
    assert seen(PROGRAM)
    found = [s.op for s in subtree(narrowed(planned("std/dist_kd")[0].program).body) if isinstance(s, Let)]
    assert found.count("expsub_below") == 6, "of each class's probabilities over the rows, in three sweeps"
    assert "expsub" not in found


@pytest.mark.parametrize("which", OTHER)
def test_where_it_is_not(which: str) -> None:
    assert OTHER[which] != PROGRAM
    assert not seen(OTHER[which])


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 5e-16), (torch.float32, 3e-7)], ids=["double", "single"])
@pytest.mark.parametrize("shape", [(37, 10), (9, 70), (1, 1), (3, 2100)], ids=str)
def test_every_digit(dtype: torch.dtype, bound: float, shape: tuple[int, int]) -> None:
    """Against the interpreter: relative to each entry, exp (1.1 ulp), expm1 (1.7 ulp) and a product; where two entries
    nearly meet, at gaps that are exact; infinities."""
    n, c = shape
    draw = torch.Generator().manual_seed(c)
    z = (torch.randn(n, c, generator=draw) * 30).round() / 4  # shifts of quarters: every gap is exact
    z[-1] = z[0] + 2.0**-12
    if n > 1:
        z[1, 0] = -torch.inf
        z[:, -1] = -torch.inf
    given = {"logits": z.to(dtype), "shift": (torch.randn(n, generator=draw) * 8).round().to(dtype) / 4}
    p = parse_kernel(PROGRAM)
    (found,) = compiled(p)(*arguments(p, given))
    wanted = interpreted(p, REGISTRY, given)["rows"]
    tiny = torch.finfo(dtype).tiny
    assert error(torch.where(found.abs() < tiny, 0, found), wanted * (abs(wanted) >= tiny)) < bound
