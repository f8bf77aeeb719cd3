"""Logarithms and exponentials in the forms that keep their digits (kernels of log1p, expm1, softplus, log(1 - e^u)).

1 - e^u has the accurate form -expm1(u); `match.complement` recognises it. The value 1 - p of a softmax entry p =
e^logp is thus accurate however near p is to 1, since logp is.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from lossdsl.ir.graph import Attr
from lossdsl.ir.rewrite import Rule
from lossdsl.ir.rules.match import as_log, complement, factors, inside, is_const, nonnegative, rational
from lossdsl.ir.rules.others import of_the_others, over_length

if TYPE_CHECKING:
    from lossdsl.ir.builder import Builder


def _log(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    (x,) = args
    node = b[x]
    if is_const(b, x, 1):
        return b.const(0)
    log = as_log(b, x)
    if log is not None:
        return log
    u = complement(b, x)
    if u is not None:
        return b.node("log1mexp", [u])
    match node.op:
        case "sigmoid":
            return b.node("neg", [b.node("softplus", [b.node("neg", node.args)])])
        case "pow" if nonnegative(b, node.args[0]):
            return b.node("mul", [node.args[1], b.node("log", [node.args[0]])])
        case "sqrt":
            return b.node("div", [b.node("log", node.args), b.const(2)])
        case "maximum" | "minimum" | "clip" if all(nonnegative(b, a) for a in node.args) and _has_log(b, node.args):
            return b.node(node.op, [b.node("log", [a]) for a in node.args])
        case "select" if _has_log(b, node.args[1:]):
            return b.node("select", [node.args[0], *(b.node("log", [a]) for a in node.args[1:])])
        case "add":
            return _log_sum(b, *node.args)
        case "sub" if is_const(b, node.args[0], 1):
            return b.node("log1p", [b.node("neg", [node.args[1]])])
        case "div" if all(nonnegative(b, a) for a in node.args) and as_log(b, node.args[1]) is not None:
            return b.node("sub", [b.node("log", [node.args[0]]), b.node("log", [node.args[1]])])
        case "reduce" if node.attrs[0] == "sum":
            log = as_log(b, node.args[0])
            if log is not None:
                return b.node("reduce", (log, *node.args[1:]), ("logsumexp", node.attrs[1]))
    return None


def _has_log(b: Builder, args: tuple[int, ...]) -> bool:
    """Whether the logarithm of one of them is there without forming it."""
    return any(as_log(b, a) is not None or complement(b, a) is not None or b[a].op == "sigmoid" for a in args)


def _log_sum(b: Builder, x: int, y: int) -> int | None:
    for one, other in ((x, y), (y, x)):
        if is_const(b, one, 1):
            return b.node("log1p", [other])
        found = _log_mixture(b, one, other)
        if found is not None:
            return found
    p, q = as_log(b, x), as_log(b, y)
    return None if p is None or q is None else b.node("logaddexp", [p, q])


def _log_mixture(b: Builder, part: int, other: int) -> int | None:
    """log(t + (1 - t) e^u) as log1p((1 - t) (e^u - 1)); where t is added under a condition only, the two choices."""
    node = b[part]
    if node.op == "select" and b[other].op == "mul":
        condition, yes, no = node.args
        if is_const(b, no, 0) and _mixes(b, yes, other) is not None:
            both = b.node("log", [b.node("add", [yes, other])])
            return b.node("select", [condition, both, b.node("log", [other])])
    u = _mixes(b, part, other)
    if u is None:
        return None
    rest = b.node("sub", [b.const(1), part])
    return b.node("log1p", [b.node("mul", [rest, b.node("expm1", [u])])])


def _mixes(b: Builder, t: int, other: int) -> int | None:
    """u, if other is (1 - t) e^u."""
    node = b[other]
    if node.op != "mul":
        return None
    for x, y in (node.args, node.args[::-1]):
        rest, u = b[x], inside(b, y, "exp")
        whole = rest.op == "sub" and is_const(b, rest.args[0], 1) and rest.args[1] == t
        known = rational(b, x), rational(b, t)
        if u is not None and (whole or (None not in known and sum(k for k in known if k is not None) == 1)):
            return u
    return None


def _minus_choice(b: Builder, x: int, y: int) -> int | None:
    """x - (v or k + x) as (x - v or -k)."""
    if b[y].op != "select":
        return None
    condition, *branches = b[y].args
    if not any(b[n].op == "add" and x in b[n].args for n in branches):
        return None
    return b.node("select", [condition, *(_less(b, x, n) for n in branches)])


def _less(b: Builder, x: int, y: int) -> int:
    """x - y; of k + x it is -k, where x is finite, and the rest was NaN."""
    if b[y].op == "add" and x in b[y].args:
        k, z = b[y].args if b[y].args[1] == x else b[y].args[::-1]
        return b.node("neg", [k]) if z == x else b.node("sub", [x, y])
    return b.node("sub", [x, y])


def _exp(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    (u,) = args
    node = b[u]
    if is_const(b, u, 0):
        return b.const(1)
    if b.value(u) == -inf:
        return b.const(0)
    match node.op:
        case "log" if nonnegative(b, node.args[0]):
            return node.args[0]
        case "log1p" if b.type(node.args[0]).interval.low >= -1:
            return b.node("add", [b.const(1), node.args[0]])
        case "log1mexp" if b.type(node.args[0]).interval.high <= 0:
            return b.node("neg", [b.node("expm1", node.args)])
        case "neg":
            x = inside(b, node.args[0], "softplus")
            if x is not None:
                return b.node("sigmoid", [b.node("neg", [x])])
    return None


def _expm1(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    (u,) = args
    if is_const(b, u, 0):
        return b.const(0)
    negated = inside(b, u, "neg")
    x = None if negated is None else inside(b, negated, "softplus")
    if x is not None:
        return b.node("neg", [b.node("sigmoid", [x])])
    plus = inside(b, u, "log1p")
    return plus if plus is not None and b.type(plus).interval.low >= -1 else None  # else it may have no logarithm


def _log1p(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    (x,) = args
    if is_const(b, x, 0):
        return x
    for op, form in (("exp", "softplus"), ("expm1", "")):
        u = inside(b, x, op)
        if u is not None:
            return b.node(form, [u]) if form else u
    negated = inside(b, x, "neg")
    if negated is not None:
        log = as_log(b, negated)
        if log is not None and b.type(negated).interval.high <= 1:
            return b.node("log1mexp", [log])
    return None


def _minus(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    x, y = args
    if is_const(b, x, 1):
        return _one_less(b, y, negative=True)
    if is_const(b, y, 1):
        return _one_less(b, x, negative=False)
    if inside(b, x, "softplus") == y:
        return b.node("softplus", [b.node("neg", [y])])
    for found in (_softplus_of_choice(b, x, y), _minus_choice(b, x, y)):
        if found is not None:
            return found
    for rule in (_difference_of_exp, _crossed, _shared_one_less, _less_choice):
        result = rule(b, x, y)
        if result is not None:
            return result
    return _corrected(b, y, x)


def _softplus_of_choice(b: Builder, x: int, y: int) -> int | None:
    """softplus(u) - (u or 0) as softplus(±u): the loss of a bit, and in its gradient σ(u) - 1 as -σ(-u)."""
    u, choice = inside(b, x, "softplus"), b[y]
    if u is None or choice.op != "select":
        return None
    condition, yes, no = choice.args
    turned = b.node("softplus", [b.node("neg", [u])])
    if yes == u and is_const(b, no, 0):
        return b.node("select", [condition, turned, x])
    if no == u and is_const(b, yes, 0):
        return b.node("select", [condition, x, turned])
    return None


def _difference_of_exp(b: Builder, x: int, y: int) -> int | None:
    """c·e^p - c·e^q as c·expsub(p, q), which is exact where p is near q: the gradient of a divergence near its zero."""
    over, under = factors(b, x), factors(b, y)
    p, q = (next((f for f in found if b[f].op == "exp"), None) for found in (over, under))
    if p is None or q is None:
        return None
    return _with_rest(b, b.node("expsub", [b[p].args[0], b[q].args[0]]), (over, [p]), (under, [q]))


def _with_rest(b: Builder, e: int, *sides: tuple[list[int], list[int]]) -> int | None:
    """c·e, if c is what is left of every side (its factors, those that e stands for); None if they differ."""
    left = []
    for found, gone in sides:
        rest = list(found)
        for factor in gone:
            if factor not in rest:
                return None
            rest.remove(factor)
        left.append(sorted(rest))
    if any(rest != left[0] for rest in left):
        return None
    for factor in left[0]:
        e = b.node("mul", [factor, e])
    return e


def _crossed(b: Builder, x: int, y: int) -> int | None:
    """c·e^q·(e^p - 1) - c·e^p·(e^q - 1) as c·(e^p - e^q): of a softmax's adjoint where the cotangent is a softmax too.

    c·(e^p - 1) - c·e^p is -c; where e^q - 1 is so only under a condition (something is there), the two choices.
    """
    over, under = factors(b, x), factors(b, y)
    p = next((f for f in over if b[f].op == "expm1"), None)
    q = next((f for f in under if b[f].op == "expm1"), None)
    if p is None or p == q:
        return None
    u = b[p].args[0]
    if q is not None:
        v = b[q].args[0]
        powers = b.node("exp", [v]), b.node("exp", [u])
        return _with_rest(b, b.node("expsub", [u, v]), (over, [p, powers[0]]), (under, [q, powers[1]]))
    whole = _with_rest(b, b.const(-1), (over, [p]), (under, [b.node("exp", [u])]))
    if whole is not None:
        return whole
    choice = next((f for f in under if b[f].op == "select" and b[b[f].args[1]].op == "expm1"), None)
    if choice is None:
        return None
    condition, yes, no = b[choice].args
    under.remove(choice)
    met = _crossed(b, x, _product(b, [yes, *under]))
    if met is None:
        return None
    return b.node("select", [condition, met, b.node("sub", [x, _product(b, [no, *under])])])


def _product(b: Builder, found: list[int]) -> int:
    result = found[0]
    for factor in found[1:]:
        result = b.node("mul", [factor, result])
    return result


def _shared_one_less(b: Builder, x: int, y: int) -> int | None:
    """c·e^u - c as c·expm1(u), and the other way round."""
    for whole, part, negative in ((x, y, False), (y, x, True)):
        over, under = factors(b, whole), factors(b, part)
        p = next((f for f in over if b[f].op == "exp"), None)
        if p is None or len(over) != len(under) + 1:
            continue
        found = _with_rest(b, b.node("expm1", b[p].args), (over, [p]), (under, []))
        if found is not None:
            return b.node("neg", [found]) if negative else found
    return None


def _less_choice(b: Builder, x: int, y: int) -> int | None:
    """c·e^u - c·(1 if something is there else 0) as c·(expm1(u) or e^u)."""
    over, under = factors(b, x), factors(b, y)
    p = next((f for f in over if b[f].op == "exp"), None)
    k = next((f for f in under if _indicates(b, f)), None)
    if p is None or k is None:
        return None
    both = b.node("select", [b[k].args[0], b.node("expm1", b[p].args), p])
    return _with_rest(b, both, (over, [p]), (under, [k]))


def _indicates(b: Builder, n: int) -> bool:
    return b[n].op == "select" and is_const(b, b[n].args[1], 1) and is_const(b, b[n].args[2], 0)


def _one_less(b: Builder, e: int, negative: bool) -> int | None:
    """e - 1, or 1 - e, where the difference has a form of its own."""
    node = b[e]
    u = inside(b, e, "exp")
    if u is None and node.op == "pow" and nonnegative(b, node.args[0]) and not _whole(b, node.args[1]):
        u = b.node("mul", [node.args[1], b.node("log", [node.args[0]])])
    if u is not None:
        less = b.node("expm1", [u])
        return b.node("neg", [less]) if negative else less
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


def _whole(b: Builder, n: int) -> bool:
    value = rational(b, n)
    return value is not None and value.denominator == 1


def _plus(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    for x, y in (args, args[::-1]):
        u = inside(b, y, "expm1")
        if is_const(b, x, 1) and u is not None:
            return b.node("exp", [u])
        found = _less_at_one_place(b, x, y)
        if found is not None:
            return found
    return None


def _less_at_one_place(b: Builder, x: int, y: int) -> int | None:
    """`_corrected` of a sum whose first part is a negative; what both are guarded by is put around the whole."""
    choice, whole = b[x], b[y]
    if choice.op != "select" or not is_const(b, choice.args[2], 0):
        return None
    condition, less, nothing = choice.args
    if whole.op == b[less].op == "select" and whole.args[:2] == b[less].args[:2] and is_const(b, whole.args[1], 0):
        guard, _, inner = whole.args
        found = _less_at_one_place(b, b.node("select", [condition, b[less].args[2], nothing]), inner)
        return None if found is None else b.node("select", [guard, nothing, found])
    if b[less].op not in ("neg", "const"):
        return None
    return _corrected(b, b.node("select", [condition, b.node("neg", [less]), nothing]), y)


def _corrected(b: Builder, choice: int, y: int) -> int | None:
    """c·e^u - (c at one place, else 0) as c·(expm1(u) there, else e^u): a gradient p - e_y written as a difference."""
    node = b[choice]
    if node.op != "select" or not is_const(b, node.args[2], 0) or is_const(b, node.args[1], 0):
        return None
    c, found = node.args[1], factors(b, y)
    p = next((f for f in found if b[f].op == "exp"), None)
    if p is None:
        return None
    there = b.node("select", [node.args[0], b.node("expm1", b[p].args), p])
    return _with_rest(b, there, (found, [p]), ([] if is_const(b, c, 1) else factors(b, c), []))


def _balance(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    """t·(m - p) + (1 - t)·(m - q) is 0 for the mixture m = t·p + (1 - t)·q: what a mixture's own cotangent comes to."""
    products = [factors(b, a) for a in args]
    parts = [next((f for f in found if b[f].op == "expsub"), None) for found in products]
    p, q = parts
    if p is None or q is None or p == q or b[p].args[0] != b[q].args[0]:
        return None
    mixture = b[b[p].args[0]]
    if mixture.op != "logaddexp" or any(b[a].op != "add" for a in mixture.args):
        return None
    weights = {b[a].args[1]: b.node("exp", [b[a].args[0]]) for a in mixture.args}
    for found, part in zip(products, (p, q), strict=True):
        weight = weights.get(b[part].args[1])
        if weight is None or weight not in found:
            return None
        found.remove(part)
        found.remove(weight)
    return b.const(0) if sorted(products[0]) == sorted(products[1]) else None


