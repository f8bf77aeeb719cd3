"""Probabilities over what is left of them, or over their length, as probabilities of another softmax.

p / (1 - p_y) is the softmax of all entries but y: its parts sum to 1 to the last digit. p / |p| is the root of the
softmax of twice the logits, whose gradient is p - e_y of that softmax, and no difference of quotients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossdsl.ir.rules.match import factors, inside, is_const

if TYPE_CHECKING:
    from lossdsl.ir.builder import Builder


def of_the_others(b: Builder, x: int, y: int) -> int | None:
    """c·p / (c·(p_y - 1)) as the negative of the softmax of all entries but y, for p of whatever rows."""
    over, under = factors(b, x), factors(b, y)
    p = next((f for f in over if b[f].op == "exp"), None)
    q = next((f for f in under if b[f].op == "expm1"), None)
    if p is None or q is None:
        return None
    (u, here), (v, there) = (_entry(b, b[n].args[0]) for n in (p, q))
    axes = b[u].attrs[0] if b[u].op == "logp" and len(b[u].args) == 1 and u == v else None
    if not isinstance(axes, tuple) or len(axes) != 1:
        return None
    over.remove(p)
    under.remove(q)
    (axis,) = axes
    rows = {a: n for a, n in here.items() if a != axis}
    if sorted(over) != sorted(under) or rows != {a: n for a, n in there.items() if a != axis}:
        return None
    if any(b[n].op != "index" for n in rows.values()) or len(set(rows.values())) < len(rows):
        return None
    back = {str(b[n].attrs[0]): b.index(a) for a, n in rows.items()}
    left_out = b.pick(there[axis], {a: n for a, n in back.items() if n != b.index(a)})
    if left_out == b.index(axis) or axis in b.type(left_out).axes:
        return None
    others = b.node("not", [b.node("eq", [b.index(axis), left_out])])
    of_them = b.node("exp", [b.node("logp", [b[u].args[0], others], (axes,))])
    return b.node("neg", [b.pick(of_them, {a: n for a, n in here.items() if n != b.index(a)})])


def over_length(b: Builder, x: int, y: int) -> int | None:
    """p_y / |p|, for a softmax p, as the root of an entry of the softmax of twice the logits; |p| is never 0."""
    v, length = inside(b, x, "exp"), b[y]
    if length.op == "select" and is_const(b, length.args[2], 0):  # the norm of the language, 0 for zeros
        length = b[length.args[1]]
    if v is None or length.op != "sqrt":
        return None
    u = b[v].args[0] if b[v].op == "pick" else v
    squares, node = b[length.args[0]], b[u]
    if node.op != "logp" or len(node.args) != 1 or squares.op != "reduce" or len(squares.args) != 1:
        return None
    if squares.attrs != ("sum", node.attrs[0]) or squares.args[0] != b.node("pow", [b.node("exp", [u]), b.const(2)]):
        return None
    twice = b.node("logp", [b.node("mul", [b.const(2), node.args[0]])], node.attrs)
    if b[v].op == "pick":
        axes = b[v].attrs[0]
        assert isinstance(axes, tuple)
        twice = b.pick(twice, dict(zip(axes, b[v].args[1:], strict=True)))
    return b.node("exp", [b.node("div", [twice, b.const(2)])])


def _entry(b: Builder, n: int) -> tuple[int, dict[str, int]]:
    """What n is an entry of, through all picks, and the index along each of its axes."""
    node = b[n]
    if node.op != "pick":
        return n, {a: b.index(a) for a in b.type(n).axes}
    axes, (source, *places) = node.attrs[0], node.args
    assert isinstance(axes, tuple)
    outer = dict(zip(axes, places, strict=True))
    whole, inner = _entry(b, source)
    return whole, {a: b.pick(i, {x: k for x, k in outer.items() if x in b.type(i).axes}) for a, i in inner.items()}
