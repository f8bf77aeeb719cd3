"""A program as launches: its row loops as they are, or, where it has none, what can be done row by row all the same."""

from __future__ import annotations

from collections.abc import Sequence

from lossdsl.backends.api import Island, KernelProgram, NotSupportedError
from lossdsl.backends.triton.demand import demand
from lossdsl.backends.triton.loops import by_loops
from lossdsl.backends.triton.restage import restaged, restaged_long
from lossdsl.backends.triton.shapes import ON_CHIP, SORTED, Demand
from lossdsl.backends.triton.stages import Between, Stage

SCANNED = 2  # more values of an entry that are alive while sums so far are made: 6 alone spilled at 8192


def stages_of(program: KernelProgram) -> tuple[Stage, ...]:
    """The launches of a program, in order; NotSupportedError for what no row of a tensor can hold."""
    try:
        return by_loops(program)
    except NotSupportedError:
        return restaged(program)


def long_stages_of(program: KernelProgram) -> tuple[Stage | Between, ...]:
    """The launches for longer rows, and what stands between them, of a program that otherwise needs them on chip as a
    whole; none where it doesn't, or where what passes from one to the next were larger than any tensor given."""
    if not any(stage.whole for stage in stages_of(program)):
        return ()
    try:
        return restaged_long(program)
    except NotSupportedError:
        return ()


def room(stages: Sequence[Stage]) -> tuple[int, Demand]:
    """What says which rows fit, of launches that need them as a whole: a length, and the most that one wants of
    registers."""
    whole = [stage for stage in stages if stage.whole]
    ops = {s.op for stage in whole for s in stage.statements if isinstance(s, Island)}
    every = [demand(stage, on_chip=True) for stage in whole]
    values = max(d.values for d in every) + (SCANNED if "cumsum" in ops else 0)
    most = Demand(values, max(d.rows for d in every), max(d.beside for d in every))
    return SORTED if "order" in ops else ON_CHIP, most
