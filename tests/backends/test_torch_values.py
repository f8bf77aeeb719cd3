"""What the emitted torch code computes is what the interpreter says, in float64 to the last digits."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import lossdsl
from lossdsl.backends.torch.emit import emit
from lossdsl.plan.interpret import run
from lossdsl.plan.kernel import Plan
from lossdsl.plan.names import free_axes, size_argument
from lossdsl.plan.plan import plan
from lossdsl.registry import Registry
from tests.backends.emitted import arguments, by_buffer, module
from tests.kernel import programs as written
from tests.plan.graphs import GRAPHS, arrays, joint

PROGRAMS = written.NAMES
INF, NAN = float("inf"), float("nan")
KINDS = ("plain", "ties", "offset", "wide", "infinite")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", GRAPHS)
def test_emitted_code_computes_what_the_interpreter_does(name: str, kind: str, registry: Registry) -> None:
    j = joint(name, registry)
    p = plan(j, registry)
    functions = module(emit(p, None, registry))
    given = by_buffer(arrays(j.graph, 7, kind))
    for program in p.programs:
        if program.name.endswith(".both"):
            continue  # for backends with loops
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


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_written_by_hand(name: str, registry: Registry) -> None:
    """Guards, scratch buffers, ties, masks: what no planner need write, printed all the same."""
    program = written.program(name)
    rng = np.random.default_rng(5)
    sizes = {"N": 6, "C": 4, "D": 3}
    given = {}
    for b in program.buffers:
        shape = tuple(sizes[a.rstrip("'")] for a in b.axes)
        if b.name == "mask":
            given[b.name] = rng.random(shape) < 0.7
        elif b.role in ("in", "param"):
            given[b.name] = rng.normal(size=shape) if b.dtype == "real" else rng.integers(0, 3, shape)
    if "target" in given:
        given["ignore_index"] = np.int64(given["target"][1])
    exact = run(program, registry, given)
    function = getattr(module(emit(Plan((program,)), None, registry)), program.name.rsplit(".")[-1])
    results = function(*arguments(program, given))
    for b, found in zip([b for b in program.buffers if b.role == "out"], results, strict=True):
        np.testing.assert_allclose(found.numpy(), exact[b.name], rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize(
    ("z", "wanted"),
    [([INF, INF, 0.0], INF), ([INF, 1.0, 0.0], INF), ([INF, NAN, 0.0], NAN), ([-INF, -INF, -INF], -INF)],
)
def test_a_log_sum_exp_of_infinities(z: list[float], wanted: float) -> None:
    """inf - inf stood in the sum of two infinities, of which the log-sum-exp is infinite."""
    spec = lossdsl.loads("loss total\ninput z[N, C]\nreturn logsumexp[C](z)\n")
    loss_fn = lossdsl.loss(spec, backend="torch", reduction="none")
    torch.testing.assert_close(loss_fn(torch.tensor([z])), torch.tensor([wanted]), equal_nan=True)


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("if size(C) < 2 then 1 else 0", [0, 0]),
        ("if 2 > size(C) then 1 else 0", [0, 0]),
        ("if size(C) == 4 then 1 else 0", [1, 1]),
        ("if size(C) < 4.5 then 1 else 0", [1, 1]),
        ("if not size(C) >= size(N) then 1 else 0", [0, 0]),
        ("sum[C](z where size(C) > 10)", [0, 0]),
        ("z[C -> 3]", [4, 1]),
        ("z[C -> 4]", [0, 0]),
        ("argmax[C](z > 0)", [1, 2]),
        ("max[C](round(C == t) + floor(z > 0))", [2, 1]),
    ],
)
def test_sizes_and_bools_as_numbers(body: str, wanted: list[float]) -> None:
    """A comparison of a size with a literal was one of bools, 1 < 2, and torch rounds no bool and finds none."""
    spec = lossdsl.loads(f"loss s\ninput z[N, C]\ninput t[N]: index C\nreturn 0*z[t] + ({body})\n")
    z, t = torch.tensor([[-1.0, 2, 3, 4], [0, 0, 5, 1]]), torch.tensor([1, 0])
    found = lossdsl.loss(spec, backend="torch", reduction="none")(z, t)
    torch.testing.assert_close(found, torch.tensor(wanted, dtype=torch.float32))
