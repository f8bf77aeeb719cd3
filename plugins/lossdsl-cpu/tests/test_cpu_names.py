"""Values may be called as the functions of the prelude are: a name of a program never hides what its text calls."""

from __future__ import annotations

import re

import pytest
import torch
from cpu_harness import PROGRAMS, arguments, compiled, program
from lossdsl_cpu.load import prelude
from test_cpu_programs import inputs

from lossdsl.plan.text import parse_kernel

DEFINED = re.compile(r"(?:INLINE|struct) (?:[\w:]+(?:<\w+>)? \*?)*?(\w+)(?=[(;]| \{| :)")


@pytest.mark.parametrize("name", ["dice_gradient", "cross_entropy_both", "batch_hard_gradient"])
def test_functions_are_no_names(name: str) -> None:
    found = set(DEFINED.findall(prelude("")))
    assert {"room", "padded", "narrow", "exp_neg", "Arena", "Sum", "countable", "products"} <= found
    text = (PROGRAMS / f"{name}.kernel").read_text(encoding="utf-8")
    own = sorted(n for n in found if not re.search(rf"\b{n}\b", text))
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if " = " in line or line.startswith("for "))
    lines[start:start] = [f"{n} = add({i}, 1)" for i, n in enumerate(own)]
    given = inputs(name, 20, 70, torch.float64)
    wanted = compiled(program(name))(*arguments(program(name), given))
    p = parse_kernel("\n".join(lines) + "\n")
    assert all(torch.equal(a, b) for a, b in zip(compiled(p)(*arguments(p, given)), wanted, strict=True))
