"""A tiling in words: what `dump --stage plan` prints and `explain` says."""

from __future__ import annotations

from lossdsl.plan.tiles.cut import Matrix
from lossdsl.plan.tiles.steps import Step
from lossdsl.plan.tiles.tiling import Tiling, Variant


def tiling_text(t: Tiling) -> str:
    """Matrices, which rows are taken together, and the steps of every variant."""
    lines = [f"tiles of rows along {t.axis}"]
    lines += [f"  {_matrix(m)}" for m in t.matrices]
    if t.keep is not None:
        lines.append("  rows that are left out are taken away before")
    for v in t.variants:
        lines.append(f"  {v.name}: {schedule_in_words(t, v)}")
        for step in v.schedule.steps:
            word = "sweep" if step.sweep else "whole"
            gives = ", ".join(f"{g.name} ({g.how})" for g in step.gives)
            lines.append(f"    {word}: {gives}")
    return "\n".join(lines) + "\n"


def _matrix(m: Matrix) -> str:
    rows, columns, over = (", ".join(a) for a in (m.rows, m.columns, m.over))
    bias = " + bias" if m.bias is not None else ""
    return f"{m.name.removeprefix('@')}[{rows}; {columns}] = {m.kind}[{over}]{bias}"


def schedule_in_words(t: Tiling, v: Variant) -> str:
    """How often each matrix is multiplied out, and in which manner."""
    computed = {m.name: sum(_reads(s, m) for s in v.schedule.steps) for m in t.matrices}
    given = any(g.how == "matrix" for s in v.schedule.steps for g in s.gives)
    total = sum(computed.values()) + (2 * len(t.matrices) if given else 0)
    if not given:
        return f"{total} matrix products ({_flops(t, total)})"
    again = max(computed.values()) > 1
    manner = (
        "tiles are computed again once their statistics are known" if again else "each tile is kept till it is used"
    )
    return f"{total} matrix products ({_flops(t, total)}): {manner}"


def _reads(step: Step, m: Matrix) -> int:
    return int(step.sweep and any(leaf.name == m.name for leaf in step.graph.leaves))


def _flops(t: Tiling, products: int) -> str:
    m = t.matrices[0]
    sizes = "·".join((*m.rows, *m.columns, *m.over))
    return f"{2 * products}·{sizes} flops" if len(t.matrices) == 1 else "2 flops an entry and feature each"


def memory_in_words(t: Tiling) -> str:
    """What is in memory, besides the factors and their gradients."""
    row = " + ".join("·".join((*m.rows[1:], *m.columns)) for m in t.matrices)
    times = f"{2 + t.temporaries}·({row})" if " + " in row else f"{2 + t.temporaries}·{row}"
    return (
        f"no matrix is whole: a tile has as many rows as fit into `memory` (64MiB by default), each of {times} "
        f"numbers, or of {row} where a backend fuses loops and writes the cotangent over the tile; and not more than "
        "are worth it"
    )
