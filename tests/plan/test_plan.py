"""The programs of a plan mean what the graph says, and have the shape that their reductions demand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lossdsl.check.check import check
from lossdsl.ir.graph import JointGraph
from lossdsl.ir.interpret import evaluate
from lossdsl.ir.lower import lower
from lossdsl.plan.interpret import run
from lossdsl.plan.kernel import KernelProgram, Loop, Reduce, Stmt
from lossdsl.plan.names import buffer_name, buffer_names, free_axes
from lossdsl.plan.plan import plan
from lossdsl.plan.text import parse_kernel, print_kernel
from lossdsl.plan.verify import verify
from lossdsl.registry import Registry
from lossdsl.source.text import Source
from lossdsl.syntax.parse import parse
from tests.plan.graphs import GRAPHS, arrays, joint

KINDS = ("plain", "ties", "offset", "wide", "infinite")
# What a second derivative is at an infinite logit is not said: 0 times a limit that depends on the path.
SKIP = {("second", "infinite")}


def numbers(x: Any) -> np.ndarray:
    return np.array([float(v) for v in np.asarray(x).flat]).reshape(np.shape(x))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", GRAPHS)
def test_programs_compute_what_the_graph_says(name: str, kind: str, registry: Registry) -> None:
    """In float64 against 50 digits: an expansion that loses digits would show."""
    if (name, kind) == ("hardest", "infinite"):
        return  # a distance between infinities is NaN
    j = joint(name, registry)
    given = arrays(j.graph, 11, kind)
    names = buffer_names(given)
    exact = evaluate(j, registry, given, number="mpmath", sizes={"K": 4})
    for program in plan(j, registry).programs:
        verify(program, registry)
        if program.name.endswith(".both") or (program.name.rsplit(".")[-1], kind) in SKIP:
            continue
        found = run(
            program, registry, {names[k]: v for k, v in given.items()}, sizes=dict.fromkeys(free_axes(program), 4)
        )
        for output, value in exact.items():
            buffer = buffer_name(output.removeprefix("aux."))
            if buffer in found:
                expected = numbers(value)
                # Where the formula itself, not the plan, cancels: z² - t² far from 0 is what the file says.
                atol = 1e-5 if name == "sparse" and kind in ("offset", "wide") else 1e-15 if kind == "wide" else 0.0
                largest = np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected))
                np.testing.assert_allclose(
                    found[buffer], expected, rtol=1e-9, atol=atol + 1e-12 * largest, err_msg=f"{program.name} {output}"
                )


@pytest.mark.parametrize("name", GRAPHS)
def test_value_and_gradient_in_one_visit(name: str, registry: Registry) -> None:
    """What `both` gives with one upstream for all rows is what value and gradient give one after the other."""
    j = joint(name, registry)
    programs = {p.name.rsplit(".")[-1]: p for p in plan(j, registry).programs}
    if "both" not in programs:
        assert any(not isinstance(s, Loop) for s in programs["gradient"].body)
        return
    verify(programs["both"], registry)
    leaves = arrays(j.graph, 4)
    names = buffer_names(leaves)
    given = {names[k]: v for k, v in leaves.items()}
    seed = {"seed_rows": 0.25}
    found = run(programs["both"], registry, given | seed)
    expected = run(programs["value"], registry, given)
    full = {"seed_rows": np.full_like(given["seed_rows"], 0.25)}
    expected |= run(programs["gradient"], registry, given | full)
    assert found.keys() == expected.keys()
    for buffer, value in expected.items():
        np.testing.assert_allclose(found[buffer], value, rtol=1e-14, atol=1e-300)
    visits = [len(sweeps(programs[k])) for k in ("both", "value", "gradient")]
    assert visits[0] <= max(visits[1:])


def sweeps(program: KernelProgram) -> list[int]:
    """For each visit to the rows, how many loops stand in its body."""
    return [sum(isinstance(s, Loop) for s in loop.body) for loop in program.body if isinstance(loop, Loop)]


@pytest.mark.parametrize(
    ("name", "value", "gradient"),
    [
        ("cross_entropy", [1], [2]),
        ("focal", [1], [2]),
        ("soft_target", [2], [2]),
        ("brier", [2], [3]),
        ("jsd", [2], [4]),  # the log-ratio of two near softmaxes takes a visit of its own
        ("binary", [1], [1]),
        ("margin", [1], [3]),
        ("masked", [1], [2]),
        ("dice", [2], [2, 3]),
    ],
)
def test_rows_are_swept_as_often_as_reductions_depend_on_each_other(
    name: str, value: list[int], gradient: list[int], registry: Registry
) -> None:
    programs = {p.name.rsplit(".")[-1]: p for p in plan(joint(name, registry), registry).programs}
    assert sweeps(programs["value"]) == value
    assert sweeps(programs["gradient"]) == gradient


def reductions(body: tuple[Stmt, ...]) -> list[str]:
    found = []
    for s in body:
        found += reductions(s.body) if isinstance(s, Loop) else []
        found += [s.reduction] if isinstance(s, Reduce) else []
    return found


def test_terms_of_a_composite_share_their_statistics(registry: Registry) -> None:
    """Two log-sum-exps of two tensors are two reductions, whatever asks for them."""
    programs = plan(joint("jsd", registry), registry).programs
    assert reductions(programs[0].body).count("logsumexp") == 2
    assert reductions(programs[1].body).count("logsumexp") == 2


def test_a_second_visit_reads_the_statistics_that_the_first_has_stored(registry: Registry) -> None:
    gradient = plan(joint("dice", registry), registry).programs[1]
    assert reductions(gradient.body).count("logsumexp") == 1
    assert [b.name for b in gradient.buffers if b.role == "scratch"] == ["row_m", "row_rest"]


@pytest.mark.parametrize("name", GRAPHS)
def test_programs_are_the_same_on_every_run_and_as_text(name: str, registry: Registry) -> None:
    first, second = (plan(joint(name, registry), registry).programs for _ in range(2))
    assert first == second
    for program in first:
        text = print_kernel(program)
        assert print_kernel(parse_kernel(text)) == text


def test_only_the_gradients_asked_for(registry: Registry) -> None:
    p = plan(joint("class_weights", registry), registry, wanted=frozenset({"logits"}))
    gradient = next(q for q in p.programs if q.name.endswith("gradient"))
    assert [b.name for b in gradient.buffers if b.role == "out"] == ["grad_logits"]


def test_names_of_buffers() -> None:
    names = buffer_names(["γ", "gamma", "@rows", "@ignore_index", "grad.γ", "@grad.logits", "λ", "字"])
    assert list(names.values()) == [
        *("gamma", "gamma_1", "seed_rows", "ignore_index", "grad_gamma", "seed_grad_logits", "lamda", "u5b57")
    ]


def test_a_condition_on_a_matrix_is_no_guard(registry: Registry) -> None:
    """The rows of a matrix are taken together: none of them is left out by what holds for another."""
    text = "loss a\ninput x[N, C]\ninput target[N]: index C\nreturn logdet[C', C](sum[N]((C' == target) * x))\n"
    source = Source("a.loss", text)
    graph = lower(check(parse(source), source, registry), registry)
    program = plan(JointGraph(graph), registry).programs[0]
    leaves = {"x": np.random.default_rng(0).normal(size=(4, 3)), "target": np.array([0, 1, 2, 1])}
    leaves["@ignore_index"] = np.array(-100)
    expected = evaluate(graph, registry, leaves, ["rows"])["rows"]
    tensors = {"x": leaves["x"], "target": leaves["target"]}
    found = run(program, registry, tensors, {"ignore_index": leaves["@ignore_index"]})
    np.testing.assert_allclose(found["rows"], expected, rtol=1e-12)


def test_what_a_guard_decides_is_no_choice(registry: Registry) -> None:
    """A logit that may be absent beside a number that can't: for rows that are there both are, and no mask is left."""
    text = (
        "loss a\ninput z[N, C]\ninput target[N]: index C\ninput active[C]: bool\nparam m = -10000\n"
        "q = if active then z else m\nreturn logsumexp(q) - q[target]\n"
    )
    source = Source("a.loss", text)
    graph = lower(check(parse(source), source, registry), registry)
    printed = print_kernel(plan(JointGraph(graph), registry).programs[0])
    assert "true" not in printed
    assert "where" not in printed
