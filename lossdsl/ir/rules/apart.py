"""Differences between probabilities that are nearly equal, formed from how far these are from another.

In single precision a confident row's probability is 1 and its distance from 1 is nothing; its logarithm is that
distance to the last place. So what is centred over rows is centred from the largest of them, by way of logarithms, and
a softmax less that of the other classes is what these had to give up: p_j - p_j / (1 - p_y) = -p_y·p_j / (1 - p_y).
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from lossdsl.ir.graph import Attr
from lossdsl.ir.rewrite import Rule
from lossdsl.ir.rules.match import inside, is_place

if TYPE_CHECKING:
    from lossdsl.ir.builder import Builder


def _centred(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    """p - mean p as d - mean d with d = p - max p, over axes that p's own softmax does not go along.

    What is the same all along them cancels, in the gradient too (a centred cotangent's sum is 0), so the largest has
    none.
    """
    p, mean = args
    u, quotient = inside(b, p, "exp"), b[mean]
    if u is None or quotient.op != "div" or b[u].op != "logp" or len(b[u].args) != 1:
        return None
    total, count = quotient.args
    axes = b[total].attrs[1] if b[total].op == "reduce" and b[total].args == (p,) else None
    if not isinstance(axes, tuple) or b[total].attrs[0] != "sum" or not axes or not b.type(p).axes >= set(axes):
        return None
    over = b[u].attrs[0]
    if not isinstance(over, tuple) or set(over) & set(axes) or not _counts(b, count, axes):
        return None
    largest = b.node("detach", [b.reduce("max", axes, u)])
    distance = b.node("expsub", [u, largest])
    return b.node("sub", [distance, b.node("div", [b.reduce("sum", axes, distance), count])])


def _counts(b: Builder, n: int, axes: tuple[str, ...]) -> bool:
    """Whether n is how many entries the axes have, or 1 if they have none."""
    sizes = b.reduce("count", axes, b.const(True))
    return n in (sizes, b.node("maximum", [sizes, b.const(1)]))


def _less_the_others(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    """softmax(z) less softmax(z) of all classes but y: p_y at y, and -p_y times the latter elsewhere."""
    for (whole, part), negative in ((args, False), (args[::-1], True)):
        choice, u = b[part], b[whole]
        if choice.op != "select" or u.op != "logp" or len(u.args) != 1:
            continue
        others, of_them, beyond = choice.args
        if b.value(of_them) == -inf:  # not so and so, the other way round
            others, of_them, beyond = b.node("not", [others]), beyond, of_them
        if b.value(beyond) != -inf or b[of_them].op != "logp" or b[of_them].args != (u.args[0], others):
            continue
        if b[of_them].attrs != u.attrs:
            continue
        place = _left_out(b, others, u.attrs[0])
        if place is None:
            continue
        given_up = b.node("mul", [b.node("exp", [b.pick(whole, place)]), b.node("exp", [of_them])])
        found = b.node("select", [others, b.node("neg", [given_up]), b.node("exp", [whole])])
        return b.node("neg", [found]) if negative else found
    return None


def _left_out(b: Builder, mask: int, axes: Attr) -> dict[str, int] | None:
    """Where y is, if the mask is that a class is not y, for rows of which something holds."""
    if not isinstance(axes, tuple) or len(axes) != 1:
        return None
    if b[mask].op == "and":
        varying = [n for n in b[mask].args if b.type(n).axes & set(axes)]
        return _left_out(b, varying[0], axes) if len(varying) == 1 else None
    equal = inside(b, mask, "not")
    if equal is None or b[equal].op != "eq":
        return None
    index, y = b[equal].args
    same = b[index].op == "index" and b[index].attrs == axes and not b.type(y).axes & set(axes)
    return {axes[0]: y} if same and is_an_index(b, y, axes[0]) else None


def is_an_index(b: Builder, y: int, axis: str) -> bool:
    """Whether y surely is the place of a class, whatever it is chosen by."""
    if b[y].op == "select":
        return all(is_an_index(b, a, axis) for a in b[y].args[1:])
    return is_place(b, y, axis)


RULES = (
    Rule("centred probabilities", ("sub",), "p - mean p by way of p - max p, which is exact near 1", _centred),
    Rule("softmax less that of the others", ("expsub",), "p - p / (1 - p_y) = -p_y · p / (1 - p_y)", _less_the_others),
)
