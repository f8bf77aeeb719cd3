"""Which of the caller's axes each axis of a loss used as a function stands for.

Batch axes bind to batch axes, others through index kinds, then by name, then the one left over; `f[C = K](…)` says it.
"""

from __future__ import annotations

from dataclasses import dataclass

from lossdsl.check.axes import resolve
from lossdsl.check.context import Context, Scope
from lossdsl.check.operators import accepts
from lossdsl.check.terms import is_index, is_poison
from lossdsl.check.typed import Term
from lossdsl.check.types import base_axis
from lossdsl.source.diagnostic import Label
from lossdsl.source.text import Span
from lossdsl.syntax import ast


@dataclass(frozen=True, slots=True)
class Actual:
    """A tensor given to a callee: its declared axes and kind, and what was given."""

    name: str
    axes: tuple[str, ...]
    kind: ast.Kind | None
    term: Term
    span: Span


def batch_names(loss: ast.LossDef) -> tuple[str, ...]:
    """The batch axes of a file: those it says, or the first axis of the first input that has one."""
    said = [a.name for d in loss.decls if isinstance(d, ast.BatchDecl) for a in d.axes]
    if said:
        return tuple(said)
    for d in loss.decls:
        if isinstance(d, ast.InputDecl):
            for item in d.items:
                if item.axes:  # a map of a vector has no batch: `input z[C]`
                    return (item.axes[0].name,) if loss.kind == "loss" or len(item.axes) > 1 else ()
    return ()


def bind(cx: Context, scope: Scope, expr: ast.Call, callee: ast.LossDef, actual: list[Actual], inner: Scope) -> bool:
    """Fill `inner.axes`, `values`, `batch` and `rows`; False after an error."""
    if any(is_poison(a.term) for a in actual):
        return False
    declared = list(dict.fromkeys(x for a in actual for x in a.axes))
    rows = tuple(r for r in batch_names(callee))
    bound: dict[str, list[str]] = {}
    if not _explicit(cx, scope, expr, callee, declared, bound) or not _kinds(cx, scope, callee, actual):
        return False
    _batches(scope, actual, rows, bound)
    if not _indices(cx, scope, callee, actual, bound):
        return False
    _names(actual, rows, bound)
    _left_over(scope, actual, rows, bound)
    taken = _taken(bound)
    riding: list[str] = []  # a map without a batch is the same for each of the axes that it doesn't know
    for a in actual:
        for x in sorted(a.term.type.axes, key=cx.axis_order):
            if x not in taken:  # what is bound to nothing joins the batch
                taken.add(x)
                if rows:
                    bound.setdefault(rows[0], []).append(x)
                else:
                    riding.append(x)
    for name in declared:
        if not bound.get(name):
            given = ", ".join(
                f"{cx.text(scope, a.span, a.name)} {cx.show_axes(a.term.type.axes)}" for a in actual if name in a.axes
            )
            message = f"nothing says which axis is `{name}` of `{callee.name}`: given are {given}"
            fix = f"say it: `{callee.name}[{name} = …](…)`"
            cx.error(scope, "E0307", message, expr.function_span, "", fix)
            return False
    for a in actual:
        wanted = {x for name in a.axes if name not in rows for x in bound[name]}
        missing = sorted(wanted - a.term.type.axes)
        if missing and a.term.type.axes & wanted:
            names = ", ".join(a.axes)
            message = (
                f"`{a.name}` of `{callee.name}` has [{names}], but {cx.text(scope, a.span)} has "
                f"{cx.show_axes(a.term.type.axes)}, no `{cx.shown.get(missing[0], missing[0])}`"
            )
            cx.error(scope, "E0307", message, a.span, "an axis is missing")
            return False
        inner.values[a.name] = cx.terms.fill(a.term, missing, scope.at(a.span))
    inner.axes.update({name: tuple(images) for name, images in bound.items() if images})
    inner.rows = rows
    inner.batch = tuple(x for r in rows for x in bound.get(r, ())) + tuple(riding)
    return True


def _explicit(
    cx: Context, scope: Scope, expr: ast.Call, callee: ast.LossDef, declared: list[str], bound: dict[str, list[str]]
) -> bool:
    for m in expr.axes:
        if m.to is None or not m.binds:
            message = f"`{callee.name}` is a loss: its axes are bound with `=`"
            example = declared[-1] if declared else "C"
            cx.error(scope, "E0307", message, m.span, "", f"write `{callee.name}[{example} = {m.axis.name}](…)`")
            return False
        if m.axis.name not in declared:
            message = f"`{callee.name}` has no axis `{m.axis.name}`"
            cx.error(scope, "E0307", message, m.axis.span, "", f"its axes are {', '.join(declared)}")
            return False
        axes = resolve(cx, scope, m.to.name, m.to.span)
        if axes is None:
            return False
        bound[m.axis.name] = list(axes)
    return True


