"""Memory that is kept: used again only when no tensor holds it, never more than the limit."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest
import torch
from lossdsl_cpu import memory
from lossdsl_cpu.memory import PAGE, Pool, fresh

NUMEL = (3 * PAGE) // 4  # of float32: 3 pages


def test_a_block_is_used_again_when_its_tensors_are_gone() -> None:
    pool = Pool(16 * PAGE)
    first = pool.tensor(NUMEL, torch.float32)
    assert first is not None
    place = first.data_ptr()
    assert place % PAGE == 0
    view = first[5:9].view(2, 2)
    del first
    other = pool.tensor(NUMEL, torch.float32)
    assert other is not None
    assert other.data_ptr() != place, "memory that a view still has was given away"
    del view
    gc.collect()
    again = pool.tensor(NUMEL - 7, torch.bfloat16 if NUMEL % 2 else torch.float32)
    assert again is not None
    assert again.data_ptr() == place


def test_what_autograd_saves_is_held() -> None:
    pool = Pool(16 * PAGE)
    x = pool.tensor(NUMEL, torch.float32)
    assert x is not None
    place = x.fill_(2.0).data_ptr()
    y = torch.ones(NUMEL, requires_grad=True)
    product = y * x
    del x
    other = pool.tensor(NUMEL, torch.float32)
    assert other is not None
    assert other.data_ptr() != place
    other.fill_(-1.0)
    (grad,) = torch.autograd.grad(product.sum(), [y])
    assert bool((grad == 2).all())


def test_never_more_than_the_limit() -> None:
    pool = Pool(8 * PAGE)
    held = [pool.tensor(NUMEL, torch.float32) for _ in range(3)]
    assert [x is None for x in held] == [False, False, True]
    held.pop(0)
    large = pool.tensor(2 * NUMEL + 1, torch.float32)
    assert large is None, "four pages are not free while one tensor of three lives"
    small = pool.tensor(NUMEL, torch.float32)
    assert small is not None
    assert sum(b.size for b in pool.blocks) <= pool.limit
    del held, small
    pool.release()
    assert pool.blocks == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_fresh_has_the_shape_dtype_and_order_of_its_model(dtype: torch.dtype) -> None:
    wide = torch.zeros(2048, 1100, dtype=dtype)
    for like in (wide, wide.t(), wide.view(4, 512, 1100).permute(2, 0, 1)):
        out = fresh(like)
        wanted = torch.empty_like(like)
        assert (out.shape, out.stride(), out.dtype) == (wanted.shape, wanted.stride(), dtype)
        out.fill_(1)
        assert not out.requires_grad
    memory.release()


def test_a_wrong_limit_is_said() -> None:
    code = "import os; os.environ['LOSSDSL_CPU_KEEP'] = 'lots'; import lossdsl_cpu.memory"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "LOSSDSL_CPU_KEEP is a number of MiB, not 'lots'" in done.stderr
