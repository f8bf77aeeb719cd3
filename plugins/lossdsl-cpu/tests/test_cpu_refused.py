"""What a kernel can't do is an error of the call, never the end of the process: memory that isn't there, in and outside
of parallel regions, and rows that are too long."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence

import pytest
import torch
from cpu_harness import arguments, compiled, program
from lossdsl_cpu import load
from lossdsl_cpu.build import load_library
from test_cpu_programs import inputs
from torch import Tensor

# An allocation that fails where the environment says: the n-th since it says so.
ALLOCATION = "std::aligned_alloc(64, size + 64)"
PLANTED = """
static void *planted(size_t size) {
  static long before = -1, calls = 0;
  bool fails;
  #pragma omp critical
  {
    const char *text = getenv("PLANTED");
    const long n = text ? atol(text) : -1;
    if (n != before) before = n, calls = 0;
    fails = calls++ == n;
  }
  return fails ? nullptr : std::aligned_alloc(64, size);
}
"""
# name, rows, entries: a program of plain loops, one of tiles, one with sums over all rows of each class. Working memory
# of 16 KiB is the stack's, so these have more; how often they ask for it.
CASES = [("batch_hard_gradient", 20, 3000, 20), ("cross_entropy_both", 40, 9000, 3), ("dice_gradient", 600, 700, 9)]


@pytest.mark.parametrize(("name", "n", "c", "least"), CASES, ids=[case[0] for case in CASES])
def test_memory_that_is_not_there(name: str, n: int, c: int, least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load.SUPPORT.count(ALLOCATION) == 1
    before, after = load.SUPPORT.split("struct Arena {")
    after = after.replace(ALLOCATION, "planted(size + 64)")
    monkeypatch.setattr(load, "SUPPORT", f"{before}{PLANTED}struct Arena {{{after}")
    p = program(name)
    given = inputs(name, n, c, torch.float32)
    apart = [x.repeat(1, 2)[:, ::2].copy_(x) if x.dim() == 2 else x for x in arguments(p, given)]  # tiles are copies
    call = compiled(p)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        failures = refused_until_enough(call, apart, monkeypatch)
    finally:
        torch.set_num_threads(threads)
    assert failures >= least, "too few allocations were asked to fail"


def refused_until_enough(
    call: Callable[..., tuple[Tensor, ...]], tensors: Sequence[Tensor], env: pytest.MonkeyPatch
) -> int:
    """How many calls are refused, each for one allocation more than the last; the first that is not gives what it
    should."""
    whole = call(*tensors)
    failures = 0
    while failures < 200:
        env.setenv("PLANTED", str(failures))
        try:
            found = call(*tensors)
        except torch.OutOfMemoryError:
            failures += 1
        else:
            assert all(torch.equal(a, b) for a, b in zip(found, whole, strict=True))
            break
    return failures


def test_a_number_of_entries_that_no_64_bits_hold() -> None:
    """What would wrap around to less is as much as there can be, and refused: the arena is asked for n·n·n entries."""
    text = """
namespace own {
static void work(const long *a, Status &) {
  Arena arena;
  arena.raw<double>(room(a[0], a[0], a[0]));
}
extern "C" long run(const long *a) { return attempt(work, a); }
}
"""
    run = load_library(load.prelude(text) + text, []).run
    run.restype = ctypes.c_long
    sizes = [10, 2**31 - 1, 2**32, 2**40]  # the third power is 1000, nearly 2^93, 0 and 0 in 64 bits
    found = [run(struct.pack("l", n)) for n in sizes]
    assert found[0] == 0
    assert all(status > 2**62 for status in found[1:])


def test_rows_that_are_too_long() -> None:
    """Two rows of one entry, seen 2^31 times."""
    p = program("cross_entropy_value")
    given = inputs("cross_entropy_value", 2, 1, torch.float32)
    tensors = [x.expand(2, 2**31) if x.dim() == 2 else x for x in arguments(p, given)]
    with pytest.raises(ValueError, match="rows of 2147483648 entries: C\\+\\+ kernels count them in 32 bits"):
        compiled(p)(*tensors)
