"""A program as launches: its row loops as they are, or, where it has none, what can be done row by row all the same."""

from __future__ import annotations

from lossdsl.backends.api import KernelProgram, NotSupportedError
from lossdsl.backends.triton.loops import by_loops
from lossdsl.backends.triton.restage import restaged
from lossdsl.backends.triton.stages import Stage


def stages_of(program: KernelProgram) -> tuple[Stage, ...]:
    """The launches of a program, in order; NotSupportedError for what no row of a tensor can hold."""
    try:
        return by_loops(program)
    except NotSupportedError:
        return restaged(program)
