"""Every loss of the std pack, and the language's example files, planned and printed, against the interpreter."""

from __future__ import annotations

import functools
import hashlib
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from cpu_harness import arguments, compiled, error, interpreted

import lossdsl
from lossdsl.backends.api import Island, KernelProgram, Loop, NotSupportedError, Stmt
from lossdsl.check.typed import CheckedLoss
from lossdsl.pipeline import middle, module_kernels
from lossdsl.plugins import discover
from lossdsl.registry import Registry
from lossdsl.source.text import Source

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "lossdsl" / "packs" / "std").glob("*.loss"))
FULL = os.environ.get("LOSSDSL_FULL_TESTS") == "1"
ALWAYS = {"cross_entropy", "focal", "kd_kl", "logit_adjusted_ce"}  # picks, params, two tensors, sums for each class
SAMPLE = 4
VECTORS = {"pinball", "poly_truncated_ce"}
SIZES = {"lanes": (37, 10), "along": (19, 70), "wide": (2, 4100), "one": (3, 1)}
REGISTRY = discover()


def sample() -> list[Path]:
    """All losses in a full run; else a few, always the same ones: a kernel compiles in a second.

    Losses with vector params are left out: the sizes below don't fit them.
    """
    fitting = [f for f in FILES if f.stem not in VECTORS]
    if FULL:
        return fitting
    others = [f for f in fitting if f.stem not in ALWAYS]
    others.sort(key=lambda f: hashlib.sha256(f.stem.encode()).digest())
    return sorted([f for f in fitting if f.stem in ALWAYS] + others[:SAMPLE])


@functools.cache
def planned(path: Path) -> tuple[CheckedLoss, tuple[KernelProgram, ...]]:
    """A file with the programs of its module's functions."""
    made = middle(Source(str(path), path.read_text(encoding="utf-8")), REGISTRY)
    return made.checked, tuple(k.program for k in module_kernels(made, REGISTRY, one_visit=True))


def statements(body: Sequence[Stmt]) -> Iterator[Stmt]:
    for s in body:
        yield s
        if isinstance(s, Loop):
            yield from statements((*s.head, *s.body))


def tensors(
    checked: CheckedLoss, p: KernelProgram, n: int, c: int, dtype: torch.dtype, seed: int = 0
) -> dict[str, Any]:
    """Random tensors within what the file says of its inputs, every fifth row ignored; params at their defaults."""
    torch.manual_seed(seed)
    inputs = {i.name: i for i in checked.inputs}
    params = {q.name: q.default for q in checked.params}
    batch = {a.name for a in checked.axes if a.batch}
    given: dict[str, Any] = {}
    for b in p.buffers:
        if b.role == "param":
            given[b.name] = {"ignore_index": -100, "seed_rows": 0.37}.get(b.name, params.get(b.name))
        if b.role != "in":
            continue
        shape = tuple(n if a in batch else c for a in b.axes)
        i = inputs.get(b.name)
        if b.dtype == "bool":
            given[b.name] = torch.rand(shape) < 0.7
        elif b.dtype == "int":
            low = 0 if i is None or i.bounds is None or math.isinf(i.bounds.low) else int(i.bounds.low)
            given[b.name] = torch.randint(low, low + c, shape)
            if i is not None and i.kind.startswith("index") and n > 5:
                given[b.name][4::5] = -100
        else:
            x = torch.randn(shape, dtype=torch.float64) * 3
            if i is not None and i.kind.startswith("prob"):
                x = torch.softmax(x, -1)
            if i is not None and i.bounds is not None:
                low = i.bounds.low if math.isfinite(i.bounds.low) else -1e9
                x = low + x.abs() % 1 * ((i.bounds.high if math.isfinite(i.bounds.high) else low + 1) - low)
            given[b.name] = x.to(dtype)
    return given


@pytest.mark.parametrize(
    ("path", "size"),
    # The interpreter takes its time over thousands of classes.
    [(path, size) for path in sample() for size in SIZES if FULL or size != "wide" or path.stem in ALWAYS],
    ids=lambda x: getattr(x, "stem", x),
)
def test_float64_agrees_with_the_interpreter(path: Path, size: str) -> None:
    checked, programs = planned(path)
    for p in programs:
        if not FULL and "_" in p.name.rpartition(".")[2]:
            continue  # gradients by params or by some inputs: the same statements once more
        given = tensors(checked, p, *SIZES[size], torch.float64)
        if any(isinstance(s, Island) for s in statements(p.body)):
            continue  # said to be unsupported, which another test holds
        found = compiled(p, REGISTRY)(*arguments(p, given))
        wanted = interpreted(p, REGISTRY, given)
        for b, x in zip((b for b in p.buffers if b.role == "out"), found, strict=True):
            assert error(x, wanted[b.name], 1e-3) < 1e-10, f"{p.name} {b.name}"


@pytest.mark.parametrize("path", sample(), ids=lambda x: x.stem)
@pytest.mark.parametrize("shape", [(6000, 5), (900, 70), (12, 4100)], ids=str)
def test_neither_another_run_nor_the_number_of_threads_changes_a_bit(path: Path, shape: tuple[int, int]) -> None:
    checked, programs = planned(path)
    before = torch.get_num_threads()
    for p in programs:
        if p.name.rpartition(".")[2] != "both" or any(isinstance(s, Island) for s in statements(p.body)):
            continue
        function, args = compiled(p, REGISTRY), arguments(p, tensors(checked, p, *shape, torch.float32))
        try:
            found = []
            for threads in (2, 2, 1, 3):
                torch.set_num_threads(threads)
                found.append(function(*args))
        finally:
            torch.set_num_threads(before)
        for other in found[1:]:
            for x, y in zip(found[0], other, strict=True):
                torch.testing.assert_close(x, y, rtol=0, atol=0, equal_nan=True)


def test_what_has_no_words_is_said() -> None:
    said = []
    for path in sorted((ROOT / "tests" / "ir" / "cases").glob("*.loss")):
        try:
            programs = planned(path)[1]
        except KeyError:
            continue
        for p in programs:
            try:
                compiled(p, REGISTRY)
            except NotSupportedError as error:
                said.append(str(error))
    assert "the island 'contract'" in said
    assert all(s.startswith(("the island", "the reduction", "the primitive", "a pick")) for s in said)


def test_explain_says_why_another_backend_is_taken() -> None:
    text = lossdsl.load("sparsemax_loss").explain()
    assert "Backend: torch (cpu can't print the island 'root'; " in text
    assert "Backend: cpu (" in lossdsl.load("focal").explain()


def test_registry_has_the_backend(registry: Registry) -> None:
    assert "cpu" in REGISTRY.backends, "the plugin is not installed"
    assert REGISTRY.backends["cpu"].emit == "lossdsl_cpu.emit:emit"