def _kinds(cx: Context, scope: Scope, callee: ast.LossDef, actual: list[Actual]) -> bool:
    ok = True
    wrong = [a for a in actual if not _fits(a.kind, a.term)]
    for a in wrong:
        other = next((b for b in actual if b is not a and _fits(a.kind, b.term) and _fits(b.kind, a.term)), None)
        if other is not None and len(wrong) <= 2:
            first, second = sorted((a, other), key=actual.index)
            message = f"`{callee.name}` takes `{first.name}` before `{second.name}`: these two are exchanged"
            order = {first.name: second.span, second.name: first.span}
            given = [cx.text(scope, order.get(b.name, b.span), b.name).strip("`") for b in actual]
            labels = [Label(b.span, f"given as `{b.name}`") for b in (first, second)]
            fix = f"write `{callee.name}({', '.join(given)})`"
            cx.error(scope, "E0401", message, labels[0].span, labels[0].text, fix, labels[1])
            return False
    for a in wrong:
        kind = a.term.type.kind
        message = f"`{a.name}` of `{callee.name}` is {_spell(a.kind)}, but {cx.text(scope, a.span)} is {kind}"
        fix = ""
        others: tuple[Label, ...] = ()
        declared = cx.inputs.get(str(a.term.attrs[0])) if a.term.op == "leaf" else None
        if declared is not None:
            others = (Label(declared.span, "declared here"),)
            fix = f"declare `{declared.name}` as `: {_spell(a.kind)}`"
        cx.error(scope, "E0401", message, a.span, f"of kind {kind}", fix, *others)
        ok = False
    return ok


def _fits(kind: ast.Kind | None, term: Term) -> bool:
    wanted = kind.name if kind is not None else "real"
    if wanted == "index":
        return is_index(term.type.kind)
    if wanted == "label":
        return term.type.kind != "real"
    return accepts("real" if wanted == "prob" else wanted, term.type.kind)


def _spell(kind: ast.Kind | None) -> str:
    if kind is None:
        return "real"
    return f"{kind.name} {kind.axis.name}" if kind.axis is not None else kind.name


def _taken(bound: dict[str, list[str]]) -> set[str]:
    return {x for images in bound.values() for x in images}


def _batches(scope: Scope, actual: list[Actual], rows: tuple[str, ...], bound: dict[str, list[str]]) -> None:
    taken = _taken(bound)
    batched = [a.term.type.axes for a in actual if set(a.axes) & set(rows)]
    present = [b for b in scope.batch if b not in taken and any(b in axes for axes in batched)]
    free = [r for r in rows if r not in bound]
    if len(rows) > 1:
        for r in list(free):
            if r in present:
                bound[r] = [r]
                present.remove(r)
                free.remove(r)
        for r in list(free):
            if present:
                bound[r] = [present.pop(0)]
    elif free and present:
        bound[free[0]] = present


def _indices(cx: Context, scope: Scope, callee: ast.LossDef, actual: list[Actual], bound: dict[str, list[str]]) -> bool:
    for a in actual:
        if a.kind is None or a.kind.name != "index" or a.kind.axis is None or a.kind.axis.name in bound:
            continue
        name, base = a.kind.axis.name, a.term.type.kind.removeprefix("index ")
        taken = _taken(bound)
        near = {
            x
            for other in actual
            if name in other.axes
            for x in other.term.type.axes
            if base_axis(x) == base and x not in taken
        }
        if near:
            bound[name] = [min(near, key=len)]
        elif any(name in other.axes and other.term.type.axes for other in actual):
            other = next(o for o in actual if name in o.axes and o.term.type.axes)
            has = cx.show_axes(other.term.type.axes)
            what, value = cx.text(scope, a.span, a.name), cx.text(scope, other.span, other.name)
            message = f"{what} is an index into `{base}`, but {value} has {has}"
            label = Label(other.span, f"`{other.name}` of `{callee.name}`: this has {has}")
            cx.error(scope, "E0306", message, a.span, f"of kind index {base}", "", label)
            return False
    return True


def _names(actual: list[Actual], rows: tuple[str, ...], bound: dict[str, list[str]]) -> None:
    for a in actual:
        for name in a.axes:
            if name not in bound and name not in rows and name in a.term.type.axes - _taken(bound):
                bound[name] = [name]


def _left_over(scope: Scope, actual: list[Actual], rows: tuple[str, ...], bound: dict[str, list[str]]) -> None:
    changed = True
    while changed:
        changed = False
        for a in actual:
            missing = [n for n in a.axes if n not in bound]
            free = sorted(a.term.type.axes - _taken(bound))
            if len(free) > 1 and missing and missing[0] not in rows:
                free = [x for x in free if x not in scope.batch]
            if len(missing) == 1 and (len(free) == 1 or (free and missing[0] in rows)):
                bound[missing[0]] = free
                changed = True
