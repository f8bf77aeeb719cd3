"""Logarithms of what is made of exponentials, without forming these (log1p, softplus, log(1 - e^u)).

1 - e^u has the accurate form -expm1(u); `match.complement` recognises it. The value 1 - p of a softmax entry p =
e^logp is thus accurate however near p is to 1, since logp is, and so is its logarithm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossdsl.ir.graph import Attr
from lossdsl.ir.rewrite import Rule
from lossdsl.ir.rules.match import as_log, complement, inside, is_const, nonnegative, rational

if TYPE_CHECKING:
    from lossdsl.ir.builder import Builder

_NODES = 16  # of an expression in which a condition is looked for


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
        case "neg":
            return _log_of_opposite(b, node.args[0])
        case "reduce" if node.attrs[0] == "prod" and nonnegative(b, node.args[0]):
            log = b.node("log", [node.args[0]])
            return b.node("reduce", (log, *node.args[1:]), ("sum", node.attrs[1]))
        case "reduce" if node.attrs[0] in ("max", "min"):
            log = as_log(b, node.args[0])
            if log is not None:
                return b.node("reduce", (log, *node.args[1:]), node.attrs)
        case "reduce" if node.attrs[0] == "sum":
            log = as_log(b, node.args[0])
            if log is not None:
                return b.node("reduce", (log, *node.args[1:]), ("logsumexp", node.attrs[1]))
    return None


def _by_choices(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    """log of what hangs on a condition, as the choice between the logarithms of both cases, if one of these is known:
    t·σ(x) + (1 - t)·(1 - σ(x)) for a t that is 1 or 0, 1 - |t - σ(x)|."""
    (x,) = args
    conditions, seen, stack = set[int](), set[int](), [x]
    while stack:
        n = stack.pop()
        if n in seen:
            continue
        seen.add(n)
        if len(seen) > _NODES:
            return None
        node = b[n]
        if node.op == "select":
            conditions.add(node.args[0])
            stack += node.args[1:]
        elif node.op in ("add", "sub", "mul", "neg", "abs", "pow"):
            stack += node.args
    if b[x].op == "select" or len(conditions) != 1:
        return None
    (condition,) = conditions
    cases = tuple(b.rebuild(x, {condition: b.const(met)}) for met in (True, False))
    return b.node("select", [condition, *(b.node("log", [n]) for n in cases)]) if _has_log(b, cases) else None


def _log_of_opposite(b: Builder, x: int) -> int | None:
    """log of -(e^u - 1)·y, or over y, whose sign stands before all, and of a sum of such."""
    node = b[x]
    if node.op == "reduce" and node.attrs[0] == "sum":
        log = _log_of_opposite(b, node.args[0])
        return None if log is None else b.node("reduce", (log, *node.args[1:]), ("logsumexp", node.attrs[1]))
    if node.op not in ("mul", "div"):
        return None
    for less, y in (node.args, node.args[::-1])[: 1 if node.op == "div" else 2]:
        u = inside(b, less, "expm1")
        if u is not None and as_log(b, y) is not None:
            logs = [b.node("log1mexp", [u]), b.node("log", [y])]
            return b.node("add" if node.op == "mul" else "sub", logs)
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


RULES = (
    Rule("log of what hangs on a bit", ("log",), "the logarithm of each case, where one is known", _by_choices),
    Rule(
        "log",
        ("log",),
        "log of exponentials, their sums, complements, powers, bounds and choices without forming them",
        _log,
    ),
    Rule("log1p", ("log1p",), "log1p(e^u) = softplus(u); log1p(-e^u) = log(1 - e^u)", _log1p),
)
