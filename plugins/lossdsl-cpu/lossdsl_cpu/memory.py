"""Memory for results: large ones in huge pages, from blocks that are kept for the next call.

A gradient as large as the logits is made and freed once a training step. Handed back to the system every time, its
pages are faulted in every time, which costs as much as the kernel, and several times that where a hypervisor takes free
huge pages back (a virtual machine with free page reporting). So up to `LOSSDSL_CPU_KEEP` MiB (512 unless it is set; 0
keeps nothing) stay with the process. A block is used again when no tensor holds it any more.

Part of the run time of generated modules: imports nothing of lossdsl.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import threading
from collections.abc import Callable

import torch
from torch import Tensor

HUGE = 4 << 20  # bytes from which memory is asked for in huge pages, and kept
PAGE = 2 << 20
MADV_HUGEPAGE = 14


class Block:
    """Memory of the process's own, seen by tensors as a buffer: each that lives holds a reference to it."""

    __slots__ = ("memory", "offset", "owned", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.memory = mmap.mmap(-1, size + PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        start = torch.frombuffer(self.memory, dtype=torch.uint8, count=1).data_ptr()
        self.offset = -start % PAGE
        if _madvise is not None:
            _madvise(ctypes.c_void_p(start + self.offset), ctypes.c_size_t(size), MADV_HUGEPAGE)
        self.owned = sys.getrefcount(self.memory)  # while no tensor has it

    def free(self) -> bool:
        return sys.getrefcount(self.memory) <= self.owned


class Pool:
    """The blocks that are kept, the one used last at the end. In use or free, they are at most `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.blocks: list[Block] = []
        self._lock = threading.Lock()

    def tensor(self, numel: int, dtype: torch.dtype) -> Tensor | None:
        """A flat tensor over a free block; None where there is no room for one more."""
        size = -(-numel * dtype.itemsize // PAGE) * PAGE
        with self._lock:
            fit = [b for b in self.blocks if size <= b.size <= 2 * size and b.free()]
            block = min(fit, key=lambda b: b.size, default=None)
            if block is None:
                if not self._make_room(size):
                    return None
                block = Block(size)
            else:
                self.blocks.remove(block)
            self.blocks.append(block)
            return torch.frombuffer(block.memory, dtype=dtype, count=numel, offset=block.offset)

    def release(self) -> None:
        """Hand what no tensor holds back to the system."""
        with self._lock:
            self.blocks = [b for b in self.blocks if not b.free()]

    def _make_room(self, size: int) -> bool:
        """Whether a block of this size may be added, after the oldest free ones have gone."""
        total = sum(b.size for b in self.blocks)
        for b in list(self.blocks):
            if total + size <= self.limit:
                break
            if b.free():
                self.blocks.remove(b)
                total -= b.size
        return total + size <= self.limit


def limit() -> int:
    """How many bytes are kept: `LOSSDSL_CPU_KEEP` in MiB, 512 unless it is set; ValueError if it is no number."""
    text = os.environ.get("LOSSDSL_CPU_KEEP", "512")
    if not text.isdecimal():
        raise ValueError(f"LOSSDSL_CPU_KEEP is a number of MiB, not {text!r}")
    return int(text) << 20


def fresh(like: Tensor) -> Tensor:
    """Memory for a result of this tensor's shape, dtype and order of dimensions."""
    size = like.numel() * like.element_size()
    if size < HUGE:
        return torch.empty_like(like)
    if size <= POOL.limit:
        flat = POOL.tensor(like.numel(), like.dtype)
        if flat is not None:
            if like.is_contiguous():
                return flat.view(like.shape)
            return flat.as_strided(like.shape, torch.empty_like(like, device="meta").stride())
    out = torch.empty_like(like)
    if _madvise is not None:
        start = -(-out.data_ptr() // PAGE) * PAGE
        _madvise(ctypes.c_void_p(start), ctypes.c_size_t((out.data_ptr() + size - start) // PAGE * PAGE), MADV_HUGEPAGE)
    return out


def release() -> None:
    """Hand memory that is kept for later results back to the system."""
    POOL.release()


def _system_call(name: str) -> Callable[..., int] | None:
    """A function of the C library, if it's there (elsewhere than on Linux it may not be)."""
    try:
        found: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return None
    return found


_madvise = _system_call("madvise") if sys.platform == "linux" else None
POOL = Pool(limit())
