"""What is left of 1, or of a factor c, beside an exponential: 1 - e^u = -expm1(u), c·e^u - c, 1 - Σ p.

None is a rule of its own: `differences` asks them in its order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossdsl.ir.rules.match import factors, inside, is_const, is_whole, may_be_none, nonnegative, rational, with_rest

if TYPE_CHECKING:
    from lossdsl.ir.builder import Builder


def shared_one_less(b: Builder, x: int, y: int) -> int | None:
    """c·e^u - c as c·expm1(u), and the other way round."""
    for whole, part, negative in ((x, y, False), (y, x, True)):
        over, under = factors(b, whole), factors(b, part)
        p = next((f for f in over if b[f].op == "exp"), None)
        if p is None or len(over) != len(under) + 1:
            continue
        found = with_rest(b, b.node("expm1", b[p].args), (over, [p]), (under, []))
        if found is not None:
            return b.node("neg", [found]) if negative else found
    return None


def less_choice(b: Builder, x: int, y: int) -> int | None:
    """c·e^u - c·(1 if something is there else 0) as c·(expm1(u) or e^u)."""
    over, under = factors(b, x), factors(b, y)
    p = next((f for f in over if b[f].op == "exp"), None)
    k = next((f for f in under if _indicates(b, f)), None)
    if p is None or k is None:
        return None
    both = b.node("select", [b[k].args[0], b.node("expm1", b[p].args), p])
    return with_rest(b, both, (over, [p]), (under, [k]))


def _indicates(b: Builder, n: int) -> bool:
    return b[n].op == "select" and is_const(b, b[n].args[1], 1) and is_const(b, b[n].args[2], 0)


def one_less(b: Builder, e: int, negative: bool) -> int | None:
    """e - 1, or 1 - e, where the difference has a form of its own."""
    node = b[e]
    u = inside(b, e, "exp")
    if u is None and node.op == "pow" and nonnegative(b, node.args[0]) and not is_whole(b, node.args[1]):
        u = b.node("mul", [node.args[1], b.node("log", [node.args[0]])])
    if u is not None:
        less = b.node("expm1", [u])
        return b.node("neg", [less]) if negative else less
    if node.op == "div" and is_const(b, node.args[0], 1) and b[node.args[1]].op == "sigmoid":  # 1/σ(x) = 1 + e^-x
        less = b.node("exp", [b.node("neg", b[node.args[1]].args)])
        return b.node("neg", [less]) if negative else less
    beyond = _less_than_powers(b, e)
    if beyond is None:
        beyond = _beyond_running_sum(b, e)
    if beyond is not None:
        return beyond if negative else b.node("neg", [beyond])
    if node.op == "sigmoid":
        rest = b.node("sigmoid", [b.node("neg", node.args)])
        return rest if negative else b.node("neg", [rest])
    if node.op == "select" and all(b[a].op == "sigmoid" for a in node.args[1:]):
        less = b.node("select", [node.args[0], *(b.node("sigmoid", [b.node("neg", b[a].args)]) for a in node.args[1:])])
        return less if negative else b.node("neg", [less])
    return None


def _less_than_powers(b: Builder, e: int) -> int | None:
    """1 - Σ p^k = Σ p·(1 - p^(k - 1)) for a softmax p and k = 2, 3, …: terms that are never negative."""
    node = b[e]
    if node.op != "reduce" or node.attrs[0] != "sum" or len(node.args) != 1 or b[node.args[0]].op != "pow":
        return None
    p, k = b[node.args[0]].args
    u, power = inside(b, p, "exp"), rational(b, k)
    if u is None or power is None or power.denominator != 1 or power < 2:
        return None
    if b[u].op != "logp" or b[u].attrs[0] != node.attrs[1] or len(b[u].args) != 1 or may_be_none(b, b[u].args[0]):
        return None
    less = b.node("neg", [b.node("expm1", [b.node("mul", [b.const(power - 1), u])])])
    return b.node("reduce", [b.node("mul", [p, less])], node.attrs)


def _beyond_running_sum(b: Builder, e: int) -> int | None:
    """1 - Σ p over the first classes, as the sum over those behind them."""
    node = b[e]
    if node.op != "cumsum" or len(node.args) != 1 or len(node.attrs) != 1:
        return None
    axis = str(node.attrs[0])
    u = inside(b, node.args[0], "exp")
    if u is None or b[u].op != "logp" or b[u].attrs[0] != (axis,) or len(b[u].args) != 1:
        return None
    here, from_end = b.index(axis), b.node("cumsum", node.args, (axis, True))
    following = b.node("add", [here, b.const(1)])
    more = b.node("lt", [following, b.size(axis)])
    rest = b.pick(from_end, {axis: b.node("select", [more, following, here])})
    return b.node("select", [more, rest, b.const(0)])


def less_at_one_place(b: Builder, x: int, y: int) -> int | None:
    """`corrected` of a sum whose first part is a negative; what both are guarded by is put around the whole."""
    choice, whole = b[x], b[y]
    if choice.op != "select" or not is_const(b, choice.args[2], 0):
        return None
    condition, less, nothing = choice.args
    if whole.op == b[less].op == "select" and whole.args[:2] == b[less].args[:2] and is_const(b, whole.args[1], 0):
        guard, _, inner = whole.args
        found = less_at_one_place(b, b.node("select", [condition, b[less].args[2], nothing]), inner)
        return None if found is None else b.node("select", [guard, nothing, found])
    if b[less].op not in ("neg", "const"):
        return None
    return corrected(b, b.node("select", [condition, b.node("neg", [less]), nothing]), y)


def corrected(b: Builder, choice: int, y: int) -> int | None:
    """c·e^u - (c at one place, else 0) as c·(expm1(u) there, else e^u): a gradient p - e_y written as a difference."""
    node = b[choice]
    if node.op != "select" or not is_const(b, node.args[2], 0) or is_const(b, node.args[1], 0):
        return None
    c, found = node.args[1], factors(b, y)
    p = next((f for f in found if b[f].op == "exp"), None)
    if p is None:
        return None
    there = b.node("select", [node.args[0], b.node("expm1", b[p].args), p])
    return with_rest(b, there, (found, [p]), ([] if is_const(b, c, 1) else factors(b, c), []))