def _power(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    x, a = args
    if _whole(b, a):
        return None  # p * p of a p that is there anyway beats another exponential
    log = as_log(b, x)
    if log is None and b[x].op == "sigmoid":
        log = b.node("log", [x])
    return None if log is None else b.node("exp", [b.node("mul", [a, log])])


def _divide(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    p, q = inside(b, args[0], "exp"), inside(b, args[1], "exp")
    if p is not None and q is not None:
        return b.node("exp", [b.node("sub", [p, q])])
    length = over_length(b, *args)
    return of_the_others(b, *args) if length is None else length


def _sqrt(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    log = as_log(b, args[0])
    return None if log is None else b.node("exp", [b.node("div", [log, b.const(2)])])


def _acos(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    u = inside(b, args[0], "exp")
    if u is None:
        return None
    half = b.node("div", [b.node("neg", [b.node("expm1", [u])]), b.const(2)])
    return b.node("mul", [b.const(2), b.node("asin", [b.node("sqrt", [half])])])


RULES = (
    Rule(
        "log",
        ("log",),
        "log of exponentials, their sums, complements, powers, bounds and choices without forming them",
        _log,
    ),
    Rule("exp", ("exp",), "exp of a logarithm is its argument", _exp),
    Rule("expm1", ("expm1",), "expm1(-softplus(x)) = -sigmoid(x)", _expm1),
    Rule("log1p", ("log1p",), "log1p(e^u) = softplus(u); log1p(-e^u) = log(1 - e^u)", _log1p),
    Rule(
        "difference",
        ("sub",),
        "1 - e^u = -expm1(u); softplus(x) - x = softplus(-x); e^a - e^b; c·e^u - c; 1 - Σ p",
        _minus,
    ),
    Rule("sum", ("add",), "1 + expm1(u) = e^u; e^u less 1 at one place is expm1(u) there", _plus),
    Rule("balance", ("add",), "a mixture's parts balance about it", _balance),
    Rule("power of exp", ("pow",), "(e^u)^a = e^(a·u): no underflow before the power", _power),
    Rule(
        "ratio of exp",
        ("div",),
        "e^a / e^b = e^(a - b); p / (1 - p_y) is the softmax of the others; p / |p| is one of 2 z",
        _divide,
    ),
    Rule(
        "angle of exp",
        ("acos",),
        "acos(e^u) = 2 asin(sqrt((1 - e^u) / 2)): an angle is the root of what p is from 1",
        _acos,
    ),
    Rule("root of exp", ("sqrt",), "sqrt(e^u) = e^(u/2)", _sqrt),
)
