"""Losses written out as scalars are what the interpreter says of them, at points of every case."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest

from lossdsl.api import registry
from lossdsl.derive.claims.cases import Case, cases
from lossdsl.derive.claims.enclose import needed
from lossdsl.derive.claims.everywhere import shifted
from lossdsl.derive.claims.scalars import NotWrittenError, Scalars
from lossdsl.derive.claims.setting import place, subject
from lossdsl.ir.arithmetic import arithmetic_of, call
from lossdsl.ir.interpret import evaluate
from lossdsl.pipeline import middle
from lossdsl.source.text import Source
from tests.losses import sampled

AGREE = 1e-80  # of 110 digits; the stick cuts off what a probability near 1 leaves


def number(s: Scalars, n: int, given: dict[str, Any]) -> Any:
    """A scalar's value at 110 digits."""
    mp = arithmetic_of("mpmath")
    of = lambda x: np.asarray(x)  # noqa: E731
    values: dict[int, Any] = {}
    for m in needed(s, n):
        op, args = s.nodes[m]
        xs = [values[a] for a in args] if op not in ("const", "var") else []
        match op:
            case "const":
                values[m] = args[0] if isinstance(args[0], bool) else mp.constant(args[0])
            case "var":
                values[m] = given[args[0]]
            case "lse" | "logp":
                total = mpmath.log(mpmath.fsum(mpmath.exp(x) for x in xs))
                values[m] = total if op == "lse" else xs[0] - total
            case "xlogx":
                values[m] = xs[0] * mpmath.log(xs[0])
            case "phi":
                values[m] = mpmath.expm1(xs[0]) / xs[0]
            case _:
                values[m] = call(mp, registry(), op, [of(x) for x in xs]).item()
    return values[n]


def drawn(case: Case, rng: np.random.Generator) -> dict[str, Any]:
    found = {}
    for name, within in case.domain.items():
        low, high = max(within.low, -3.0), min(within.high, max(within.low, -3.0) + 6.0)
        found[name] = mpmath.mpf(float(rng.uniform(0.9 * low + 0.1 * high, 0.1 * low + 0.9 * high)))
    return found


@pytest.mark.parametrize("path", sampled(8), ids=lambda p: p.stem)
def test_written_out(path: Path) -> None:
    made = middle(Source(str(path), path.read_text()), registry())
    about = subject(made.lossdef, made.checked, registry())
    b = about.builder()
    rows = place(b, about.graph, {})["rows"]
    graph = b.graph({"aux.node": rows})
    sums = {i.name: "C" for i in made.checked.inputs if i.kind == "prob C"}
    rng, compared = np.random.default_rng(0), 0
    with mpmath.workdps(110):
        try:
            for case in cases(graph, ["aux.node"], 3, shifted(b, rows, graph, sums), sums):
                at = drawn(case, rng)
                leaves = {
                    name: np.array(
                        [number(case.scalars, entries[i], at) for i in sorted(entries)], dtype=object
                    ).reshape([case.sizes[a] for a in next(x for x in graph.leaves if x.name == name).axes])
                    for name, entries in case.leaves.items()
                }
                leaves |= {name: np.asarray(value) for name, value in case.fixed.items()}
                said = evaluate(graph, registry(), leaves, ["aux.node"], "mpmath", case.sizes)["aux.node"].item()
                (entry,) = case.outputs["aux.node"].values()
                assert abs(number(case.scalars, entry, at) - said) <= AGREE * (1 + abs(said))
                compared += 1
        except NotWrittenError as error:
            pytest.skip(f"has no written form: {error}")
    assert compared
