"""What generated kernels say of themselves: docstrings and comments."""

from __future__ import annotations

import textwrap

from lossdsl.backends.api import Operand, Store
from lossdsl.backends.triton.layout import WIDTH
from lossdsl.backends.triton.spell import identifier
from lossdsl.backends.triton.stages import Stage, Sweep

PURPOSES = {
    "value": "The loss of each row.",
    "aux": "The loss of each row, and its named outputs.",
    "weight": "The weight of each row.",
    "gradient": "The gradient.",
    "both": "Value and gradient in one visit.",
    "second": "The derivative of the gradient along given directions.",
}
# Where a module's kernels begin. A stranger reads this once, and each kernel's docstring.
NAMES = """
In the kernels, for an axis A and a tensor x:
  n_A, B_A      the extent of A; how many of its entries a program has at a time
  cols_A, ok_A  which entries those are; which of them exist
  x_A, U_x      the stride of x along A; how many entries of x side by side are moved at once, which strides count in
  row, live     the rows of a program, R of them; which of these exist. there: which are not left out
Values of a row are [R, 1], of entries [1, B_A], of both [R, B_A]. REAL is the type of all arithmetic.
"""


def purpose(stage: Stage) -> str:
    """What a launch is for, by its name: `gradient_params_1` is the second launch of the gradient by params too."""
    kind, _, rest = stage.name.partition("_")
    number = rest.rpartition("_")[2]
    found = PURPOSES.get(kind, f"{kind.capitalize()}.")
    return f"{found[:-1]}, launch {int(number) + 1}." if number.isdigit() else found


def docstring(text: str) -> list[str]:
    """The lines of a kernel's docstring."""
    return textwrap.wrap(f'"""{text}"""', WIDTH, initial_indent="    ", subsequent_indent="    ")


def names() -> str:
    """What the names in kernels mean, as a comment."""
    return "".join(f"# {line}\n" for line in NAMES.strip().splitlines())


def subject(sweep: Sweep) -> str:
    """What a sweep finds out of its rows, and what it writes."""
    found = [f"{r.reduction} of {', '.join(map(_name, r.args))}" for r in sweep.reductions]
    return ", ".join([*found, *dict.fromkeys(_name(s.buffer) for s in sweep.body if isinstance(s, Store))])


def _name(x: Operand) -> str:
    return identifier(x) if isinstance(x, str) else str(x)
