"""Every loss of the installed packs: the Graph, the plan's programs and the emitted torch code say the same."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

from lossdsl.backends.torch.emit import emit
from lossdsl.check.check import check
from lossdsl.check.types import Type, base_axis
from lossdsl.derive.derive import derive
from lossdsl.ir.graph import Graph, JointGraph
from lossdsl.ir.interpret import evaluate
from lossdsl.ir.lower import lower
from lossdsl.plan.interpret import run
from lossdsl.plan.names import buffer_names, free_axes, size_argument
from lossdsl.plan.plan import plan
from lossdsl.plan.verify import verify
from lossdsl.plugins import discover
from lossdsl.source.text import Source
from lossdsl.syntax.parse import parse
from tests.backends.emitted import arguments, module

REGISTRY = discover({})
SIZES = {"N": 6, "B": 3, "T": 4, "C": 5, "V": 5, "D": 4, "K": 4}
OWN_SIZES = {  # where axes hang on each other
    "std/dmi": {"N": 12, "C": 2},  # every class occurs
    "metric/cprd": {"K": 4, "C": 5},
    "metric/von_neumann_entropy": {"K": 6},  # an eigenvalue a row
    "segmentation/fine_grained_miou": {"P": 7},
}


def size(axis: str, name: str) -> int:
    return OWN_SIZES.get(name, {}).get(base_axis(axis)) or SIZES.get(base_axis(axis), 4)


def joint(name: str) -> JointGraph:
    source = Source(name, REGISTRY.losses[name].read())
    return derive(lower(check(parse(source), source, REGISTRY), REGISTRY), REGISTRY)


def values(type_: Type, shape: tuple[int, ...], rng: np.random.Generator, name: str) -> Any:
    """Random values of a kind, well inside their interval."""
    low, high = type_.interval.low, type_.interval.high
    if type_.kind == "bool":
        return rng.random(shape) < 0.7
    if type_.kind.startswith("index"):
        return rng.integers(0, size(type_.kind.split()[1], name), shape)
    if type_.kind != "real":
        least = 0 if low == -np.inf else max(0, int(low))
        return rng.integers(least, least + 3, shape)
    bottom, top = max(low, -2.0 if high > 0 else high - 2), min(high, 2.0 if low < 1 else low + 2)
    width = top - bottom
    return rng.uniform(bottom + 0.1 * width, top - 0.1 * width, shape)


def leaves(graph: Graph, name: str) -> dict[str, Any]:
    """A value for every leaf; the first entry of the first index input is ignored."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    found = {leaf.name: values(leaf.type, tuple(size(a, name) for a in leaf.axes), rng, name) for leaf in graph.leaves}
    if "@ignore_index" in found:
        found["@ignore_index"] = np.int64(-100)
        first = next((n for n in graph.leaves if n.axes and n.type.kind.startswith("index")), None)
        if first is not None:
            found[first.name].flat[1] = -100
    return found


HEADS = {"value": ("rows", "weight", "aux"), "gradient": ("grad",), "second": ("second",)}
HEADS["both"] = HEADS["value"] + HEADS["gradient"]


@pytest.mark.parametrize("name", sorted(REGISTRY.losses))
def test_stages_agree(name: str) -> None:
    j = joint(name)
    known = leaves(j.graph, name)
    names = buffer_names(leaf.name for leaf in j.graph.leaves)
    p = plan(j, REGISTRY)
    functions = module(emit(p, None, REGISTRY))
    for program in p.programs:
        verify(program, REGISTRY)
        kind = program.name.rsplit(".", 1)[1]
        sizes = {a: size(a, name) for a in free_axes(program)}
        given = dict(known)
        if kind == "both" and "@rows" in given:
            given["@rows"] = np.full_like(given["@rows"], 0.7)
        outputs = [n for n, _ in j.graph.outputs if n.split(".")[0] in HEADS[kind]]
        wanted = evaluate(j, REGISTRY, given, outputs, sizes=sizes)
        buffers = {names[k]: v for k, v in given.items()} | ({"seed_rows": 0.7} if kind == "both" else {})
        found = run(program, REGISTRY, buffers, sizes=sizes)
        scale = max(float(np.max(np.abs(w), initial=0.0, where=np.isfinite(w))) for w in wanted.values())
        for (output, value), result in zip(wanted.items(), found.values(), strict=True):
            close(result, value, scale, f"{kind} {output} of the plan")
        if kind != "both":
            function = getattr(functions, kind)
            emitted = function(*arguments(program, buffers), **{size_argument(a): n for a, n in sizes.items()})
            for (output, value), tensor in zip(found.items(), emitted, strict=True):
                close(tensor.numpy(), value, scale, f"{kind} {output} of the torch code")


def close(found: Any, wanted: Any, scale: float, what: str) -> None:
    np.testing.assert_allclose(
        np.asarray(found, dtype=float), np.asarray(wanted, dtype=float), rtol=1e-8, atol=1e-10 * scale, err_msg=what
    )
