"""Tensors that have an entry for each class and none for rows: a mask of bools, a prior."""

from __future__ import annotations

import os
import re
import subprocess

import pytest
import torch
from lossdsl_cpu.build import FLAGS, compiler
from lossdsl_cpu.cxx import identifier
from lossdsl_cpu.load import prelude
from lossdsl_cpu.ranges import narrowed
from lossdsl_cpu.source import source, tensors
from test_cpu_library import REGISTRY, planned

import lossdsl

KINDS = {"real": "float", "int": "long", "bool": "unsigned char"}


def scalar(full: str) -> list[str]:
    """The loops of a loss's training step, in float, that are marked as vectors and aren't: what g++ says."""
    program = narrowed(planned(full)[-1].program)
    text = source(program, REGISTRY.primitives)
    macros = [f"-DT_{identifier(b.name)}={KINDS[b.dtype]}" for b in tensors(program)]
    before = prelude(text)
    command = [compiler(), "-O3", *FLAGS, "-fopt-info-vec", "-DR_T=float", *macros, "-x", "c++", "-", "-o", os.devnull]
    done = subprocess.run(command, input=before + text, capture_output=True, text=True, check=False)
    if "unknown argument" in done.stderr:
        pytest.skip("-fopt-info-vec is g++'s")
    assert done.returncode == 0, done.stderr
    first = before.count("\n")
    found = {int(n) - first for n in re.findall(r"^<stdin>:(\d+):\d+: optimized: loop vectorized", done.stderr, re.M)}
    lines = text.splitlines()
    left = []
    for n, line in enumerate(lines, 1):
        if line.lstrip().startswith("#pragma omp simd"):
            close = line[: len(line) - len(line.lstrip())] + "}"
            block = lines[n].endswith("{")
            end = next(m for m in range(n, len(lines)) if lines[m] == close) + 1 if block else n + 1
            if found.isdisjoint(range(n, end + 1)):
                left.append("\n".join(lines[n:end]))
    return left


@pytest.mark.parametrize("full", ["std/masked_softmax_ce", "std/asymmetric_multilabel"])
def test_bools_leave_sweeps_vectors(full: str) -> None:
    """A mask of the classes, and a target that has a bool for each element."""
    assert scalar(full) == []


@pytest.mark.parametrize("shape", [(37, 10), (20, 70), (5, 257), (2, 4100)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_mask_with_a_stride(shape: tuple[int, int], dtype: torch.dtype) -> None:
    """Against torch in double precision, the last class on and off: a row's last strip goes on with it."""
    n, c = shape
    draw = torch.Generator().manual_seed(c)
    z = torch.randn(n, c, generator=draw, dtype=dtype).requires_grad_()
    target = torch.randint(c - 1, (n,), generator=draw)
    mask = torch.zeros(c, 3, dtype=torch.bool)
    loss = lossdsl.loss("masked_softmax_ce", backend="cpu")
    for last in (False, True):
        active = mask[:, 1].copy_(torch.rand(c, generator=draw) < 0.6)
        active[target], active[-1] = True, last
        given = torch.where(active, z.double(), -torch.inf)
        wanted = torch.nn.functional.cross_entropy(given, target)
        found = loss(z, target, active)
        near = {"rtol": 2e-6, "atol": 1e-9} if dtype == torch.float32 else {"rtol": 1e-13, "atol": 1e-16}
        torch.testing.assert_close(found.double(), wanted, **near)
        slopes = [torch.autograd.grad(x, z)[0] for x in (found, wanted)]
        torch.testing.assert_close(slopes[0], slopes[1], **near)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float32], ids=str)
def test_a_prior_with_a_stride_and_any_number_of_threads(kind: torch.dtype) -> None:
    """The same bits as from packed memory, and with one thread or three."""
    draw = torch.Generator().manual_seed(0)
    z = torch.randn(600, 1003, generator=draw).to(kind).requires_grad_()
    target = torch.randint(1003, (600,), generator=draw)
    apart = (torch.rand(1003, 2, generator=draw) + 0.1).to(kind)[:, 0]
    loss = lossdsl.loss("logit_adjusted_ce", backend="cpu")
    before, found = torch.get_num_threads(), []
    try:
        for prior, threads in ((apart, 1), (apart, 3), (apart.contiguous(), 2)):
            torch.set_num_threads(threads)
            value = loss(z, target, prior)
            found.append((value, torch.autograd.grad(value, z)[0]))
    finally:
        torch.set_num_threads(before)
    wanted = torch.nn.functional.cross_entropy(z.double() + apart.double().log(), target)
    torch.testing.assert_close(found[0][0].double(), wanted, rtol=8e-3 if kind == torch.bfloat16 else 1e-6, atol=0)
    for other in found[1:]:
        assert all(torch.equal(x, y) for x, y in zip(found[0], other, strict=True))
