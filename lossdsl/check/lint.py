"""Warnings: what is allowed and probably not meant. A comment `# lossdsl: ignore W0501` in the file silences one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lossdsl.check.axes import walk
from lossdsl.check.context import Context, Scope
from lossdsl.check.lint_numeric import numeric
from lossdsl.check.typed import CheckedLoss, Term
from lossdsl.check.types import base_axis
from lossdsl.source.diagnostic import Diagnostic
from lossdsl.source.python_names import owner
from lossdsl.syntax import ast

_IGNORE = re.compile(r"#\s*lossdsl:\s*ignore\s+([A-Z0-9, ]+)")
_FLAT = frozenset({"floor", "round", "sign", "order", "detach", "index", "size", "not", "and", "or"})
_FLAT |= {"eq", "ne", "lt", "le", "gt", "ge", "isfinite"}


def lint(cx: Context, scope: Scope, loss: ast.LossDef, checked: CheckedLoss) -> tuple[Diagnostic, ...]:
    """The warnings of a loss that is right, in the order of the text."""
    ignored = {code for m in _IGNORE.finditer(cx.source.text) for code in re.findall(r"W\d{4}", m.group(1))}
    _unused(cx, scope, loss, checked)
    _renamed(cx, checked)
    _flat_inputs(cx, checked)
    _outside(cx, scope, loss, checked)
    numeric(cx, checked, list(reachable(roots(checked))))
    found = [w for w in cx.warnings if w.code not in ignored]
    return tuple(sorted(found, key=lambda d: (d.labels[0].span.start, d.code)))


def roots(checked: CheckedLoss) -> list[Term]:
    """The terms that decide the value."""
    terms = [checked.result, *(m for _, m in checked.conditions)]
    terms += [t for t in (checked.keep, checked.weight) if t is not None]
    terms += [t for _, t in checked.outputs]
    terms += [i.default for i in checked.inputs if i.default is not None]
    terms += [a.size for a in checked.axes if a.size is not None]
    return terms


def reachable(start: Sequence[Term], through: frozenset[str] | None = None) -> Iterator[Term]:
    """Every term below `start`, once; not below the operations of `through` if that is given."""
    stack, seen = list(start), {id(t) for t in start}
    while stack:
        term = stack.pop()
        yield term
        if through is not None and term.op in through:
            continue
        args: tuple[Term, ...] = term.args
        if through is not None:
            if term.op in ("select", "where"):
                args = args[1:] if term.op == "select" else args[:1]
            elif term.op in ("reduce", "softmax", "log_softmax", "cumsum", "pick"):
                args = () if term.op == "reduce" and term.attrs[0] in ("argmax", "count") else args[:1]
        for a in args:
            if id(a) not in seen:
                seen.add(id(a))
                stack.append(a)


# --- names --------------------------------------------------------------------------------------------------------


def _unused(cx: Context, scope: Scope, loss: ast.LossDef, checked: CheckedLoss) -> None:
    every = list(reachable(roots(checked)))
    leaves = {str(t.attrs[0]) for t in every if t.op == "leaf"}
    sized = {base_axis(str(t.attrs[0])) for t in every if t.op in ("size", "index", "reduce")}
    ids = {id(t) for t in every}
    count = Counter(b for i in checked.inputs for b in {base_axis(a) for a in i.axes})
    for i in checked.inputs:
        # An input that isn't read may be the one that says how long an axis is.
        if i.name not in leaves and not any(base_axis(a) in sized and count[base_axis(a)] == 1 for a in i.axes):
            cx.warn("W0505", f"the input `{i.name}` is not used", i.span, "never read", "take it out, or use it")
    for p in checked.params:
        if (p.name not in cx.called) if p.modes else (p.name not in leaves):
            cx.warn("W0505", f"the param `{p.name}` is not used", p.span, "never read", "take it out, or use it")
    read = {n.name for s in (*loss.body, loss.result) for n in _names(s)}
    read |= {n.name for o in loss.outputs for n in o.names}
    for statement in loss.body:
        if isinstance(statement, ast.Assign):
            term = scope.values.get(statement.name)
            if statement.name not in read and (term is None or id(term) not in ids):
                message = f"`{statement.name}` is assigned and not used"
                cx.warn("W0505", message, statement.name_span, "never read", "take the line out, or use it")
        elif statement.name not in cx.called and statement.name not in _modes(checked):
            cx.warn("W0505", f"`{statement.name}` is defined and not called", statement.span, "", "take it out")


def _renamed(cx: Context, checked: CheckedLoss) -> None:
    """Inputs and params that have another name in Python."""
    found = [(i.name, i.span, owner(i.name, False)) for i in checked.inputs]
    found += [(p.name, p.span, owner(p.name, True)) for p in checked.params if not p.modes]
    for name, span, who in found:
        if who:
            message = f"`{name}` is {who}, so this is called `{name}_` in Python"
            cx.warn("W0511", message, span, f"passed as `{name}_`", "rename it, or keep to that")


def _modes(checked: CheckedLoss) -> set[str]:
    return {m for p in checked.params for m in p.modes}


def _names(node: object) -> Iterator[ast.Name | ast.Primed]:
    return (n for n in walk(node) if isinstance(n, ast.Name | ast.Primed))


# --- gradients ------------------------------------------------------------------------------------------------------


def _flat_inputs(cx: Context, checked: CheckedLoss) -> None:
    """Inputs that could have a gradient, and never get one."""
    value = [t for t in (checked.result, checked.weight) if t is not None]
    moved = {str(t.attrs[0]) for t in reachable(value, _FLAT) if t.op == "leaf"}
    read = {str(t.attrs[0]) for t in reachable(value) if t.op == "leaf"}
    for i in checked.inputs:
        if i.kind == "real" and not i.fixed and i.draw is None and i.name in read and i.name not in moved:
            message = f"the gradient of `{i.name}` is zero everywhere: only its order or a detached value counts"
            cx.warn("W0508", message, i.span, "gets no gradient", "declare it `: fixed`")


# --- the outermost reduction ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Found:
    call: ast.Call
    outside: str


def _outside(cx: Context, scope: Scope, loss: ast.LossDef, checked: CheckedLoss) -> None:
    """A sign or factor outside the mean makes it a batch loss, whose reduction the caller can't replace."""
    if loss.kind != "loss" or checked.reduction is not None:
        return
    value = loss.result.value
    found = _wrapped(value)
    if isinstance(value, ast.Name):
        assigned = [s.value for s in loss.body if isinstance(s, ast.Assign) and s.name == value.name]
        if assigned and isinstance(assigned[0], ast.Call) and assigned[0].function in ("mean", "sum"):
            found = _Found(assigned[0], "a name")
    if found is None or found.call.function in scope.functions:
        return
    term = cx.expr(cx, scope, found.call)
    while term.op in ("div", "select"):  # a mean is a sum over a count, if there is anything
        term = term.args[0] if term.op == "div" else term.args[1]
    if term.type.axes or not _over(term) & set(scope.batch):
        return
    message = f"{found.outside} stands outside the {found.call.function}, so the caller can't choose the reduction"
    if found.outside == "a name":
        message = f"the {found.call.function} stands behind a name, so the caller can't choose the reduction"
    inside = {"the sign": "-…", "a factor": "k * …"}.get(found.outside)
    fix = "return it where it is written"
    if inside:
        fix = f"move it inside: `return {found.call.function}[…]({inside})`, as `lossdsl fmt --move-inside` does"
    cx.warn("W0507", message, loss.result.value.span, "", fix)


def _over(term: Term) -> set[str]:
    axes = term.attrs[1] if term.op == "reduce" else ()
    return set(axes) if isinstance(axes, tuple) else set()


def _wrapped(expr: ast.Expr) -> _Found | None:
    match expr:
        case ast.Unary("-", value=ast.Call(function="mean" | "sum") as call):
            return _Found(call, "the sign")
        case ast.Binary("*", left=left, right=ast.Call(function="mean" | "sum") as call) if _scalar(left):
            return _Found(call, "a factor")
        case ast.Binary("*" | "/", left=ast.Call(function="mean" | "sum") as call, right=right) if _scalar(right):
            return _Found(call, "a factor")
    return None


def _scalar(expr: ast.Expr) -> bool:
    return isinstance(expr, ast.Number | ast.Name)
