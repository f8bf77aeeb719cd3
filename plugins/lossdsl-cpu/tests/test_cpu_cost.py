"""What `explain` says a loss costs is what its C++ does."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import pytest
import torch
from cpu_harness import arguments
from lossdsl_cpu.build import library
from lossdsl_cpu.cxx import CALLS, helper_name, identifier
from lossdsl_cpu.emit import like
from lossdsl_cpu.load import prelude
from lossdsl_cpu.ranges import narrowed
from lossdsl_cpu.source import source, tensors
from test_cpu_losses import REGISTRY, planned, sample
from test_cpu_losses import tensors as drawn

from lossdsl.backends.api import KernelProgram
from lossdsl.plan.cost import ARITHMETIC, count

N, C = 2, 12_000  # long rows, so that what a row has once hardly counts
DTYPES = {"real": torch.float32, "int": torch.int64, "bool": torch.bool}
COUNTER = """namespace own {
long counted = 0;
static void tally() { __atomic_fetch_add(&counted, 1, __ATOMIC_RELAXED); }
extern "C" long number() { long n = counted; counted = 0; return n; }
}
"""


def counting(p: KernelProgram) -> ctypes.CDLL:
    """The program's kernel, with every transcendental of its own text counted."""
    text = source(narrowed(p), REGISTRY.primitives)
    head, run = text.split("static void work", 1)
    costly = [op for op in REGISTRY.primitives if op not in ARITHMETIC] + ["exp_neg", "expm1_low", "expm1mx_near"]
    names = {CALLS.get(op) or helper_name(op) for op in costly}
    run = re.sub(rf"\b({'|'.join(sorted(names, key=len, reverse=True))})\(", r"tally\1(", run)
    macros = ["R_T=float"]
    ins = [b for b in tensors(p) if b.role != "out"]
    for b in ins:
        real = "float" if b.role == "in" else "double"
        macros.append(f"T_{identifier(b.name)}={ {'real': real, 'int': 'long', 'bool': 'unsigned char'}[b.dtype] }")
    for b in tensors(p):
        if b.role == "out":
            at = like(p, b)
            kind = "float" if isinstance(at, int) else {"real": "float", "int": "long", "bool": "unsigned char"}[at]
            macros.append(f"T_{identifier(b.name)}={kind}")
    used = sorted(set(re.findall(r"\btally(\w+)\(", run)))
    wrappers = "".join(
        f"template <class... A> static auto tally{n}(A... a) {{ tally(); return {n}(a...); }}\n" for n in used
    )
    return ctypes.CDLL(str(library(prelude(text) + COUNTER + head + wrappers + "static void work" + run, macros)))


@pytest.mark.parametrize("path", sample(), ids=lambda x: x.stem)
def test_transcendentals_are_as_many_as_the_plan_says(path: Path) -> None:
    checked, programs = planned(path)
    for p in programs:
        if p.name.rpartition(".")[2] not in ("value", "both"):
            continue
        kernel = counting(p)
        given = drawn(checked, p, N, C, torch.float32)
        ins = [b for b in p.buffers if b.role in ("in", "param")]
        args = [x.long() if b.dtype == "int" else x for b, x in zip(ins, arguments(p, given), strict=True)]
        sizes = {a: N if a in {x.name for x in checked.axes if x.batch} else C for a in p.axes}
        numbers = [sizes[a] for a in p.axes]
        outs = []
        for b in tensors(p):
            if b.role == "out":
                x = torch.empty([sizes[a] for a in b.axes], dtype=DTYPES[b.dtype])
                outs.append(x)
            else:
                x = args[[q.name for q in tensors(p)].index(b.name)]
            numbers += [x.data_ptr(), *x.stride()]
        kernel.run((ctypes.c_long * len(numbers))(*numbers))
        kernel.number.restype = ctypes.c_long
        largest = max(x.numel() for b, x in zip(tensors(p), args, strict=False) if b.role == "in")
        # rows' own are computed 32 at a time, and some for each block of a row
        assert kernel.number() / largest == pytest.approx(count(p, sizes).exps, abs=0.15), p.name
