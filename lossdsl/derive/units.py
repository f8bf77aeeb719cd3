"""The adjoint of a direction u = x / |x|: what of its cotangent g is orthogonal to x, g - u (u·g), over |x|.

Along a coordinate that is far larger than the others, that is a millionth of g, and the rest of its rounding. So what
takes away that coordinate of g goes first, a multiple of x: h = g - x g_a / x_a has the same projection, and of the
last place of g_a that h keeps there, h - u (u·h) keeps 1 - u_a^2 only. Matrices are projected twice instead.
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
    condition = b[guarded.args[0]]
    if condition.op != "lt" or condition.args[1] != squares or not is_const(b, condition.args[0], 0):
        return None
    return _squared_length(b, squares, x)


def _squared_length(b: Builder, n: int, x: int) -> tuple[str, ...] | None:
    """The axes A, if n is sum[A](x^2), or that of another sample with x of it."""
    node = b[n]
    if node.op == "pick":
        axes, (source, *places) = node.attrs[0], node.args
        inner = b[source]
        if not isinstance(axes, tuple) or inner.op != "reduce" or b[inner.args[0]].op != "pow":
            return None
        there = b[inner.args[0]].args[0]
        own = _squared_length(b, source, there)
        same = own is not None and b.pick(there, dict(zip(axes, places, strict=True))) == x
        return own if same else None
    if node.op != "reduce" or node.attrs[0] != "sum" or len(node.args) > 1:
        return None
    over = node.attrs[1]
    assert isinstance(over, tuple)
    return over if node.args[0] == b.node("pow", [x, b.const(2)]) else None


def direction_adjoint(tape: Tape, n: int, axes: tuple[str, ...], g: int) -> None:
    """Gives x the cotangent that u's is worth; x's length needs none of its own."""
    b = tape.builder
    x, length = b[n].args
    many = len(axes) == 1 and axes[0] in b.type(g).axes and len(b.type(g).axes) > 2
    if many:
        there = {axes[0]: b.reduce("argmax", axes, b.node("abs", [x]))}
        largest = b.node("select", [b[length].args[0], b.pick(x, there), b.const(1)])
        g = b.node("sub", [g, b.node("mul", [x, b.node("div", [b.pick(g, there), largest])])])
    # of a matrix, rows would be read at another sample's place, which takes whole arrays: projected twice instead
    for _ in range(1 if many else 2):
        along = b.reduce("sum", axes, b.node("mul", [g, n]))
        g = b.node("sub", [g, b.node("mul", [n, along])])
    tape.spread(x, b[n].type.axes, b.node("div", [g, length]))
