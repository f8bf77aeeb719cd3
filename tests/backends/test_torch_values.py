"""What the emitted torch code computes is what the interpreter says, in float64 to the last digits."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
import torch

from lossdsl.backends.torch.emit import emit
from lossdsl.plan.interpret import run
from lossdsl.plan.kernel import KernelProgram, Plan
from lossdsl.plan.names import buffer_names, free_axes, size_argument
from lossdsl.plan.plan import plan
from lossdsl.registry import Registry
from tests.plan.graphs import GRAPHS, arrays, joint

KINDS = ("plain", "ties", "offset", "wide", "infinite")


def module(p: Plan, registry: Registry) -> ModuleType:
    """The emitted functions as a module."""
    emitted = emit(p, None, registry)
    made = ModuleType("emitted")
    exec("\n".join([*emitted.imports, emitted.functions]), made.__dict__)
    return made


def arguments(program: KernelProgram, given: dict[str, np.ndarray]) -> list[torch.Tensor]:
    """The program's tensors in order; params are 0-d float64."""
    found = []
    for b in program.buffers:
        if b.role == "param":
            found.append(torch.tensor(float(given[b.name]), dtype=torch.float64))
        elif b.role == "in":
            found.append(torch.as_tensor(np.array(given[b.name])))
    return found


def by_buffer(leaves: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    names = buffer_names(leaves)
    return {names[k]: v for k, v in leaves.items()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", GRAPHS)
def test_emitted_code_computes_what_the_interpreter_does(name: str, kind: str, registry: Registry) -> None:
    j = joint(name, registry)
    p = plan(j, registry)
    functions = module(p, registry)
    given = by_buffer(arrays(j.graph, 7, kind))
    for program in p.programs:
        sizes = dict.fromkeys(free_axes(program), 4)
        exact = run(program, registry, given, sizes=sizes)
        function = getattr(functions, program.name.rsplit(".")[-1])
        results = function(*arguments(program, given), **{size_argument(a): n for a, n in sizes.items()})
        outs = [b for b in program.buffers if b.role == "out"]
        assert len(results) == len(outs)
        for b, found in zip(outs, results, strict=True):
            expected = exact[b.name]
            assert tuple(found.shape) == expected.shape, b.name
            scale = np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected))
            np.testing.assert_allclose(
                found.numpy(), expected, rtol=1e-11, atol=1e-13 * scale, err_msg=f"{program.name} {b.name}"
            )
