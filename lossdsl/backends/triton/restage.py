"""Programs whose statements lie in no row loops, as stages: islands within a row, arrays of three axes, picks.

The program is taken as its distinct whole-array operations. Those that aren't pointwise (the anchors: reductions,
islands, picks, stores) are placed one after the other: each into the first launch whose rows suit it and that comes
after what it needs, else into one of its own. What is pointwise is computed where it is used. A launch has rows and,
within them, one axis at a time; what a later launch needs of it passes through scratch memory, none of it larger than
a tensor of the call.
"""

from __future__ import annotations

from lossdsl.backends.api import KernelProgram
from lossdsl.backends.flat import flatten
from lossdsl.backends.triton.nested import nested
from lossdsl.backends.triton.placing import Placing
from lossdsl.backends.triton.stages import Between, Stage
from lossdsl.backends.triton.writing import Writing


def restaged(program: KernelProgram) -> tuple[Stage, ...]:
    """The launches of a program, in order; NotSupportedError for what fits no row (matrix products and the like)."""
    placed = Placing(nested(flatten(program)))
    placed.all()
    return tuple(Writing(placed, at).stage() for at in range(len(placed.groups)))


def restaged_long(program: KernelProgram) -> tuple[Stage | Between, ...]:
    """The same for rows that no program can hold as a whole: orders and sums so far stand between launches."""
    placed = Placing(nested(flatten(program)), long=True)
    placed.all()
    return tuple(g.between or Writing(placed, at).stage() for at, g in enumerate(placed.groups))
