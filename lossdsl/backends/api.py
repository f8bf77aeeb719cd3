"""All that a backend may import of lossdsl: the KernelProgram it prints and the records it returns.

A backend is a distribution with a hook (`lossdsl.backends.hooks`) that returns `BackendSpec` records, and two
functions:

    probe() -> Availability          can it be used on this machine, and if not, why
    emit(plan: Plan) -> Emitted      the Python text of one function a program, plus what those need; it may raise
                                     NotSupportedError

Each emitted function has the name of its program's kind (`value`, `gradient`, `both`, …). It takes the program's "in"
and "param" buffers in order, as tensors in their own dtypes and strides with the dimensions that `Buffer.axes` says,
then by keyword the sizes of axes that no buffer has (`size_argument` of each of `free_axes`); it returns the tuple of
"out" buffers. Real inputs may be half: arithmetic is in float32 then, in float64 if any real input is float64, and
where `why_double` says why (results that are not gradients come in what arithmetic would have been in without). Params
are 0-d (or 1-d) float64 tensors. The result grad_x or second_x has the dtype of x.

A backend whose spec says `into` takes memory for results from its caller, by the keyword `into`: a sequence with a
tensor (of the result's shape and dtype, any strides) or None for each. A function has the attribute `over`, a mapping,
where a result may lie in the memory of an argument: the result's place to that of the argument (`overwritable` says
which).

`emit` may take `source` and `registry` by keyword. A primitive that the target language lacks is printed from the
program that `formula(name, registry)` gives: its record's expansion, in primitives that are nearer to any language.
`lossdsl.testing.conformance` tests all of this.
"""

from __future__ import annotations

from dataclasses import dataclass

from lossdsl.backends.formula import formula
from lossdsl.backends.offer import API, OLDEST_API, Availability
from lossdsl.ir.graph import is_whole
from lossdsl.plan.kernel import (
    COMPARISONS,
    STEPS,
    Buffer,
    Island,
    KernelProgram,
    Let,
    Load,
    Loop,
    Operand,
    Pick,
    Plan,
    Reduce,
    Scatter,
    Stmt,
    Store,
    Value,
)
from lossdsl.plan.names import axis_sizes, free_axes, size_argument
from lossdsl.plan.numbering import Numbering
from lossdsl.plan.overwrite import overwritable
from lossdsl.plan.width import why_double
from lossdsl.registry import BackendSpec, Registry


class NotSupportedError(Exception):
    """Raised by `emit` for a program that the backend has no words for; the message names what ("the island order").

    Asked for by name, the user sees it as an error; "auto" then takes the next backend.
    """


@dataclass(frozen=True, slots=True)
class Emitted:
    """Text for the generated module.

    imports    import lines (sorted into the module's own)
    functions  the definitions of value, gradient and second, formatted at 88 columns
    runtime    modules whose text `--standalone` embeds, in order, by import name ("lossdsl_cpu.runtime")
    """

    imports: tuple[str, ...]
    functions: str
    runtime: tuple[str, ...] = ()


__all__ = [
    "API",
    "COMPARISONS",
    "OLDEST_API",
    "STEPS",
    "Availability",
    "BackendSpec",
    "Buffer",
    "Emitted",
    "Island",
    "KernelProgram",
    "Let",
    "Load",
    "Loop",
    "NotSupportedError",
    "Numbering",
    "Operand",
    "Pick",
    "Plan",
    "Reduce",
    "Registry",
    "Scatter",
    "Stmt",
    "Store",
    "Value",
    "axis_sizes",
    "formula",
    "free_axes",
    "is_whole",
    "overwritable",
    "size_argument",
    "why_double",
]
