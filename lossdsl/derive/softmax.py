"""The adjoint of logp = z - lse(z), in the forms that keep their digits.

For a cotangent c along the axes, dz_j = c_j - p_j Σ_k c_k. Read at one place y with cotangent c, that is c·(δ_jy -
p_j): at y it is c·(1 - p_y) = -c·expm1(logp_y), never p - 1. So it is for a cotangent that may be one-hot by its
numbers, as that of a soft target: c_j (1 - p_j) - p_j (Σ_k c_k - c_j). For a dense cotangent c_j = p_j·w_j the sum
cancels where p_j is near 1; there dz_j = p_j·(u_j - Σ_k p_k u_k) with u = w - w_a for any reference a, and a = argmax z
makes the large term exactly 0.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from lossdsl.ir.rules.match import is_const

if TYPE_CHECKING:
    from lossdsl.derive.reverse import Tape
    from lossdsl.ir.builder import Builder


def logp_adjoint(tape: Tape, n: int, parts: list[int]) -> None:
    b = tape.builder
    node = b[n]
    axes = node.attrs[0]
    assert isinstance(axes, tuple)
    mask = node.args[1] if len(node.args) == 2 else None
    puts: dict[int, int] = {}
    dense: int | None = None
    for part in parts:
        condition, c = _put(b, part, axes)
        if condition is None:
            dense = part if dense is None else b.node("add", [dense, part])
        else:
            puts[condition] = c if condition not in puts else b.node("add", [puts[condition], c])
    z = node.args[0]
    p = b.node("exp", [n])
    for condition, c in puts.items():
        y = {axes[0]: b[condition].args[1]}
        at = b.node("neg", [b.node("mul", [c, b.node("expm1", [b.pick(n, y)])])])
        away = b.node("neg", [b.node("mul", [c, p])])
        if mask is not None:  # an entry outside the mask is z less a constant that it does not enter
            at = b.node("select", [b.pick(mask, y), at, c])
            away = b.node("select", [mask, away, b.const(0)])
        tape.spread(z, node.type.axes, b.node("select", [condition, at, away]))
    if dense is not None:
        tape.spread(z, node.type.axes, _dense(b, n, dense, axes, mask, p))


def _put(b: Builder, part: int, axes: tuple[str, ...]) -> tuple[int | None, int]:
    """(A == y, c) if the cotangent is c at y and 0 elsewhere."""
    node = b[part]
    if node.op == "select" and is_const(b, node.args[2], 0) and len(axes) == 1:
        whole, c, _ = node.args
        condition, others = _about(b, whole, axes)
        if others is not None:
            c = b.node("select", [others, c, node.args[2]])
        test = b[condition]
        if test.op == "eq" and b[test.args[0]].op == "index" and b[test.args[0]].attrs == axes:
            y = test.args[1]
            if not b.type(y).axes & set(axes) and not b.type(c).axes & set(axes):
                return condition, c
    return None, part


def _about(b: Builder, condition: int, axes: tuple[str, ...]) -> tuple[int, int | None]:
    """A conjunction as the one part that varies along the axes, and the rest of it."""
    if b[condition].op != "and":
        return condition, None
    parts = [_about(b, a, axes) for a in b[condition].args]
    varying = [p for p in parts if b.type(p[0]).axes & set(axes)]
    if len(varying) != 1:
        return condition, None
    rest = [n for p in parts for n in p if n is not None and n != varying[0][0]]
    whole = rest[0]
    for n in rest[1:]:
        whole = b.node("and", [whole, n])
    return varying[0][0], whole


def _dense(b: Builder, n: int, c: int, axes: tuple[str, ...], mask: int | None, p: int) -> int:
    weight, rest = _weighted(b, c, p, axes) if mask is None and len(axes) == 1 else (None, c)
    if weight is not None and rest is not None:
        parts = (b.node("mul", [p, weight]), rest)
        return b.node("add", [_dense(b, n, part, axes, mask, p) for part in parts])
    if weight is not None:
        a = b.node("reduce", [b[n].args[0]], ("argmax", axes))
        u = _apart(b, weight, axes[0], b.node("detach", [a]))
        mean = b.reduce("sum", axes, b.node("mul", [p, u]))
        return b.node("mul", [p, b.node("sub", [u, mean])])
    if mask is not None and len(axes) == 1:
        found = _under(b, n, c, axes, mask)
        if found is not None:
            return found
    total = b.reduce("sum", axes, c)
    if mask is None and len(axes) == 1 and axes[0] in b.type(c).axes:  # c_j (1 - p_j) - p_j (Σ c - c_j)
        own = b.node("mul", [c, b.node("expm1", [n])])
        return b.node("neg", [b.node("add", [own, b.node("mul", [p, b.node("sub", [total, c])])])])
    share = b.node("mul", [total, p])
    if mask is not None:
        share = b.node("select", [mask, share, b.const(0)])
    return b.node("sub", [c, share])


def _under(b: Builder, n: int, c: int, axes: tuple[str, ...], mask: int) -> int | None:
    """The same for c = q·w of a softmax under a mask, q = e^logp there and 0 elsewhere; None of another cotangent."""
    if b[c].op != "select" or b[c].args[0] != mask or not is_const(b, b[c].args[2], 0):
        return None
    q = b.node("exp", [b.node("select", [mask, n, b.const(-inf)])])
    weight = _without_factor(b, b[c].args[1], q)
    if weight is None or not b.type(weight).axes & set(axes):
        return None
    a = b.node("detach", [b.node("reduce", [b[n].args[0], mask], ("argmax", axes))])
    u = b.node("select", [mask, _apart(b, weight, axes[0], a), b.const(0)])
    mean = b.reduce("sum", axes, b.node("mul", [q, u]), mask)
    return b.node("select", [mask, b.node("mul", [q, b.node("sub", [u, mean])]), b.const(0)])


def _weighted(b: Builder, c: int, p: int, axes: tuple[str, ...]) -> tuple[int | None, int | None]:
    """w and r of c = p·w + r, w along the axes; None for one that is not there."""
    weight = _without_factor(b, c, p)
    if weight is not None:
        return (weight, None) if b.type(weight).axes & set(axes) else (None, c)
    node = b[c]
    if node.op not in ("add", "sub", "neg"):
        return None, c
    found = [_weighted(b, a, p, axes) for a in node.args]
    if all(w is None for w, _ in found):
        return None, c
    weight, rest = (_combined(b, node.op, parts) for parts in zip(*found, strict=True))
    return weight, rest


def _combined(b: Builder, op: str, parts: tuple[int | None, ...]) -> int | None:
    """x + y, x - y or -x, of which some may not be there."""
    x, y = (*parts, None)[:2]
    if op == "neg" or y is None:
        return x if x is None or op != "neg" else b.node("neg", [x])
    if x is None:
        return y if op == "add" else b.node("neg", [y])
    return b.node(op, [x, y])


def _apart(b: Builder, e: int, axis: str, a: int) -> int:
    """e less its entry at a, which is detached, up to a number for each row: what e_j and e_a share is not formed.

    A log-softmax is its logits there, less their maximum: the entropy's log p_j - log p_a is z_j - z_a.
    """
    node = b[e]
    if axis not in b.type(e).axes:
        return b.const(0)
    match node.op:
        case "neg":
            return b.node("neg", [_apart(b, node.args[0], axis, a)])
        case "add" | "sub" if sum(axis in b.type(x).axes for x in node.args) == 1:  # two may be nearly equal
            return b.node(node.op, [_apart(b, x, axis, a) for x in node.args])
        case "mul" | "div":
            for x, y in (node.args, node.args[::-1])[: 1 if node.op == "div" else 2]:
                if axis not in b.type(y).axes and b.type(y).interval.finite:
                    return b.node(node.op, [_apart(b, x, axis, a), y])
        case "exp" if _from_logits(b, node.args[0], axis):  # e^x - e^y = e^y·expm1(x - y)
            # neither factor is detached, nor a number for each row left out: together they have the derivative of e^x
            return b.node("mul", [b.pick(e, {axis: a}), b.node("expm1", [_gap(b, node.args[0], axis, a)])])
        case "logp" if node.attrs[0] == (axis,) and len(node.args) == 1:
            (z,) = node.args
            top = b.reduce("max", (axis,), z)
            nothing = b.node("eq", [top, b.const(-inf)])
            return b.node("sub", [z, b.node("detach", [b.node("select", [nothing, b.const(0), top])])])
    return b.node("sub", [e, b.node("detach", [b.pick(e, {axis: a})])])


def _gap(b: Builder, e: int, axis: str, a: int) -> int:
    """e less its entry at a, derivatives included, of what `_from_logits` holds for."""
    node = b[e]
    if node.op == "logp":
        (z,) = node.args
        there = b.pick(z, {axis: a})
        nothing = b.node("eq", [there, b.const(-inf)])
        return b.node("sub", [z, b.node("select", [nothing, b.const(0), there])])
    return b.node(node.op, [_gap(b, x, axis, a) if axis in b.type(x).axes else x for x in node.args])


def _from_logits(b: Builder, n: int, axis: str) -> bool:
    """Whether n is a log-softmax, or one times what is the same all along its axis."""
    node = b[n]
    if node.op in ("neg", "mul", "div"):
        varying = [x for x in node.args if axis in b.type(x).axes]
        return (
            len(varying) == 1
            and varying[0] == node.args[0 if node.op == "div" else -1]
            and _from_logits(b, varying[0], axis)
        )
    return node.op == "logp" and node.attrs[0] == (axis,) and len(node.args) == 1


def _without_factor(b: Builder, c: int, p: int, known: dict[int, int | None] | None = None) -> int | None:
    """w, if c is w·p; `known` are those found for this p."""
    if c <= p:  # arguments come before what is made of them
        return b.const(1) if c == p else None
    known = {} if known is None else known
    if c not in known:
        known[c] = _quotient(b, c, p, known)
    return known[c]


def _quotient(b: Builder, c: int, p: int, known: dict[int, int | None]) -> int | None:
    node = b[c]
    if node.op == "neg":
        w = _without_factor(b, node.args[0], p, known)
        return None if w is None else b.node("neg", [w])
    if node.op == "mul":
        for x, y in (node.args, node.args[::-1]):
            w = _without_factor(b, x, p, known)
            if w is not None:
                return b.node("mul", [w, y])
    if node.op == "div":
        w = _without_factor(b, node.args[0], p, known)
        return None if w is None else b.node("div", [w, node.args[1]])
    if node.op in ("add", "sub"):
        w, v = (_without_factor(b, a, p, known) for a in node.args)
        return None if w is None or v is None else b.node(node.op, [w, v])
    return None
