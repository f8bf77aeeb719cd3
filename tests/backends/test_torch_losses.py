"""The files of the language and random losses in emitted torch code, against the interpreter of KernelPrograms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lossdsl.backends.torch.emit import emit
from lossdsl.plan.interpret import run
from lossdsl.plan.names import buffer_names, free_axes, size_argument
from lossdsl.plan.plan import plan
from tests.backends.emitted import arguments, module
from tests.ir.compiled import REGISTRY, joint, leaves_of, text_of
from tests.ir.formulas import CASES
from tests.ir.test_removal import HEAD, Draw, drawn


def compare(text: str, given: dict[str, Any], seed: int) -> None:
    """Every function against its program, in float64."""
    j = joint(text)
    leaves, sizes = leaves_of(text, given)
    rng = np.random.default_rng(seed)
    for leaf in j.graph.leaves:
        if leaf.role == "seed":
            leaves[leaf.name] = rng.normal(size=[sizes[a.rstrip("'")] for a in leaf.axes])
    p = plan(j, REGISTRY)
    functions = module(emit(p, None, REGISTRY))
    names = buffer_names(leaf.name for leaf in j.graph.leaves)
    known = {names[leaf.name]: leaves[leaf.name] for leaf in j.graph.leaves}
    for program in p.programs:
        kind = program.name.rsplit(".", 1)[1]
        if kind == "both":
            continue
        free = {a: sizes[a] for a in free_axes(program)}
        exact = run(program, REGISTRY, {b.name: known[b.name] for b in program.buffers if b.name in known}, sizes=free)
        results = getattr(functions, kind)(*arguments(program, known), **{size_argument(a): n for a, n in free.items()})
        scale = max(float(np.max(np.abs(w), initial=0, where=np.isfinite(w))) for w in exact.values())
        for b, found in zip([b for b in program.buffers if b.role == "out"], results, strict=True):
            np.testing.assert_allclose(
                found.numpy(), exact[b.name], rtol=1e-9, atol=1e-12 * scale, err_msg=f"{kind} {b.name}: {text}"
            )


@pytest.mark.parametrize("name", sorted(CASES))
def test_files_of_the_language(name: str) -> None:
    case = CASES[name]
    compare(text_of(name), case.draw(np.random.default_rng(5)) | dict(case.params), 5)


@pytest.mark.parametrize("seed", range(1, 90, 3))
def test_random_losses(seed: int) -> None:
    compare(f"{HEAD}return {Draw(seed).returned()}\n", drawn(seed), seed)
