"""One stage as Triton functions: one has whole rows on chip, one goes over a row in blocks."""

from __future__ import annotations

from lossdsl.backends.triton.arguments import divisors
from lossdsl.backends.triton.blocks import Blocks
from lossdsl.backends.triton.rows import Rows
from lossdsl.backends.triton.sharing import shared
from lossdsl.backends.triton.stages import Stage


def kernels(stage: Stage) -> tuple[str, str]:
    """The text of both kernels of a stage; the second is empty where no row has anything to sweep over,
    or where rows have to be on chip as a whole."""
    whole_rows = shared(stage, on_chip=True)
    first = Rows(stage, whole_rows, True, divisors(whole_rows)).text()
    if not stage.sweeps or stage.whole:
        return first, ""
    blocks = shared(stage, on_chip=False)
    return first, Blocks(stage, blocks, False, divisors(blocks)).text()
