"""The planner's programs against the Graph they come from: every file of the language, and random losses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lossdsl.ir.interpret import evaluate
from lossdsl.plan.interpret import run
from lossdsl.plan.plan import plan
from lossdsl.plan.text import parse_kernel, print_kernel
from lossdsl.plan.verify import verify
from tests.ir.compiled import REGISTRY, joint, leaves_of, text_of
from tests.ir.formulas import CASES
from tests.ir.test_removal import HEAD, Draw, drawn

KINDS = ("value", "gradient", "second")


def outputs_of(kind: str, names: list[str]) -> list[str]:
    heads = {"value": ("rows", "weight", "aux"), "gradient": ("grad",), "second": ("second",)}
    heads["both"] = heads["value"] + heads["gradient"]
    return [n for n in names if n.split(".")[0] in heads[kind]]


def compare(text: str, given: dict[str, Any], seed: int) -> None:
    """Each program of the plan is legal, survives its text form and gives what the Graph gives."""
    j = joint(text)
    leaves, sizes = leaves_of(text, given)
    rng = np.random.default_rng(seed)
    for leaf in j.graph.leaves:
        if leaf.role == "seed":
            shape = (
                np.shape(leaves[leaf.name.removeprefix("@grad.")])
                if leaf.name.startswith("@grad.")
                else [sizes[a.rstrip("'")] for a in leaf.axes]
            )
            leaves[leaf.name] = rng.normal(size=shape)
    known = {leaf.name: leaves[leaf.name] for leaf in j.graph.leaves}
    for program in plan(j, REGISTRY).programs:
        verify(program, REGISTRY)
        text_form = print_kernel(program)
        assert print_kernel(parse_kernel(text_form)) == text_form
        kind = program.name.rsplit(".", 1)[1]
        names = outputs_of(kind, [n for n, _ in j.graph.outputs])
        # In one visit, all rows have one upstream, a number.
        one = {"@rows": np.full_like(known["@rows"], 0.7)} if kind == "both" else {}
        want = evaluate(j, REGISTRY, known | one, names, sizes=sizes)
        taken = [b for b in program.buffers if b.role in ("in", "param")]
        leaf_names = [leaf.name for leaf in j.graph.leaves if _takes(kind, leaf.name)]
        assert len(taken) == len(leaf_names)
        given = known | ({"@rows": 0.7} if one else {})
        tensors = {b.name: given[n] for b, n in zip(taken, leaf_names, strict=True)}
        out = run(program, REGISTRY, tensors, sizes=sizes)
        scale = max(float(np.max(np.abs(w), initial=0, where=np.isfinite(w))) for w in want.values())
        for name, value in zip(names, out.values(), strict=True):
            np.testing.assert_allclose(
                value, want[name], rtol=1e-9, atol=1e-12 * scale, err_msg=f"{kind} {name}: {text}"
            )


def _takes(kind: str, leaf: str) -> bool:
    if not leaf.startswith("@") or leaf == "@ignore_index":
        return True
    if kind == "both":
        return leaf == "@rows"
    return kind == "second" or (kind == "gradient" and not leaf.startswith("@grad."))


@pytest.mark.parametrize("name", sorted(CASES))
def test_files_of_the_language(name: str) -> None:
    case = CASES[name]
    compare(text_of(name), case.draw(np.random.default_rng(5)) | dict(case.params), 5)


@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_random_losses(seed: int) -> None:
    compare(f"{HEAD}return {Draw(seed).returned()}\n", drawn(seed), seed)
