"""The adjoint of a direction u = x / |x|: what of its cotangent g is orthogonal to x, g - u (u·g), over |x|.

Along a coordinate that is far larger than the others, that is a millionth of g, and the rest of its rounding; u's own
length is 1 but for a last place. Projected a second time, what rounding left of u in it goes: "twice is enough" (Kahan;
Parlett, The Symmetric Eigenvalue Problem, 1980, §6.9). No row is visited again, and no matrix is multiplied.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from lossdsl.ir.rules.match import is_const

if TYPE_CHECKING:
    from lossdsl.derive.reverse import Tape
    from lossdsl.ir.builder import Builder


def direction(b: Builder, n: int) -> tuple[str, ...] | None:
    """The axes of the vector x whose direction n is: x / |x|, 0 where x is; None for anything else.

    Of a graph that isn't rewritten none is known: its gradients are what rewritten ones are compared with.
    """
    if not b.rewriting or b[n].op != "div":
        return None
    x, length = b[n].args
    guarded = b[length]
    if guarded.op != "select" or b.value(guarded.args[2]) != inf or b[guarded.args[1]].op != "sqrt":
        return None
    (squares,) = b[guarded.args[1]].args
    condition, total = b[guarded.args[0]], b[squares]
    if condition.op != "lt" or condition.args[1] != squares or not is_const(b, condition.args[0], 0):
        return None
    if total.op != "reduce" or total.attrs[0] != "sum" or len(total.args) > 1 or total.args[0] != _square(b, x):
        return None
    axes = total.attrs[1]
    assert isinstance(axes, tuple)
    return axes


def _square(b: Builder, x: int) -> int:
    return b.node("pow", [x, b.const(2)])


def direction_adjoint(tape: Tape, n: int, axes: tuple[str, ...], g: int) -> None:
    """Gives x the cotangent that u's is worth; x's length needs none of its own."""
    b = tape.builder
    x, length = b[n].args
    for _ in range(2):
        along = b.reduce("sum", axes, b.node("mul", [g, n]))
        g = b.node("sub", [g, b.node("mul", [n, along])])
    tape.spread(x, b[n].type.axes, b.node("div", [g, length]))
