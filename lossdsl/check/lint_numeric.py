"""Warnings about numbers: where a value or a derivative becomes infinite, or a constant is lost."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fractions import Fraction

from lossdsl.check.context import Context
from lossdsl.check.typed import CheckedLoss, Term
from lossdsl.check.types import base_axis

HALF = 2.0**-24  # the smallest number of half precision
# What the compiler differentiates exactly up to the end of its range, so that 0 is no danger there.
_EXACT = frozenset({"softmax", "log_softmax", "exp", "sigmoid", "expm1", "softplus", "tanh", "logsumexp"})


def numeric(cx: Context, checked: CheckedLoss, every: Sequence[Term]) -> None:
    """Report on all terms of the loss that its own text holds."""
    moving = _moving(checked, every)
    by_inputs = _moving(checked, every, without={p.name for p in checked.params})
    unbounded = {i.name for i in checked.inputs if i.bounds is None and i.kind == "real" and i.draw is None}
    for term in every:
        if id(term) not in cx.terms.own:
            continue
        if term.op == "log":
            _log(cx, term, unbounded)
        elif term.op in ("pow", "sqrt"):
            _power(cx, term, moving)
        elif term.op == "select":
            _isolated(cx, term, by_inputs)
        elif term.op in ("softmax", "log_softmax"):
            _single(cx, term)
        elif term.op in ("add", "maximum"):
            _epsilon(cx, term)
        elif term.op == "reduce" and term.attrs[0] == "sum":
            _smoothing(cx, checked, term)


def _text(cx: Context, term: Term) -> str:
    if term.op == "leaf":
        return f"`{term.attrs[0]}`"
    text = " ".join(cx.source.text[term.span.start : term.span.end].split())
    return f"`{text}`" if len(text) <= 48 else "this"


def _moving(checked: CheckedLoss, every: Sequence[Term], without: Collection[str] = ()) -> set[int]:
    """The terms through which a gradient flows: those that a differentiable input or a param reaches, but `without`."""
    fixed = {i.name for i in checked.inputs if i.fixed or i.kind != "real"} | set(without)
    users: dict[int, list[Term]] = {}
    for t in every:
        for a in t.args:
            users.setdefault(id(a), []).append(t)
    stack = [t for t in every if t.op == "leaf" and t.type.kind == "real" and str(t.attrs[0]) not in fixed]
    found = {id(t) for t in stack}
    while stack:
        for user in users.get(id(stack.pop()), ()):
            if user.op != "detach" and user.type.kind == "real" and id(user) not in found:
                found.add(id(user))
                stack.append(user)
    return found


def _core(term: Term) -> Term:
    """What a value is made of, below picks, signs, selections of one branch and complements 1 - x."""
    while True:
        if term.op in ("pick", "where", "detach", "neg"):
            term = term.args[0]
        elif term.op in ("sub", "add") and term.args[0].op == "const":
            term = term.args[1]
        elif (term.op in ("sub", "add") and term.args[1].op == "const") or (
            term.op == "div" and term.args[1].op in ("const", "leaf", "size")
        ):
            term = term.args[0]
        else:
            return term


def _exact(term: Term) -> bool:
    stack, seen = [term], {id(term)}
    while stack:
        core = _core(stack.pop())
        name = str(core.attrs[0]) if core.op == "reduce" else core.op
        if name in _EXACT:
            return True
        if core.op in ("mul", "add", "sub", "select", "div", "maximum", "minimum", "clip", "pow", "reduce"):
            stack += [a for a in core.args if a.op not in ("const", "index", "size") and id(a) not in seen]
            seen.update(id(a) for a in core.args)
    return False


def _log(cx: Context, term: Term, unbounded: set[str]) -> None:
    x = term.args[0]
    if 0.0 not in x.type.interval or _exact(x):
        return
    leaf = x if x.op != "pick" else x.args[0]
    if leaf.op == "leaf":
        name = str(leaf.attrs[0])
        bounded = x.type.interval.low >= 0
        if name in unbounded or (bounded and name not in _probabilities(cx)):
            message = f"`{name}` may be {'0' if bounded else '0 or less'}, and its log is taken"
            fix = (
                f"say where it lies: `{name} … in (0, inf)`" if not bounded else "leave 0 out of its interval: `(0, …`"
            )
            cx.warn("W0501", message, term.span, "log of 0 is -inf, its derivative infinite", fix)
        return
    if x.type.interval.low >= 0 and x.op in ("relu", "abs", "clip", "maximum", "reduce", "pow"):
        if x.op == "reduce" and x.attrs[0] == "count":
            return
        message = f"{_text(cx, x)} may be 0, and its log is taken"
        fix = "add what keeps it away from 0, or leave such entries out with `where`"
        cx.warn("W0501", message, term.span, "log of 0 is -inf, its derivative infinite", fix)


def _probabilities(cx: Context) -> set[str]:
    return {i.name for i in cx.inputs.values() if i.kind.startswith("prob")}


def _power(cx: Context, term: Term, moving: set[int]) -> None:
    x = term.args[0]
    if term.op == "pow":
        y = term.args[1].type
        low, high = y.interval.low, y.interval.high
        whole = y.kind != "real" or (low == high and low.is_integer())
        if x.type.interval.low < 0 and not whole and not _positive_by_form(x):
            message = f"{_text(cx, x)} may be negative, and {_text(cx, term.args[1])} need not be whole"
            fix = "take `abs(x)` or `relu(x)`, say the interval of an input, or make the exponent `: int`"
            cx.warn("W0510", message, term.span, "NaN where the base is negative", fix)
            return
        steep = 0 < high <= 1 and low >= 0 and not (low == high == 1)
    else:
        steep = True
    if not steep or id(x) not in moving or 0.0 not in x.type.interval or _exact(x) or x.type.interval.low < 0:
        return
    if x.op in ("leaf", "relu", "abs", "clip", "maximum", "pow", "reduce"):
        squares = x.op == "reduce" and x.attrs[0] == "sum" and x.args[0].op == "pow"
        fix = "`norm[D](x)` has the gradient 0 at 0" if squares else "write `if x > 0 then … else 0`, or add a constant"
        message = f"{_text(cx, x)} may be 0, where the derivative of {_text(cx, term)} is infinite"
        cx.warn("W0502", message, term.span, "infinite slope at 0", fix)


def _isolated(cx: Context, term: Term, moving: set[int]) -> None:
    """A value of its own at one point, as in sin(x)/x at 0: its derivatives there are those of that branch."""
    guard, yes, no = term.args
    turned = guard.op == "ne" or (guard.op == "not" and guard.args[0].op == "eq")
    guard = guard.args[0] if guard.op == "not" else guard
    there, beside = (no, yes) if turned else (yes, no)
    if guard.op in ("eq", "ne") and id(beside) in moving and any(id(a) in moving for a in guard.args):
        message = f"where {_text(cx, guard)} the derivatives are those of {_text(cx, there)}, not their limits"
        fix = "write a form that needs no such guard, or guard a neighbourhood with the first terms of the series"
        cx.warn("W0512", message, guard.span, "at this point alone", fix)


def _positive_by_form(x: Term) -> bool:
    return x.op in ("exp", "softmax", "sigmoid", "abs", "relu", "softplus")


def _single(cx: Context, term: Term) -> None:
    size = cx.sizes.get(base_axis(str(term.attrs[0])))
    if size is not None and size.op == "const" and size.attrs[0] == 1:
        message = f"`{term.attrs[0]}` has one entry, of which the softmax is 1 whatever it is"
        cx.warn("W0504", message, term.span, "always 1", "a single logit wants `sigmoid`")


def _epsilon(cx: Context, term: Term) -> None:
    for a in term.args:
        value = a.attrs[0] if a.op == "const" else None
        if isinstance(value, float | Fraction) and 0 < value < HALF:
            message = f"{float(value):g} is nothing in half precision, where numbers below 6e-8 are 0"
            fix = "leave it out where it guards a log of a softmax, which is exact; else make it a param"
            cx.warn("W0503", message, term.span, "lost in half precision", fix)


def _smoothing(cx: Context, checked: CheckedLoss, term: Term) -> None:
    """Log-probabilities of all classes, summed, where some logits are -inf by mask: the sum is -inf."""
    axes = term.attrs[1]
    body = term.args[0]
    if len(term.args) > 1 or not isinstance(axes, tuple):
        return
    while body.op in ("neg", "div") or (body.op == "mul" and any(a.op in ("const", "leaf") for a in body.args)):
        body = next((a for a in body.args if a.op not in ("const", "leaf", "size")), body.args[0])
        if body.op in ("const", "leaf"):
            return
    parts = body.args if body.op == "mul" else (body,)
    for part in parts:
        others = [p for p in parts if p is not part]
        if part.op != "log_softmax" or part.attrs[0] not in axes or any(o.type.interval.low <= 0 for o in others):
            continue
        hidden = [t for t in part.args[0].args if t.op == "const" and t.attrs[0] == float("-inf")]
        masked = part.args[0].op == "select" and bool(hidden)
        if masked or len(part.args) > 1:
            message = f"masked classes have log-probability -inf, and all classes of `{part.attrs[0]}` are summed"
            fix = f"leave them out of the sum too: `sum[{part.attrs[0]}](… where mask)`, or declare `axis … where mask`"
            cx.warn("W0506", message, term.span, "-inf as soon as one class is masked", fix)
