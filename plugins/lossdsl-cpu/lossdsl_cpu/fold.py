"""Chains of products and quotients by what is the same along the row, as one product an element.

What a sweep takes over of a log-sum-exp is e^(x - m') for the maximum m' of its time. Probabilities, and gradients that
are multiples of them, are that times m's factor, over the total, times what the row has: one number a row (or a block
of it), computed in double, so that it's rounded once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossdsl.backends.api import Let, Operand

if TYPE_CHECKING:
    from lossdsl_cpu.rows import Sweep


@dataclass(frozen=True, slots=True)
class Fold:
    """The exponentials of a log-sum-exp (`of`, its first result) times and over row values, in turn."""

    of: str
    by: tuple[tuple[str, Operand], ...]  # mul or div, and by what


def fold(sweep: Sweep) -> None:
    """Fill a sweep's `folds`, and take out of `live` what nothing else needs."""
    lets = {s.value.name: s for s in sweep.live}
    uses = Counter(_uses(sweep))
    gone: Counter[str] = Counter()
    for name, s in lets.items():
        if not isinstance(s, Let) or s.op not in ("mul", "div") or name in sweep.taken or name in sweep.scaled:
            continue
        for base, other in (s.args, s.args[::-1])[: 1 + (s.op == "mul")]:
            if not isinstance(base, str) or (isinstance(other, str) and other in lets):
                continue
            if base in sweep.scaled:
                found = Fold(sweep.scaled[base], ((s.op, other),))
            elif base in sweep.folds and uses[base] == 1 and base not in sweep.kept:
                found = Fold(sweep.folds[base].of, (*sweep.folds[base].by, (s.op, other)))
            else:
                continue
            sweep.folds[name] = found
            gone[base] += 1
            break
    spare = {n for n, times in gone.items() if times == uses[n] and n not in sweep.kept}
    sweep.live = [s for s in sweep.live if s.value.name not in spare]
    for n in spare:
        sweep.folds.pop(n, None)
        sweep.scaled.pop(n, None)


def _uses(sweep: Sweep) -> Iterator[str]:
    """The names that a sweep reads, once for each time."""
    operands: list[Operand | None] = []
    for s in sweep.live:
        if s.value.name not in sweep.taken and s.value.name not in sweep.scaled:
            operands += s.args if isinstance(s, Let) else s.index
    for r in sweep.reductions:
        operands += [*r.args, r.where]
    for x in sweep.stores:
        operands += [x.value, x.where, *x.index]
    return (x for x in operands if isinstance(x, str))
