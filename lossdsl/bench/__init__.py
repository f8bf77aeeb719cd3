"""Timing losses: backends and baselines in one process, interleaved, checked against float64 before anything is timed.

Only ratios within one run mean anything: between processes torch itself moves by a factor of two.

    clone    fresh memory for a copy of every tensor that gets a gradient: the floor of a fresh gradient
    copy     the same into memory that is there: the floor of a gradient in place
    exp      `torch.exp(x, out=y)` of one of them: the unit of transcendentals
    eager    the loss as one writes it by hand in torch (`handwritten`), the gradient by autograd; where torch has no
             words for it, the text of the torch backend's value
    compile  `torch.compile` of that
    plain    with a head: the same loss by the first backend, its logits in memory
    inplace  the first backend's with `inplace=True`: logits that are there, and are overwritten
    matmuls  with a head: the matrix products that no gradient can do without, on the same tiles and nothing between
"""

from lossdsl.bench.candidates import Run
from lossdsl.bench.comparing import WrongGradientError
from lossdsl.bench.inputs import draw
from lossdsl.bench.protocol import Prepared, measure, prepare
from lossdsl.bench.report import BASELINES, Report, Timing
from lossdsl.bench.table import table

__all__ = [
    "BASELINES",
    "Prepared",
    "Report",
    "Run",
    "Timing",
    "WrongGradientError",
    "draw",
    "measure",
    "prepare",
    "table",
]
